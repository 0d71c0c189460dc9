"""Deletion: grace, finalizers, preconditions, and what goes along."""

import pytest

from dovetail.ports.kubeerrors import Conflict, Forbidden, Invalid, NotFound
from dovetail.ports.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODE_CLAIMS,
    NODES,
    PODS,
    REPLICA_SETS,
    Resource,
)
from dovetail.sim.apiserver.deleting import DeleteOptions, Propagation
from dovetail.sim.apiserver.frozen import Object
from dovetail.sim.apiserver.options import ListOptions, PatchType
from tests.support.cluster import (
    Cluster,
    a_config_map,
    a_node,
    a_pod,
    a_replica_set,
    names,
    owned_by,
    run_pod,
    seen,
    with_finalizer,
)

NOW = DeleteOptions(grace_seconds=0)
FOREGROUND = DeleteOptions(propagation=Propagation.FOREGROUND)
ORPHAN = DeleteOptions(propagation=Propagation.ORPHAN)
NO_FINALIZERS = {"metadata": {"finalizers": None}}


def exists(cluster: Cluster, resource: Resource, name: str, namespace: str = "default") -> bool:
    try:
        cluster.get(resource, name, namespace)
    except NotFound:
        return False
    return True


def a_family(cluster: Cluster, *, blocks: bool = False) -> tuple[Object, Object]:
    """A Deployment that owns a ReplicaSet that owns two unbound pods."""
    deployment = cluster.create(DEPLOYMENTS, a_replica_set("deploy"))
    owned = owned_by(a_replica_set("rs"), deployment, blocks=blocks)
    replica_set = cluster.create(REPLICA_SETS, owned)
    for name in ("p1", "p2"):
        cluster.create(PODS, owned_by(a_pod(name), replica_set, blocks=blocks))
    return deployment, replica_set


def test_an_object_that_nothing_holds_is_gone_at_once() -> None:
    cluster = Cluster()
    cluster.create(CONFIG_MAPS, a_config_map("a"))

    cluster.delete(CONFIG_MAPS, "a", "default")

    assert not exists(cluster, CONFIG_MAPS, "a")
    with pytest.raises(NotFound):
        cluster.delete(CONFIG_MAPS, "a", "default")


def test_an_object_with_finalizers_waits_for_the_last_of_them() -> None:
    cluster = Cluster()
    cluster.create(NODES, with_finalizer(a_node("n"), "example.com/a", "example.com/b"))

    waiting = cluster.delete(NODES, "n")
    one_left = {"metadata": {"finalizers": ["example.com/b"]}}
    cluster.patch(NODES, "n", one_left, PatchType.MERGE)

    assert waiting["metadata"]["deletionTimestamp"] == "2026-01-01T09:00:00Z"
    assert exists(cluster, NODES, "n")
    cluster.patch(NODES, "n", NO_FINALIZERS, PatchType.MERGE)
    assert not exists(cluster, NODES, "n")


def test_deleting_again_what_waits_changes_nothing() -> None:
    cluster = Cluster()
    cluster.create(NODES, with_finalizer(a_node("n"), "example.com/a"))
    first = cluster.delete(NODES, "n")
    cluster.wait(60)

    assert cluster.delete(NODES, "n") == first


def test_a_dying_object_takes_no_new_finalizers() -> None:
    cluster = Cluster()
    cluster.create(NODES, with_finalizer(a_node("n"), "example.com/a"))
    cluster.delete(NODES, "n")
    more = {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}

    with pytest.raises(Invalid, match="no new finalizers"):
        cluster.patch(NODES, "n", more, PatchType.MERGE)


def test_marking_for_deletion_is_a_new_generation() -> None:
    cluster = Cluster()
    claim = with_finalizer({"metadata": {"name": "c"}, "spec": {}}, "karpenter.sh/termination")
    cluster.create(NODE_CLAIMS, claim)

    assert cluster.delete(NODE_CLAIMS, "c")["metadata"]["generation"] == 2


def test_a_bound_pod_waits_for_its_kubelet_and_an_unbound_one_vanishes() -> None:
    cluster = Cluster()
    run_pod(cluster, a_pod("bound", terminationGracePeriodSeconds=60))
    cluster.create(PODS, a_pod("unbound"))

    waiting = cluster.delete(PODS, "bound", "default")
    cluster.delete(PODS, "unbound", "default")

    assert waiting["metadata"]["deletionTimestamp"] == "2026-01-01T09:01:00Z"
    assert waiting["metadata"]["deletionGracePeriodSeconds"] == 60
    assert names(cluster.list(PODS).items) == ["bound"]
    cluster.delete(PODS, "bound", "default", options=NOW)
    assert names(cluster.list(PODS).items) == []


def test_a_finished_pod_needs_no_grace() -> None:
    cluster = Cluster()
    run_pod(cluster, a_pod("done"))
    finished = {"status": {"phase": "Succeeded"}}
    cluster.patch(PODS, "done", finished, PatchType.MERGE, "default", subresource="status")

    cluster.delete(PODS, "done", "default")

    assert not exists(cluster, PODS, "done")


def test_a_second_deletion_can_shorten_the_grace_but_not_lengthen_it() -> None:
    cluster = Cluster()
    run_pod(cluster, a_pod("p"))
    cluster.delete(PODS, "p", "default")
    cluster.wait(5)

    longer = cluster.delete(PODS, "p", "default", options=DeleteOptions(grace_seconds=300))
    shorter = cluster.delete(PODS, "p", "default", options=DeleteOptions(grace_seconds=10))

    assert longer["metadata"]["deletionTimestamp"] == "2026-01-01T09:00:30Z"
    assert shorter["metadata"]["deletionTimestamp"] == "2026-01-01T09:00:10Z"


def test_a_pod_that_was_stopped_still_waits_for_its_finalizers() -> None:
    cluster = Cluster()
    run_pod(cluster, with_finalizer(a_pod("p"), "batch.kubernetes.io/job-tracking"))
    cluster.delete(PODS, "p", "default")

    cluster.delete(PODS, "p", "default", options=NOW)

    assert exists(cluster, PODS, "p")
    cluster.patch(PODS, "p", NO_FINALIZERS, PatchType.MERGE, "default")
    assert not exists(cluster, PODS, "p")


def test_a_pod_without_finalizers_still_waits_for_its_grace() -> None:
    cluster = Cluster()
    run_pod(cluster, with_finalizer(a_pod("p"), "example.com/a"))
    cluster.delete(PODS, "p", "default")

    cluster.patch(PODS, "p", NO_FINALIZERS, PatchType.MERGE, "default")

    assert exists(cluster, PODS, "p")


@pytest.mark.parametrize(
    "options", [DeleteOptions(uid="other"), DeleteOptions(resource_version="1")]
)
def test_a_precondition_that_does_not_hold_is_a_conflict(options: DeleteOptions) -> None:
    cluster = Cluster()
    cluster.create(NODES, a_node("n"))

    with pytest.raises(Conflict, match="in the precondition"):
        cluster.delete(NODES, "n", options=options)

    assert exists(cluster, NODES, "n", "")


def test_preconditions_that_hold_let_the_deletion_through() -> None:
    cluster = Cluster()
    meta = cluster.create(NODES, a_node("n"))["metadata"]

    options = DeleteOptions(uid=meta["uid"], resource_version=meta["resourceVersion"])
    cluster.delete(NODES, "n", options=options)

    assert not exists(cluster, NODES, "n")


def test_what_an_object_owns_is_collected_after_it_generation_by_generation() -> None:
    cluster = Cluster()
    a_family(cluster)
    watches = [cluster.watch(one) for one in (DEPLOYMENTS, REPLICA_SETS, PODS)]
    for watch in watches:
        watch.take()

    cluster.delete(DEPLOYMENTS, "deploy", "default")

    gone = [event for watch in watches for event in watch.take()]
    assert [one.type.value for one in gone] == ["DELETED"] * 4
    assert names(one.object for one in gone) == ["deploy", "rs", "p1", "p2"]
    revisions = [int(one.object["metadata"]["resourceVersion"]) for one in gone]
    assert revisions == sorted(revisions)


def test_an_owner_that_waits_for_finalizers_keeps_its_dependents() -> None:
    cluster = Cluster()
    owner = cluster.create(REPLICA_SETS, with_finalizer(a_replica_set("rs"), "example.com/a"))
    cluster.create(PODS, owned_by(a_pod("p"), owner))

    cluster.delete(REPLICA_SETS, "rs", "default")

    assert exists(cluster, PODS, "p")
    cluster.patch(REPLICA_SETS, "rs", NO_FINALIZERS, PatchType.MERGE, "default")
    assert not exists(cluster, PODS, "p")


def test_an_object_with_another_living_owner_only_loses_the_reference() -> None:
    cluster = Cluster()
    first = cluster.create(REPLICA_SETS, a_replica_set("first"))
    second = cluster.create(REPLICA_SETS, a_replica_set("second"))
    cluster.create(PODS, owned_by(a_pod("p"), first, second))

    cluster.delete(REPLICA_SETS, "first", "default")

    owners = cluster.get(PODS, "p", "default")["metadata"]["ownerReferences"]
    assert [one["name"] for one in owners] == ["second"]


def test_an_object_whose_owner_is_already_gone_is_collected_as_soon_as_it_is_made() -> None:
    cluster = Cluster()
    owner = cluster.create(REPLICA_SETS, a_replica_set("rs"))
    cluster.delete(REPLICA_SETS, "rs", "default")
    watch = cluster.watch(PODS)

    cluster.create(PODS, owned_by(a_pod("late"), owner))

    assert seen(watch) == [("ADDED", "late"), ("DELETED", "late")]


def test_an_object_owned_by_a_kind_that_is_not_served_is_left_alone() -> None:
    cluster = Cluster()
    foreign = {"apiVersion": "x.io/v1", "kind": "Rollout", "metadata": {"name": "r", "uid": "u"}}

    cluster.create(PODS, owned_by(a_pod("p"), foreign))

    assert exists(cluster, PODS, "p")


def test_orphaned_dependents_stay_and_forget_their_owner() -> None:
    cluster = Cluster()
    a_family(cluster)

    cluster.delete(DEPLOYMENTS, "deploy", "default", options=ORPHAN)

    assert not exists(cluster, DEPLOYMENTS, "deploy")
    kept = cluster.get(REPLICA_SETS, "rs", "default")
    assert "ownerReferences" not in kept["metadata"]
    assert names(cluster.list(PODS).items) == ["p1", "p2"]


def test_in_the_foreground_the_owner_goes_last() -> None:
    cluster = Cluster()
    _, replica_set = a_family(cluster, blocks=True)
    run_pod(cluster, owned_by(a_pod("slow"), replica_set, blocks=True))

    waiting = cluster.delete(DEPLOYMENTS, "deploy", "default", options=FOREGROUND)

    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert exists(cluster, REPLICA_SETS, "rs")
    assert names(cluster.list(PODS).items) == ["slow"]
    cluster.delete(PODS, "slow", "default", options=NOW)
    assert not exists(cluster, REPLICA_SETS, "rs")
    assert not exists(cluster, DEPLOYMENTS, "deploy")


def test_in_the_foreground_nobody_waits_for_dependents_that_do_not_block() -> None:
    cluster = Cluster()
    owner = cluster.create(REPLICA_SETS, a_replica_set("rs"))
    run_pod(cluster, owned_by(a_pod("slow"), owner, blocks=False))

    cluster.delete(REPLICA_SETS, "rs", "default", options=FOREGROUND)

    assert not exists(cluster, REPLICA_SETS, "rs")
    assert cluster.get(PODS, "slow", "default")["metadata"]["deletionTimestamp"]


def test_a_dependent_that_stops_blocking_lets_its_owner_go() -> None:
    cluster = Cluster()
    owner = cluster.create(REPLICA_SETS, a_replica_set("rs"))
    run_pod(cluster, owned_by(a_pod("slow"), owner, blocks=True))
    cluster.delete(REPLICA_SETS, "rs", "default", options=FOREGROUND)

    disowned = {"metadata": {"ownerReferences": None}}
    cluster.patch(PODS, "slow", disowned, PatchType.MERGE, "default")

    assert not exists(cluster, REPLICA_SETS, "rs")
    assert exists(cluster, PODS, "slow")


def test_an_owner_that_waits_in_the_foreground_can_still_be_told_to_let_go() -> None:
    cluster = Cluster()
    owner = cluster.create(REPLICA_SETS, a_replica_set("rs"))
    run_pod(cluster, owned_by(a_pod("slow"), owner, blocks=True))
    cluster.delete(REPLICA_SETS, "rs", "default", options=FOREGROUND)

    cluster.delete(REPLICA_SETS, "rs", "default", options=ORPHAN)

    assert not exists(cluster, REPLICA_SETS, "rs")
    assert exists(cluster, PODS, "slow")


def test_two_objects_that_own_each_other_go_together_even_in_the_foreground() -> None:
    cluster = Cluster()
    first = cluster.create(CONFIG_MAPS, a_config_map("a"))
    second = cluster.create(CONFIG_MAPS, owned_by(a_config_map("b"), first, blocks=True))
    circle = {"metadata": owned_by(a_config_map("a"), second, blocks=True)["metadata"]}
    cluster.patch(CONFIG_MAPS, "a", circle, PatchType.MERGE, "default")

    cluster.delete(CONFIG_MAPS, "a", "default", options=FOREGROUND)

    assert cluster.list(CONFIG_MAPS).items == []


def test_a_deleted_namespace_takes_its_content_along() -> None:
    cluster = Cluster()
    cluster.create(NAMESPACES, {"metadata": {"name": "old"}})
    for name in "ab":
        cluster.create(CONFIG_MAPS, {"metadata": {"name": name}}, "old")
    cluster.create(CONFIG_MAPS, a_config_map("elsewhere"))

    cluster.delete(NAMESPACES, "old")

    assert not exists(cluster, NAMESPACES, "old")
    assert names(cluster.list(CONFIG_MAPS).items) == ["elsewhere"]


def test_a_namespace_waits_until_its_last_object_is_gone() -> None:
    cluster = Cluster()
    cluster.create(NAMESPACES, {"metadata": {"name": "old"}})
    cluster.create(CONFIG_MAPS, with_finalizer({"metadata": {"name": "a"}}, "x.io/y"), "old")

    waiting = cluster.delete(NAMESPACES, "old")

    assert waiting["status"]["phase"] == "Terminating"
    cluster.patch(CONFIG_MAPS, "a", NO_FINALIZERS, PatchType.MERGE, "old")
    assert not exists(cluster, NAMESPACES, "old")


def test_the_namespaces_every_cluster_has_cannot_be_deleted() -> None:
    with pytest.raises(Forbidden):
        Cluster().delete(NAMESPACES, "kube-system")


def test_a_collection_is_deleted_by_selector() -> None:
    cluster = Cluster()
    for name, app in (("a", "web"), ("b", "db"), ("c", "web")):
        cluster.create(PODS, a_pod(name, labels={"app": app}))

    cluster.delete_all(PODS, ListOptions(namespace="default", labels="app=web"))

    assert names(cluster.list(PODS).items) == ["b"]


def test_a_dry_run_deletes_nothing() -> None:
    cluster = Cluster()
    cluster.create(PODS, a_pod("a"))

    cluster.delete(PODS, "a", "default", options=DeleteOptions(dry_run=True))

    assert exists(cluster, PODS, "a")
