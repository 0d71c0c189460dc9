"""Any custom resource is stored or rejected with a Status; the server never fails."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, Resource
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.storage.frozen_object import Object, thaw
from tests.codec.inputs.test_any_input import JUNK, field_paths, with_junk
from tests.contract.apiserver.objects import a_node_claim, a_node_class, a_node_pool
from tests.support.simulator.api_server import Cluster

GOOD: list[tuple[Resource, dict[str, Any]]] = [
    (NODE_POOLS, a_node_pool("p", disruption={"budgets": [{"nodes": "1"}]}, limits={"cpu": 1})),
    (NODE_CLAIMS, a_node_claim("c", taints=[{"key": "a", "effect": "NoSchedule"}])),
    (EC2_NODE_CLASSES, a_node_class("k", kubelet={"maxPods": 1}, tags={"a": "b"})),
]


def refused(write: Callable[[], Object]) -> Object | None:
    """Return what was stored; None if a Status says why not."""
    try:
        return write()
    except ApiError as error:
        code: int = error.status()["code"]
        return None if code in (400, 422) else {"unexpected": code}


def test_the_unmodified_objects_are_valid() -> None:
    cluster = Cluster()

    for resource, obj in GOOD:
        cluster.create(resource, obj)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(GOOD), st.data())
def test_a_custom_resource_with_junk_anywhere_is_stored_or_rejected(
    good: tuple[Resource, dict[str, Any]], data: st.DataObject
) -> None:
    resource, obj = good
    path = data.draw(st.sampled_from([place for place in field_paths(obj) if place]))
    cluster = Cluster()

    stored = refused(lambda: cluster.create(resource, with_junk(obj, path, data.draw(JUNK))))
    other = cluster.create(resource, {**obj, "metadata": {"name": "good"}})
    spoilt = with_junk(thaw(other), path, data.draw(JUNK))
    spoilt["metadata"] = other["metadata"]
    changed = refused(lambda: cluster.update(resource, spoilt))

    for candidate in (stored, changed):
        assert candidate is None or cluster.update(resource, candidate) == candidate
