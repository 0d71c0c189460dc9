"""A live cluster's dump becomes the nodes and pods that a decision sees."""

import json
import time

from dovetail.codec.inputs.cluster_inputs import read_inputs
from dovetail.model.kube.taints import Effect, Taint
from tests.codec.sources import POOL, a_claim, a_deployment, a_node, a_pod, dump, read

MANAGED = {"karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": "m5.xlarge"}
UP = {**MANAGED, "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}


def of_a_set(kind: str, name: str, **labels: str) -> dict[str, object]:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True}
    return {"ownerReferences": [owner], "labels": labels}


def test_bound_pods_stand_on_their_nodes_and_the_others_wait() -> None:
    cluster = dump(
        a_node("n1"),
        a_pod("runs", spec={"nodeName": "n1"}, status={"phase": "Running"}),
        a_pod("done", spec={"nodeName": "n1"}, status={"phase": "Succeeded"}),
        a_pod("waits"),
    )

    inputs = read("", cluster=cluster)

    assert [pod.name for pod in inputs.nodes[0].pods] == ["runs"]
    assert [pod.name for pod in inputs.pending] == ["waits"]
    assert inputs.nodes[0].allocatable["cpu"] == 4000


def test_pods_that_others_take_care_of_do_not_wait_for_us() -> None:
    cluster = dump(
        a_pod("daemon", metadata=of_a_set("DaemonSet", "agent")),
        a_pod("static", metadata=of_a_set("Node", "n1")),
        a_pod("nominated", status={"nominatedNodeName": "n1"}),
        a_pod("leaving", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        a_pod("failed", status={"phase": "Failed"}),
        a_pod("gated", spec={"schedulingGates": [{"name": "quota"}]}),
    )

    inputs = read("", cluster=cluster)

    assert inputs.pending == ()
    assert inputs.notes == ("1 pod left out: waiting for scheduling gates",)


def test_a_typed_list_gives_its_items_their_kind() -> None:
    pod = {key: value for key, value in a_pod("bare").items() if key in ("metadata", "spec")}
    text = {"kind": "PodList", "apiVersion": "v1", "items": [pod]}
    nested = {"apiVersion": "v1", "kind": "List", "items": [text]}

    for whole in (text, nested):
        assert [pod.name for pod in read("", cluster=json.dumps(whole)).pending] == ["bare"]


def test_a_yaml_list_as_kubectl_prints_it_is_read() -> None:
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

    assert [pod.name for pod in read("", cluster=cluster).pending] == ["one", "two"]


def test_dumps_that_overlap_count_each_object_once() -> None:
    cluster = dump(a_pod("web"), a_pod("web"))

    assert len(read("", cluster=cluster).pending) == 1


def test_a_node_of_nobody_is_ready_from_the_start() -> None:
    node = read("", cluster=dump(a_node("n1"))).nodes[0]

    assert (node.registered, node.initialized, node.managed) == (True, True, False)


def test_a_managed_node_is_what_its_labels_say() -> None:
    cluster = dump(
        a_node("new", metadata={"labels": MANAGED}),
        a_node("up", metadata={"labels": UP}),
    )

    new, up = read("", cluster=cluster).nodes

    assert (new.registered, new.initialized) == (False, False)
    assert (up.registered, up.initialized) == (True, True)


def test_until_a_node_registers_its_claim_speaks_for_it() -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    startup = {"key": "cni", "effect": "NoExecute"}
    claim = a_claim(
        "general-1",
        "n1",
        metadata={"labels": {**MANAGED, "from": "claim"}},
        spec={"taints": [taint], "startupTaints": [startup]},
        status={"allocatable": {"nvidia.com/gpu": "1"}, "capacity": {"nvidia.com/gpu": "1"}},
    )
    node = a_node("n1", metadata={"labels": MANAGED}, spec={"taints": [startup]})

    joined = read("", cluster=dump(node, claim)).nodes[0]

    assert joined.claim == "general-1"
    assert joined.labels["from"] == "claim"
    assert joined.taints == (Taint("team", Effect.NO_SCHEDULE, "a"),)
    assert joined.startup_taints == (Taint("cni", Effect.NO_EXECUTE),)
    assert joined.effective_allocatable()["nvidia.com/gpu"] == 1


def test_once_registered_a_node_speaks_for_itself() -> None:
    claim = a_claim("general-1", "n1", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
    node = a_node("n1", metadata={"labels": {**UP, "from": "node"}})

    joined = read("", cluster=dump(node, claim)).nodes[0]

    assert joined.claim == "general-1"
    assert joined.labels["from"] == "node"
    assert joined.taints == ()


def test_a_launched_claim_counts_before_its_node_joins_and_others_do_not() -> None:
    launched = a_claim("launched", "n1", status={"allocatable": {"cpu": "3900m"}})
    asked = a_claim("asked", "n2", status={"providerID": ""})

    inputs = read("", cluster=dump(launched, asked))

    assert [node.name for node in inputs.nodes] == ["launched"]
    assert inputs.nodes[0].effective_allocatable()["cpu"] == 3900
    assert inputs.notes == ("nodeclaim asked is not launched yet; left out",)


def test_nodes_on_their_way_out_are_marked() -> None:
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    disrupted = {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}
    terminating = {"conditions": [{"type": "InstanceTerminating", "status": "True"}]}
    cluster = dump(
        a_node("a-stays", metadata={"labels": UP}),
        a_node("b-claim-deleted", metadata={"labels": UP}),
        a_claim("b", "b-claim-deleted", metadata=gone),
        a_node("c-terminating", metadata={"labels": UP}),
        a_claim("c", "c-terminating", status={"nodeName": "c-terminating", **terminating}),
        a_node("d-disrupted", metadata={"labels": UP}, spec=disrupted),
        a_node("e-deleted", metadata=gone),
    )

    nodes = read("", cluster=cluster).nodes

    assert [(node.name[0], node.deleting) for node in nodes] == [
        ("a", False),
        ("b", True),
        ("c", True),
        ("d", True),
        ("e", True),
    ]


def test_a_cordoned_node_has_the_taint_that_says_so() -> None:
    node = read("", cluster=dump(a_node("n1", spec={"unschedulable": True}))).nodes[0]

    assert [taint.key for taint in node.taints] == ["node.kubernetes.io/unschedulable"]


def test_a_managed_node_too_young_to_know_its_type_is_left_out() -> None:
    node = a_node("n1", metadata={"labels": {"karpenter.sh/nodepool": "general"}})

    inputs = read("", cluster=dump(node))

    assert inputs.nodes == ()
    assert inputs.notes == ("node n1 does not say its instance type yet; left out",)


def test_pods_on_nodes_that_are_not_given_are_mentioned() -> None:
    inputs = read("", cluster=dump(a_pod("a", spec={"nodeName": "lost"})))

    assert inputs.notes == ("1 bound pod left out: not given are nodes lost",)


def test_volume_limits_come_from_the_csi_node() -> None:
    csi = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "n1"},
        "spec": {
            "drivers": [
                {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 25}},
                {"name": "efs.csi.aws.com", "nodeID": "i"},
            ]
        },
    }

    node = read("", cluster=dump(a_node("n1"), csi)).nodes[0]

    assert dict(node.volume_limits) == {"ebs.csi.aws.com": 25}


def test_volumes_say_where_they_are() -> None:
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

    csi, in_tree, local = read("", cluster=cluster).volumes

    assert csi.node_terms[0].expressions[0].values == ("us-east-1b",)
    assert in_tree.driver == "ebs.csi.aws.com"
    assert in_tree.node_terms[0].expressions[0].values == ("us-east-1a",)
    assert local.local


def test_a_daemon_set_knows_its_newest_pod_without_the_node_it_was_made_for() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    pinned = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}

    def agent(name: str, cpu: str, created: str) -> dict[str, object]:
        return a_pod(
            name,
            metadata={**of_a_set("DaemonSet", "agent"), "creationTimestamp": created},
            spec={
                "nodeName": "n1",
                "affinity": {"nodeAffinity": pinned},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            },
        )

    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "shop"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c"}]}}},
    }
    cluster = dump(
        a_node("n1"),
        daemon_set,
        agent("young", "300m", "2026-02-01T00:00:00Z"),
        agent("old", "100m", "2026-01-01T00:00:00Z"),
    )

    one = read("", cluster=cluster).daemon_sets[0]

    assert one.newest is not None
    assert one.newest.name == "young"
    assert one.newest.spec.requests["cpu"] == 300
    assert one.newest.spec.node_terms == ()


def live_web(replicas: int, cpu: str = "500m", *, with_objects: bool = True) -> str:
    """Return a cluster in which Deployment web runs ``replicas`` pods on n1."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    labels = {"app": "web", "pod-template-hash": "abc"}
    objects = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "d"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": template,
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "web-abc", "namespace": "shop", **of_a_set("Deployment", "web")},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": template,
            },
        },
    ]
    pods = [
        a_pod(
            f"web-abc-{number}",
            metadata=of_a_set("ReplicaSet", "web-abc", **labels),
            spec={"nodeName": "n1", "containers": [container]},
            status={"phase": "Running"},
        )
        for number in range(replicas)
    ]
    return dump(a_node("n1"), *(objects if with_objects else []), *pods)


def test_a_workload_of_the_cluster_itself_is_not_expanded_again() -> None:
    inputs = read("", cluster=live_web(2))

    assert inputs.pending == ()
    assert len(inputs.nodes[0].pods) == 2
    assert [one.name for one in inputs.controllers] == ["web-abc"]


def test_scaling_up_adds_only_the_pods_that_are_missing() -> None:
    inputs = read(a_deployment(5), cluster=live_web(2))

    assert len(inputs.nodes[0].pods) == 2
    assert len(inputs.pending) == 3


def test_scaling_down_takes_pods_from_the_nodes() -> None:
    inputs = read(a_deployment(1), cluster=live_web(4))

    assert len(inputs.nodes[0].pods) == 1
    assert inputs.pending == ()


def test_a_workload_without_a_count_keeps_the_one_that_the_cluster_has() -> None:
    inputs = read(a_deployment(1, cpu="2").replace("  replicas: 1\n", ""), cluster=live_web(4))

    assert len(inputs.pending) == 4


def test_another_template_replaces_all_pods_of_the_workload() -> None:
    inputs = read(a_deployment(2, cpu="2"), cluster=live_web(2))

    assert inputs.nodes[0].pods == ()
    assert [pod.spec.requests["cpu"] for pod in inputs.pending] == [2000, 2000]


def test_a_dump_of_pods_alone_still_tells_whose_they_are() -> None:
    inputs = read(a_deployment(3), cluster=live_web(2, with_objects=False))

    assert inputs.nodes[0].pods == ()
    assert len(inputs.pending) == 3


def test_a_pool_in_the_manifests_stands_for_the_one_of_the_cluster() -> None:
    live = POOL.replace("  template:", "  weight: 5\n  template:", 1)
    other = POOL.replace("general", "other")

    inputs = read(POOL, cluster=live + "---" + other)

    assert {pool.name: pool.weight for pool in inputs.node_pools} == {"general": 0, "other": 0}


def test_a_changed_daemon_set_has_no_newest_pod_yet() -> None:
    daemon_set = """
        apiVersion: apps/v1
        kind: DaemonSet
        metadata: {name: agent, namespace: shop}
        spec:
          selector: {matchLabels: {a: b}}
          template:
            metadata: {labels: {a: b}}
            spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
    """
    cluster = dump(
        a_node("n1"),
        a_pod("old", metadata=of_a_set("DaemonSet", "agent"), spec={"nodeName": "n1"}),
    )

    inputs = read(daemon_set, cluster=cluster)

    assert [(one.name, one.newest) for one in inputs.daemon_sets] == [("agent", None)]
    assert len(inputs.nodes[0].pods) == 1


def test_a_newer_api_than_ours_does_not_stop_the_reading_of_a_dump() -> None:
    live = POOL.replace("metadata: {name: general}", "metadata: {name: general, uid: x}")
    live = live.replace("kubernetes.io/arch", "karpenter.k8s.aws/instance-from-tomorrow")
    live += "  disruption: {consolidationPolicy: WhenTheMoonIsFull}\n"

    pool = read("", cluster=live).node_pools[0]

    assert pool.template.requirements[0].key == "karpenter.k8s.aws/instance-from-tomorrow"
    assert pool.disruption.policy == "WhenEmptyOrUnderutilized"


def test_two_thousand_pods_are_read_in_no_time() -> None:
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


def test_what_a_dump_leaves_open_is_said() -> None:
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "uid": "x"},
        "spec": {"amiFamily": "AL2023"},
        "status": {"capacityReservations": [{"id": "cr-1", "instanceType": "m5.large"}]},
    }
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}

    inputs = read("", cluster=dump(node_class, a_pod("web", spec={"volumes": [volume]})))

    assert inputs.notes == (
        "EC2NodeClass default does not say how much of its reservations is free; none is used",
        "1 pod with volumes, but no PersistentVolumeClaim given",
    )
