"""Guarantees of the simulated server only: frozen objects, the same names in every run."""

import copy
from typing import Any

import pytest

from dovetail.ports.api_resources import PODS
from dovetail.simulator.apiserver.server import ApiServer
from tests.support.simulator.api_server import Cluster, a_pod, names


def generated(prefix: str) -> dict[str, Any]:
    """A pod that leaves its name to the server."""
    return {**a_pod(""), "metadata": {"generateName": prefix, "namespace": "default"}}


def test_generated_names_differ_from_each_other_and_are_the_same_in_every_run() -> None:
    def create(disturbed: bool) -> list[str]:
        cluster = Cluster()
        created = []
        for _ in range(50):
            if disturbed:
                cluster.create(PODS, generated("db-"))
            created.append(cluster.create(PODS, generated("web-")))
        return names(created)

    calm, disturbed = create(False), create(True)

    assert len(set(calm)) == 50
    assert all(name.startswith("web-") and len(name) == 9 for name in calm)
    assert calm == disturbed


def test_a_generated_name_avoids_one_that_is_taken() -> None:
    probe, cluster = Cluster(), Cluster()
    would_be = probe.create(PODS, generated("web-"))
    cluster.create(PODS, a_pod(would_be["metadata"]["name"]))

    created = cluster.create(PODS, generated("web-"))

    assert created["metadata"]["name"] != would_be["metadata"]["name"]


def test_returned_objects_are_frozen_and_stored_ones_are_copies() -> None:
    cluster = Cluster()
    given = a_pod("a", labels={"x": "y"})
    returned = cluster.create(PODS, given)

    given["metadata"]["labels"]["x"] = "z"
    given["spec"]["containers"].append({"name": "more"})
    with pytest.raises(TypeError, match="cannot be changed"):
        returned["metadata"]["labels"]["x"] = "z"
    with pytest.raises(TypeError, match="cannot be changed"):
        returned["spec"]["containers"].append({})
    editable = copy.deepcopy(returned)
    editable["metadata"]["labels"]["x"] = "z"

    kept = cluster.get(PODS, "a", "default")
    assert kept["metadata"]["labels"] == {"x": "y"}
    assert len(kept["spec"]["containers"]) == 1


def test_two_servers_with_the_same_calls_store_the_same_objects() -> None:
    def run() -> ApiServer:
        cluster = Cluster()
        for name in "abc":
            cluster.create(PODS, a_pod(name))
        cluster.delete(PODS, "b", "default")
        cluster.create(PODS, generated("d-"))
        return cluster

    assert run().list(PODS) == run().list(PODS)
