"""Resources of new pods: LimitRange defaults and constraints, RuntimeClass overhead."""

from typing import Any

import pytest

from dovetail.ports.api_resources import LIMIT_RANGES, PODS, RUNTIME_CLASSES
from dovetail.ports.kube_errors import Forbidden, Invalid
from tests.contract.apiserver.objects import a_pod
from tests.contract.apiserver.subject import Object, Subject


def a_limit_range(**item: Any) -> Object:
    return {"metadata": {"name": "limits"}, "spec": {"limits": [{"type": "Container", **item}]}}


def requests(containers: list[Object]) -> list[dict[str, str]]:
    return [container["resources"].get("requests", {}) for container in containers]


def test_containers_and_init_containers_without_requests_get_the_defaults(server: Subject) -> None:
    server.create(LIMIT_RANGES, a_limit_range(defaultRequest={"cpu": "300m"}, default={"memory": "1Gi"}))
    init_containers = [
        {"name": "init", "image": "app:1"},
        {"name": "sidecar", "image": "app:1", "restartPolicy": "Always"},
    ]
    containers = [
        {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}},
        {"name": "other", "image": "app:1"},
    ]

    pod = server.create(PODS, a_pod("p", containers=containers, initContainers=init_containers))

    defaults = {"cpu": "300m", "memory": "1Gi"}
    assert requests(pod["spec"]["initContainers"]) == [defaults, defaults]
    assert requests(pod["spec"]["containers"]) == [{"cpu": "1", "memory": "1Gi"}, defaults]
    assert pod["spec"]["containers"][1]["resources"]["limits"] == {"memory": "1Gi"}
    assert pod["status"]["qosClass"] == "Burstable"


def test_maxima_are_default_limits_and_requests_and_minima_default_requests(server: Subject) -> None:
    stored = server.create(
        LIMIT_RANGES, a_limit_range(max={"cpu": "2"}, min={"cpu": "100m", "memory": "1Mi"})
    )

    pod = server.create(PODS, a_pod("p"))

    (item,) = stored["spec"]["limits"]
    assert item["default"] == {"cpu": "2"}
    assert item["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}
    assert requests(pod["spec"]["containers"]) == [{"cpu": "2", "memory": "1Mi"}]


@pytest.mark.parametrize(
    ("item", "resources"),
    [
        ({"max": {"cpu": "1"}}, {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}),
        ({"min": {"cpu": "1"}}, {"requests": {"cpu": "500m"}}),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}),
        ({"type": "Pod", "max": {"cpu": "1"}}, {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}),
        ({"type": "Pod", "max": {"cpu": "1"}}, {"requests": {"cpu": "500m"}}),
    ],
    ids=["more than the maximum", "less than the minimum", "ratio", "pod", "pod without limit"],
)
def test_a_pod_outside_of_a_limit_range_is_rejected(server: Subject, item: Object, resources: Object) -> None:
    server.create(LIMIT_RANGES, a_limit_range(**item))
    containers = [{"name": "main", "image": "app:1", "resources": resources}]

    with pytest.raises(Forbidden, match="is forbidden"):
        server.create(PODS, a_pod("p", containers=containers))


@pytest.mark.parametrize("part", ["requests", "limits"])
def test_a_resource_of_a_container_is_standard_or_has_a_domain(server: Subject, part: str) -> None:
    containers = [{"name": "main", "image": "app:1", "resources": {part: {"gpu": "1"}}}]

    with pytest.raises(Invalid, match="must be a standard resource type or fully qualified"):
        server.create(PODS, a_pod("p", containers=containers))


def test_a_pod_has_the_overhead_and_node_selector_of_its_runtime_class(server: Subject) -> None:
    name = server.unique("sandboxed")
    toleration = {"key": "sandboxed", "operator": "Exists", "effect": "NoSchedule"}
    server.create(
        RUNTIME_CLASSES,
        {
            "metadata": {"name": name},
            "handler": "kata",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
            "scheduling": {"nodeSelector": {"runtime": "kata"}, "tolerations": [toleration]},
        },
    )

    pod = server.create(PODS, a_pod("p", runtimeClassName=name, nodeSelector={"disk": "fast"}))

    assert pod["spec"]["overhead"] == {"cpu": "250m", "memory": "120Mi"}
    assert pod["spec"]["nodeSelector"] == {"disk": "fast", "runtime": "kata"}
    assert toleration in pod["spec"]["tolerations"]


def test_a_pod_of_a_missing_runtime_class_is_rejected(server: Subject) -> None:
    with pytest.raises(Forbidden, match='RuntimeClass "missing" not found'):
        server.create(PODS, a_pod("p", runtimeClassName="missing"))
