"""Incomplete and foreign dumps: each is used as far as possible, and named."""

from typing import Any

import pytest

from dovetail.errors import DovetailError
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.simulator.clusters import wait
from tests.support.simulator.recorded import (
    a_database,
    a_running_cluster,
    an_agent,
    fork,
    identities,
    of_kind,
    record,
    without,
)


@pytest.fixture(scope="module")
def recorded() -> SimulatedCluster:
    return a_running_cluster(an_agent())


def named(cluster: SimulatedCluster, *parts: str) -> bool:
    """True if one sentence of the report has all parts."""
    assert cluster.fork is not None
    sentences = (*cluster.fork.assumptions, *cluster.fork.partly)
    return any(all(part in sentence for part in parts) for sentence in sentences)


def test_without_pods_nodes_look_empty_and_the_report_says_so(recorded: SimulatedCluster) -> None:
    forked = fork(without(record(recorded), "Pod", "Deployment", "ReplicaSet"), recorded)

    wait(forked, 600)

    assert named(forked, "no pods were recorded")
    assert len(forked.api.list(NODE_CLAIMS).items) == 0
    assert len(forked.api.list(NODES).items) == 1


def test_without_nodeclaims_they_are_rebuilt_and_the_cluster_stays_at_rest(
    recorded: SimulatedCluster,
) -> None:
    forked = fork(without(record(recorded), "NodeClaim"), recorded)
    before = identities(forked)

    wait(forked, 3600)

    assert named(forked, "3 NodeClaims", "rebuilt from their nodes")
    assert identities(forked) == before
    assert forked.recorder.drifted == set()
    assert len(forked.api.list(NODE_CLAIMS).items) == 3


def test_without_nodepools_and_nodeclaims_nodes_are_billed_and_kept(recorded: SimulatedCluster) -> None:
    forked = fork(without(record(recorded), "NodePool", "NodeClaim", "EC2NodeClass"), recorded)
    before = identities(forked)

    wait(forked, 3600)

    assert named(forked, "without NodeClaim", "never disrupted")
    assert identities(forked) == before
    assert forked.ec2.billing.price_per_hour() == pytest.approx(recorded.ec2.billing.price_per_hour())


def test_without_nodepools_nodeclaims_are_kept(recorded: SimulatedCluster) -> None:
    forked = fork(without(record(recorded), "NodePool"), recorded)
    before = set(identities(forked))

    wait(forked, 600)

    assert before == set(identities(forked))


def test_dump_of_two_clusters_uses_the_first_of_two_objects_of_one_name(recorded: SimulatedCluster) -> None:
    other = record(a_running_cluster(replicas=1))
    for obj in other:
        obj["metadata"]["uid"] = f"other-{obj['metadata']['uid']}"
        for owner in obj["metadata"].get("ownerReferences") or ():
            owner["uid"] = f"other-{owner['uid']}"
    shared = {obj["metadata"]["name"] for obj in of_kind(other, "Node")}

    forked = fork([*record(recorded), *other], recorded)

    assert named(forked, "two clusters", "the first of each was used")
    uids = {node["metadata"]["uid"] for node in forked.api.list(NODES).items}
    assert uids >= {node["metadata"]["uid"] for node in recorded.api.list(NODES).items}
    assert shared
    wait(forked, 600)


def test_nodes_of_two_regions_are_named_and_priced_in_their_own(recorded: SimulatedCluster) -> None:
    objects = record(recorded)
    (group_node,) = [
        node for node in of_kind(objects, "Node") if "karpenter.sh/nodepool" not in node["metadata"]["labels"]
    ]
    labels = group_node["metadata"]["labels"]
    before = recorded.ec2.billing.price_per_hour()
    labels |= {
        "topology.kubernetes.io/region": "eu-central-1",
        "topology.kubernetes.io/zone": "eu-central-1a",
    }

    forked = fork(objects, recorded)

    assert named(forked, "nodes are in 2 regions (eu-central-1, us-east-1)", "us-east-1")
    assert forked.ec2.billing.price_per_hour() > before


@pytest.mark.parametrize(
    "provider_id",
    ["gce://project/europe-west1-b/gke-default-1", "azure:///subscriptions/0/virtualMachines/aks-1"],
)
def test_nodes_of_another_cloud_are_kept_and_cost_nothing(
    recorded: SimulatedCluster, provider_id: str
) -> None:
    objects = record(recorded)
    (group_node,) = [
        node for node in of_kind(objects, "Node") if "karpenter.sh/nodepool" not in node["metadata"]["labels"]
    ]
    price = recorded.unmanaged[group_node["spec"]["providerID"]].price
    group_node["spec"]["providerID"] = provider_id

    forked = fork(objects, recorded)
    wait(forked, 600)

    assert named(forked, "1 node of another cloud", group_node["metadata"]["name"])
    assert len(forked.api.list(NODES).items) == 4
    assert forked.ec2.billing.price_per_hour() == pytest.approx(recorded.ec2.billing.price_per_hour() - price)


def test_half_deleted_node_without_finalizer_is_left_out(recorded: SimulatedCluster) -> None:
    objects = record(recorded)
    node = of_kind(objects, "Node")[0]
    node["metadata"] |= {"deletionTimestamp": "2026-01-01T09:00:00Z", "finalizers": []}

    forked = fork(objects, recorded)
    wait(forked, 600)

    assert named(forked, "half-deleted", node["metadata"]["name"])
    assert forked.recorder.unsettled == 0


def test_nodeclaim_whose_node_is_gone_is_collected(recorded: SimulatedCluster) -> None:
    objects = record(recorded)
    claim = of_kind(objects, "NodeClaim")[0]
    objects = [obj for obj in objects if obj["metadata"]["name"] != claim["status"]["nodeName"]]

    forked = fork(objects, recorded)
    wait(forked, 1200)

    assert named(forked, "1 NodeClaim without its Node", claim["metadata"]["name"])
    assert named(forked, "bound to nodes that were not recorded")
    names = {item["metadata"]["name"] for item in forked.api.list(NODE_CLAIMS).items}
    assert claim["metadata"]["name"] not in names
    assert forked.recorder.running == 3


def of_unknown_controllers(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects with the Deployment's pods owned by a Rollout."""
    for pod in of_kind(objects, "Pod"):
        owner = pod["metadata"]["ownerReferences"][0]
        if owner["kind"] == "ReplicaSet":
            owner |= {
                "apiVersion": "argoproj.io/v1alpha1",
                "kind": "Rollout",
                "uid": "rollout",
                "name": "web",
            }
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "web"}}
    return [*without(objects, "Deployment", "ReplicaSet"), rollout]


def test_pods_of_unknown_controllers_are_recreated_when_they_are_deleted(recorded: SimulatedCluster) -> None:
    forked = fork(of_unknown_controllers(record(recorded)), recorded)
    before = identities(forked)
    wait(forked, 600)
    assert identities(forked) == before

    pods = [pod for pod in forked.api.list(PODS).items if pod["metadata"]["namespace"] == "default"]
    forked.api.delete(PODS, pods[0]["metadata"]["name"], "default")
    wait(forked, 120)

    assert named(
        forked,
        "3 pods of controllers that were not recorded; they recreate evicted pods: Rollout default/web",
    )
    assert not named(forked, "Rollout default/web, Rollout default/web")
    assert named(forked, "1 × Rollout (argoproj.io/v1alpha1) not used")
    assert forked.recorder.running == recorded.recorder.running
    assert pods[0]["metadata"]["uid"] not in identities(forked)


def test_pods_whose_replicaset_is_missing_are_kept_and_recreated(recorded: SimulatedCluster) -> None:
    forked = fork(without(record(recorded), "Deployment", "ReplicaSet"), recorded)
    pod = next(pod for pod in forked.api.list(PODS).items if pod["metadata"]["namespace"] == "default")

    forked.api.evict(pod["metadata"]["name"], "default")
    wait(forked, 120)

    assert forked.recorder.running == recorded.recorder.running


def test_bare_pods_are_gone_when_they_are_deleted(recorded: SimulatedCluster) -> None:
    objects = without(record(recorded), "Deployment", "ReplicaSet")
    for pod in of_kind(objects, "Pod"):
        if pod["metadata"]["namespace"] == "default":
            del pod["metadata"]["ownerReferences"]
    forked = fork(objects, recorded)
    pod = next(pod for pod in forked.api.list(PODS).items if pod["metadata"]["namespace"] == "default")

    forked.api.delete(PODS, pod["metadata"]["name"], "default")
    wait(forked, 120)

    assert forked.recorder.running == recorded.recorder.running - 1


def test_types_that_the_catalogue_lacks_cost_nothing_and_their_nodes_stay(recorded: SimulatedCluster) -> None:
    objects = record(recorded)
    for obj in of_kind(objects, "Node", "NodeClaim"):
        if "karpenter.sh/nodepool" in obj["metadata"]["labels"]:
            obj["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "z99.large"
    (pool,) = of_kind(objects, "NodePool")
    requirements = pool["spec"]["template"]["spec"]["requirements"]
    requirements[:] = [item for item in requirements if not item["key"].endswith("instance-type")]
    forked = fork(objects, recorded)
    nodes = {node["metadata"]["uid"] for node in forked.api.list(NODES).items}

    wait(forked, 3600)

    assert named(forked, "3 nodes of type z99.large priced at $0")
    assert nodes == {node["metadata"]["uid"] for node in forked.api.list(NODES).items}


def test_unusable_objects_are_named_and_left_out(recorded: SimulatedCluster) -> None:
    nonsense: list[Any] = [
        {"kind": "Pod"},
        {"apiVersion": "v1", "kind": "Node", "metadata": {}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd"}, "spec": []},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worse"}, "spec": "x"},
        "text",
        None,
    ]

    forked = fork([*record(recorded), *nonsense], recorded)

    assert named(forked, "no apiVersion")
    assert named(forked, "no metadata.name")
    assert named(forked, "spec is not a map", "Pod worse")
    assert named(forked, "2 objects not used: no kind")


def test_what_could_not_be_read_is_in_the_report(recorded: SimulatedCluster) -> None:
    forked = fork(record(recorded), recorded, missing=["pods could not be listed: forbidden"])

    assert forked.fork is not None
    assert "pods could not be listed: forbidden" in forked.fork.partly


def test_region_that_the_catalogue_lacks_is_an_error(recorded: SimulatedCluster) -> None:
    with pytest.raises(DovetailError, match="no region 'mars-1'"):
        fork(record(recorded), recorded, region="mars-1")


def test_fork_does_not_change_the_objects_it_is_given(recorded: SimulatedCluster) -> None:
    objects = record(recorded)
    copy = [thaw(obj) for obj in objects]

    wait(fork(objects, recorded), 60)

    assert objects == copy


def test_object_that_no_api_server_would_store_is_a_clear_error() -> None:
    cluster = a_running_cluster(*a_database())
    objects = record(cluster)
    for volume in of_kind(objects, "PersistentVolume"):
        del volume["spec"]["claimRef"]["namespace"]

    with pytest.raises(DovetailError, match=r"requires: KeyError.'namespace'.*must not be edited"):
        wait(fork(objects, cluster), 60)


def test_a_job_that_does_not_select_its_pods_creates_no_more_of_them(recorded: SimulatedCluster) -> None:
    spec = {
        "template": {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}},
        "selector": {"matchLabels": {"job-name": "odd"}},
        "completions": 1,
        "parallelism": 1,
    }
    meta = {"name": "odd", "namespace": "default", "uid": "odd"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}

    forked = fork([*record(recorded), job], recorded)
    wait(forked, 60)

    assert [pod for pod in identities(forked) if "odd" in str(pod)] == []
