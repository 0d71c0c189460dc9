"""What only a simulated server promises: frozen objects, the same names in every run."""

import copy
from typing import Any

import pytest

from dovetail.ports.api_resources import PODS
from dovetail.simulator.apiserver.server import ApiServer
from tests.support.cluster import Cluster, a_pod, names


def generated(prefix: str) -> dict[str, Any]:
    """A pod that leaves its name to the server."""
    return {**a_pod(""), "metadata": {"generateName": prefix, "namespace": "default"}}


def test_generated_names_differ_from_each_other_and_are_the_same_in_every_run() -> None:
    def create(disturbed: bool) -> list[str]:
        cluster = Cluster()
        made = []
        for _ in range(50):
            if disturbed:
                cluster.create(PODS, generated("db-"))
            made.append(cluster.create(PODS, generated("web-")))
        return names(made)

    calm, disturbed = create(False), create(True)

    assert len(set(calm)) == 50
    assert all(one.startswith("web-") and len(one) == 9 for one in calm)
    assert calm == disturbed


def test_a_generated_name_avoids_one_that_is_taken() -> None:
    probe, cluster = Cluster(), Cluster()
    would_be = probe.create(PODS, generated("web-"))
    cluster.create(PODS, a_pod(would_be["metadata"]["name"]))

    made = cluster.create(PODS, generated("web-"))

    assert made["metadata"]["name"] != would_be["metadata"]["name"]


def test_what_the_server_returns_cannot_be_changed_and_what_it_took_is_a_copy() -> None:
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


def test_two_servers_given_the_same_calls_hold_the_same_objects() -> None:
    def run() -> ApiServer:
        cluster = Cluster()
        for name in "abc":
            cluster.create(PODS, a_pod(name))
        cluster.delete(PODS, "b", "default")
        cluster.create(PODS, generated("d-"))
        return cluster

    assert run().list(PODS) == run().list(PODS)
