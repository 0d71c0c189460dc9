"""Deletion on the virtual clock, and owner graphs that are hard to create elsewhere."""

from dovetail.ports.api_resources import CONFIG_MAPS, PODS, REPLICA_SETS
from dovetail.simulator.apiserver.options import DeleteOptions, PatchType, PropagationPolicy
from tests.support.simulator.api_server import (
    Cluster,
    a_config_map,
    a_pod,
    a_replica_set,
    names,
    owned_by,
    run_pod,
)

FOREGROUND = DeleteOptions(propagation_policy=PropagationPolicy.FOREGROUND)
ORPHAN = DeleteOptions(propagation_policy=PropagationPolicy.ORPHAN)


def test_the_grace_period_of_a_pod_counts_from_its_first_deletion() -> None:
    cluster = Cluster()
    run_pod(cluster, a_pod("p"))
    cluster.delete(PODS, "p", "default")
    cluster.wait(5)

    longer = cluster.delete(PODS, "p", "default", options=DeleteOptions(grace_period_seconds=300))
    shorter = cluster.delete(PODS, "p", "default", options=DeleteOptions(grace_period_seconds=10))

    assert longer["metadata"]["deletionTimestamp"] == "2026-01-01T09:00:30Z"
    assert shorter["metadata"]["deletionTimestamp"] == "2026-01-01T09:00:10Z"


def test_an_owner_in_foreground_deletion_can_still_orphan_its_dependents() -> None:
    cluster = Cluster()
    owner = cluster.create(REPLICA_SETS, a_replica_set("rs"))
    run_pod(cluster, owned_by(a_pod("slow"), owner, blocks=True))
    cluster.delete(REPLICA_SETS, "rs", "default", options=FOREGROUND)

    cluster.delete(REPLICA_SETS, "rs", "default", options=ORPHAN)

    assert cluster.list(REPLICA_SETS).items == []
    assert names(cluster.list(PODS).items) == ["slow"]


def test_two_objects_that_own_each_other_are_deleted_together_even_in_the_foreground() -> None:
    cluster = Cluster()
    first = cluster.create(CONFIG_MAPS, a_config_map("a"))
    second = cluster.create(CONFIG_MAPS, owned_by(a_config_map("b"), first, blocks=True))
    circle = {"metadata": owned_by(a_config_map("a"), second, blocks=True)["metadata"]}
    cluster.patch(CONFIG_MAPS, "a", circle, PatchType.MERGE, "default")

    cluster.delete(CONFIG_MAPS, "a", "default", options=FOREGROUND)

    assert cluster.list(CONFIG_MAPS).items == []
