"""The scale subresource."""

from contextlib import suppress
from typing import Any

import pytest

from dovetail.ports.api_resources import DEPLOYMENTS
from dovetail.ports.kube_errors import BadRequest, Conflict, Invalid
from tests.contract.apiserver.objects import a_deployment
from tests.contract.apiserver.subject import Subject

Raw = dict[str, Any]


def test_scale_shows_replicas_and_the_selector_as_text(server: Subject) -> None:
    server.create(DEPLOYMENTS, a_deployment("d", replicas=3))

    scale = server.get(DEPLOYMENTS, "d", subresource="scale")

    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"]["selector"] == "app=web"


def test_a_changed_scale_changes_the_workload(server: Subject) -> None:
    server.create(DEPLOYMENTS, a_deployment("d", replicas=3))

    scale, answer = scaled_to(10, server)

    deployment = server.get(DEPLOYMENTS, "d")
    assert answer["spec"] == {"replicas": 10}
    assert deployment["spec"]["replicas"] == 10
    assert deployment["metadata"]["generation"] == 2
    with pytest.raises(Conflict):
        server.update(DEPLOYMENTS, scale, subresource="scale")


def scaled_to(replicas: int, server: Subject) -> tuple[Raw, Raw]:
    """Write a scale as it was read; again where a Deployment controller wrote in between."""
    while True:
        scale = server.get(DEPLOYMENTS, "d", subresource="scale")
        scale["spec"]["replicas"] = replicas
        with suppress(Conflict):
            return scale, server.update(DEPLOYMENTS, scale, subresource="scale")


def test_a_scale_without_replicas_means_zero(server: Subject) -> None:
    server.create(DEPLOYMENTS, a_deployment("d", replicas=3))

    server.patch(DEPLOYMENTS, "d", {"spec": {"replicas": None}}, subresource="scale")

    assert server.get(DEPLOYMENTS, "d")["spec"]["replicas"] == 0


def test_a_scale_below_zero_is_invalid(server: Subject) -> None:
    server.create(DEPLOYMENTS, a_deployment("d"))

    with pytest.raises(Invalid, match="must be greater than or equal to 0"):
        server.patch(DEPLOYMENTS, "d", {"spec": {"replicas": -1}}, subresource="scale")


def test_a_scale_that_is_not_an_integer_is_a_bad_request(server: Subject) -> None:
    server.create(DEPLOYMENTS, a_deployment("d"))
    scale = server.get(DEPLOYMENTS, "d", subresource="scale")

    for wrong in ("3", True):
        scale["spec"]["replicas"] = wrong
        with pytest.raises(BadRequest):
            server.update(DEPLOYMENTS, scale, subresource="scale")
