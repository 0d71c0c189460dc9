"""Whatever is deleted, in whichever way: nothing is left half gone or without an owner."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ports.api_resources import CONFIG_MAPS, NAMESPACES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.delete import DeleteOptions, Propagation
from dovetail.simulator.apiserver.options import ListOptions, PatchType
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from tests.support.cluster import Cluster, owned_by, replayed, with_finalizer

COUNT = 6
INDEXES = st.integers(0, COUNT - 1)
OBJECTS = st.lists(
    st.tuples(st.sets(INDEXES, max_size=2), st.booleans(), st.booleans()),
    min_size=COUNT,
    max_size=COUNT,
)
DELETIONS = st.lists(
    st.one_of(
        st.tuples(INDEXES, st.sampled_from(list(Propagation))),
        st.just(("namespace", Propagation.BACKGROUND)),
    ),
    min_size=1,
    max_size=4,
)
HOLD = "x.io/hold"


def build(cluster: Cluster, objects: list[tuple[set[int], bool, bool]]) -> None:
    """Make objects first and owners second, so that they may own each other in circles."""
    cluster.create(NAMESPACES, {"metadata": {"name": "ns"}})
    made = []
    for number, (_, _, held) in enumerate(objects):
        obj: dict[str, Any] = {"metadata": {"name": f"o{number}", "namespace": "ns"}}
        made.append(cluster.create(CONFIG_MAPS, with_finalizer(obj, HOLD) if held else obj))
    for number, (owners, blocks, _) in enumerate(objects):
        living = [made[one] for one in sorted(owners) if one != number]
        patch = {"metadata": owned_by({"metadata": {}}, *living, blocks=blocks)["metadata"]}
        cluster.patch(CONFIG_MAPS, f"o{number}", patch, PatchType.MERGE, "ns")


def let_everything_go(cluster: Cluster) -> None:
    for listed in cluster.list(CONFIG_MAPS, ListOptions(namespace="ns")).items:
        try:
            current = thaw(cluster.get(CONFIG_MAPS, listed["metadata"]["name"], "ns"))
        except NotFound:
            continue
        kept = [one for one in current["metadata"].get("finalizers", ()) if one != HOLD]
        current["metadata"]["finalizers"] = kept
        cluster.update(CONFIG_MAPS, current)


@settings(deadline=None)
@given(OBJECTS, DELETIONS)
def test_once_the_finalizers_are_off_all_that_remains_is_alive_and_owned_by_the_living(
    objects: list[tuple[set[int], bool, bool]], deletions: list[tuple[Any, Propagation]]
) -> None:
    cluster = Cluster()
    watch = cluster.watch(CONFIG_MAPS)
    build(cluster, objects)
    for what, how in deletions:
        options = DeleteOptions(propagation=how)
        try:
            if what == "namespace":
                cluster.delete(NAMESPACES, "ns", options=options)
            else:
                cluster.delete(CONFIG_MAPS, f"o{what}", "ns", options=options)
        except NotFound:
            continue

    let_everything_go(cluster)

    remaining = cluster.list(CONFIG_MAPS).items
    living = {one["metadata"]["uid"] for one in remaining}
    for one in remaining:
        assert "deletionTimestamp" not in one["metadata"]
        assert {owner["uid"] for owner in one["metadata"].get("ownerReferences", ())} <= living
    namespaces = {one["metadata"]["name"] for one in cluster.list(NAMESPACES).items}
    assert ("ns" not in namespaces) is any(what == "namespace" for what, _ in deletions)
    assert "ns" in namespaces or not remaining
    assert replayed(watch.take()) == {one["metadata"]["name"]: one for one in remaining}
