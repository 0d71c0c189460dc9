"""Garbage collection of random object graphs leaves no object without an owner."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ports.api_resources import CONFIG_MAPS, NAMESPACES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import DeleteOptions, ListOptions, PatchType, PropagationPolicy
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from tests.support.simulator.api_server import Cluster, owned_by, replayed, with_finalizer

COUNT = 6
INDEXES = st.integers(0, COUNT - 1)
OBJECTS = st.lists(
    st.tuples(st.sets(INDEXES, max_size=2), st.booleans(), st.booleans()), min_size=COUNT, max_size=COUNT
)
DELETIONS = st.lists(
    st.one_of(
        st.tuples(INDEXES, st.sampled_from(list(PropagationPolicy))),
        st.just(("namespace", PropagationPolicy.BACKGROUND)),
    ),
    min_size=1,
    max_size=4,
)
HOLD = "x.io/hold"


def build(cluster: Cluster, objects: list[tuple[set[int], bool, bool]]) -> None:
    """Make objects first and owners second, so that they may own each other in circles."""
    cluster.create(NAMESPACES, {"metadata": {"name": "ns"}})
    created = []
    for number, (_, _, held) in enumerate(objects):
        obj: dict[str, Any] = {"metadata": {"name": f"o{number}", "namespace": "ns"}}
        created.append(cluster.create(CONFIG_MAPS, with_finalizer(obj, HOLD) if held else obj))
    for number, (owners, blocks, _) in enumerate(objects):
        living = [created[owner] for owner in sorted(owners) if owner != number]
        patch = {"metadata": owned_by({"metadata": {}}, *living, blocks=blocks)["metadata"]}
        cluster.patch(CONFIG_MAPS, f"o{number}", patch, PatchType.MERGE, "ns")


def let_everything_go(cluster: Cluster) -> None:
    for listed in cluster.list(CONFIG_MAPS, ListOptions(namespace="ns")).items:
        try:
            current = thaw(cluster.get(CONFIG_MAPS, listed["metadata"]["name"], "ns"))
        except NotFound:
            continue
        kept = [finalizer for finalizer in current["metadata"].get("finalizers", ()) if finalizer != HOLD]
        current["metadata"]["finalizers"] = kept
        cluster.update(CONFIG_MAPS, current)


@settings(deadline=None)
@given(OBJECTS, DELETIONS)
def test_without_finalizers_only_objects_with_existing_owners_remain(
    objects: list[tuple[set[int], bool, bool]], deletions: list[tuple[Any, PropagationPolicy]]
) -> None:
    cluster = Cluster()
    watch = cluster.watch(CONFIG_MAPS)
    build(cluster, objects)
    for what, how in deletions:
        options = DeleteOptions(propagation_policy=how)
        try:
            if what == "namespace":
                cluster.delete(NAMESPACES, "ns", options=options)
            else:
                cluster.delete(CONFIG_MAPS, f"o{what}", "ns", options=options)
        except NotFound:
            continue

    let_everything_go(cluster)

    remaining = cluster.list(CONFIG_MAPS).items
    living = {obj["metadata"]["uid"] for obj in remaining}
    for obj in remaining:
        assert "deletionTimestamp" not in obj["metadata"]
        assert {owner["uid"] for owner in obj["metadata"].get("ownerReferences", ())} <= living
    namespaces = {namespace["metadata"]["name"] for namespace in cluster.list(NAMESPACES).items}
    assert ("ns" not in namespaces) is any(what == "namespace" for what, _ in deletions)
    assert "ns" in namespaces or not remaining
    assert replayed(watch.poll()) == {obj["metadata"]["name"]: obj for obj in remaining}
