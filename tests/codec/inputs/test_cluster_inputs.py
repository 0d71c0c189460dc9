"""Dumps of a cluster are decoded and combined with manifests."""

import json
import time

from dovetail.codec.inputs.cluster_inputs import read_inputs
from tests.codec.sources import POOL, a_pod, dump, owned_by, read_manifest


def test_daemonset_static_nominated_deleting_terminal_and_gated_pods_are_not_pending() -> None:
    cluster = dump(
        a_pod("daemon", metadata=owned_by("DaemonSet", "agent")),
        a_pod("static", metadata=owned_by("Node", "n1")),
        a_pod("nominated", status={"nominatedNodeName": "n1"}),
        a_pod("leaving", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        a_pod("failed", status={"phase": "Failed"}),
        a_pod("gated", spec={"schedulingGates": [{"name": "quota"}]}),
    )

    inputs = read_manifest("", cluster=cluster)

    assert inputs.pending == ()
    assert inputs.notes == ("1 pod left out: waiting for scheduling gates",)


def test_items_of_a_typed_list_have_the_kind_of_the_list() -> None:
    pod = {key: value for key, value in a_pod("bare").items() if key in ("metadata", "spec")}
    text = {"kind": "PodList", "apiVersion": "v1", "items": [pod]}
    nested = {"apiVersion": "v1", "kind": "List", "items": [text]}

    for whole in (text, nested):
        assert [pod.name for pod in read_manifest("", cluster=json.dumps(whole)).pending] == ["bare"]


def test_a_yaml_list_of_kubectl_is_read() -> None:
    cluster = """
        apiVersion: v1
        items:
        - apiVersion: v1
          kind: Pod
          metadata: {name: one, namespace: shop}
          spec: {containers: [{name: c}]}
        - apiVersion: v1
          kind: Pod
          metadata: {name: two, namespace: shop}
          spec: {containers: [{name: c}]}
        kind: List
        metadata: {resourceVersion: ""}
    """

    assert [pod.name for pod in read_manifest("", cluster=cluster).pending] == ["one", "two"]


def test_overlapping_dumps_count_each_object_once() -> None:
    cluster = dump(a_pod("web"), a_pod("web"))

    assert len(read_manifest("", cluster=cluster).pending) == 1


def test_volumes_have_the_zone_of_their_affinity_or_label() -> None:
    def volume(name: str, **spec: object) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "us-east-1a"}},
            "spec": spec,
        }

    term = {"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": ["us-east-1b"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    cluster = dump(
        volume("csi", csi={"driver": "ebs.csi.aws.com"}, nodeAffinity=affinity),
        volume("in-tree", awsElasticBlockStore={"volumeID": "vol-1"}),
        volume("local", local={"path": "/mnt"}),
    )

    csi, in_tree, local = read_manifest("", cluster=cluster).volumes

    assert csi.node_terms[0].expressions[0].values == ("us-east-1b",)
    assert in_tree.driver == "ebs.csi.aws.com"
    assert in_tree.node_terms[0].expressions[0].values == ("us-east-1a",)
    assert local.is_local


def test_a_nodepool_in_manifests_replaces_that_of_the_cluster() -> None:
    live = POOL.replace("  template:", "  weight: 5\n  template:", 1)
    other = POOL.replace("general", "other")

    inputs = read_manifest(POOL, cluster=live + "---" + other)

    assert {pool.name: pool.weight for pool in inputs.nodepools} == {"general": 0, "other": 0}


def test_a_dump_with_fields_of_a_newer_api_is_read() -> None:
    live = POOL.replace("metadata: {name: general}", "metadata: {name: general, uid: x}")
    live = live.replace("kubernetes.io/arch", "karpenter.k8s.aws/instance-from-tomorrow")
    live += "  disruption: {consolidationPolicy: WhenTheMoonIsFull}\n"

    pool = read_manifest("", cluster=live).nodepools[0]

    assert pool.template.requirements[0].key == "karpenter.k8s.aws/instance-from-tomorrow"
    assert pool.disruption.policy == "WhenEmptyOrUnderutilized"


def test_two_thousand_pods_are_read_within_three_seconds() -> None:
    env = [{"name": f"V{number}", "value": "x" * 30} for number in range(60)]
    pods = [
        a_pod(
            f"web-{number}",
            spec={"containers": [{"name": "c", "env": env, "resources": {"requests": {"cpu": 1}}}]},
        )
        for number in range(2_000)
    ]
    text = dump(*pods).encode()

    begun = time.process_time()
    inputs = read_inputs([], [("dump.json", text)])

    assert time.process_time() - begun < 3
    assert len(inputs.pending) == 2_000
    assert len({id(pod.spec) for pod in inputs.pending}) == 1


def test_data_that_a_dump_lacks_is_noted() -> None:
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "uid": "x"},
        "spec": {"amiFamily": "AL2023"},
        "status": {"capacityReservations": [{"id": "cr-1", "instanceType": "m5.large"}]},
    }
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}

    inputs = read_manifest("", cluster=dump(node_class, a_pod("web", spec={"volumes": [volume]})))

    assert inputs.notes == (
        "EC2NodeClass default has no free count for its capacity reservations; none is used",
        "1 pod with volumes, but no PersistentVolumeClaim given",
    )
