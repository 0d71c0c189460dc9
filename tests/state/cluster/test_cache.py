"""Reads of the cluster cache: C1 to C6, C9 to C11, ST1, ST3, ST5."""

from datetime import timedelta

from dovetail.model import labels as label_keys
from dovetail.model.kube.taints import DISRUPTED_TAINT, UNREGISTERED_TAINT, Taint, TaintEffect
from dovetail.ports.api_resources import (
    CSI_NODES,
    DAEMON_SETS,
    EC2_NODE_CLASSES,
    NODE_CLAIMS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    VOLUME_ATTACHMENTS,
)
from dovetail.simulator.apiserver.options import DeleteOptions
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.nodes.nominations import NOMINATION_WINDOW, NodeNominations
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.controllers.provisioning import ProvisioningEnvironment
from tests.support.kube import manifests
from tests.support.scheduling.instance_types import a_type
from tests.support.simulator.api_server import START

PROVIDER_ID = "aws:///z/i-1"
OURS = {label_keys.NODEPOOL: "default", label_keys.INSTANCE_TYPE: "t"}
READY = {**OURS, label_keys.REGISTERED: "true", label_keys.INITIALIZED: "true"}
STARTING = Taint("example.com/starting", TaintEffect.NO_SCHEDULE)
NOT_READY = Taint("node.kubernetes.io/not-ready", TaintEffect.NO_SCHEDULE)


def a_world_with_a_claim(**fields: object) -> ControllerEnvironment:
    env = ControllerEnvironment()
    env.add(
        NODE_CLAIMS,
        manifests.claim(labels={label_keys.INSTANCE_TYPE: "t"}, provider_id=PROVIDER_ID, **fields),  # type: ignore[arg-type]
    )
    return env


def test_cache_has_synced_once_every_kind_was_listed() -> None:
    cache = ClusterCache()
    *most, last = cache.stores

    for kind in most:
        cache.replace(kind, [])
    before = cache.has_synced()
    cache.replace(last, [])
    env = ControllerEnvironment()
    env.add(NODE_CLAIMS, manifests.claim())

    assert (before, cache.has_synced()) == (False, True)
    # Upstream stops while a claim has no instance; here the claim represents its node.
    assert env.cache.has_synced()
    assert [claim.name for claim in env.cache.pending_claims()] == ["claim"]


def test_node_without_provider_id_is_keyed_by_name() -> None:
    env = ControllerEnvironment()
    env.add(NODES, manifests.node("n1"))
    before = env.cache.joined_node("n1")

    env.patch(NODES, "n1", {"spec": {"providerID": PROVIDER_ID}})

    assert before is not None
    assert env.cache.joined_node("n1") is None
    assert env.cache.joined_node(PROVIDER_ID) is not None
    assert len(env.cache.joined_nodes()) == 1


def test_nodepool_node_without_provider_id_is_represented_by_its_claim() -> None:
    env = a_world_with_a_claim()

    env.add(NODES, manifests.node("n1", labels=READY))

    assert [(node.name, node.claim) for node in env.cache.joined_nodes()] == [("claim", "claim")]


def test_node_without_instance_type_label_is_represented_by_its_claim() -> None:
    env = ControllerEnvironment()
    env.add(NODE_CLAIMS, manifests.claim(provider_id=PROVIDER_ID))

    env.add(NODES, manifests.node("n1", provider_id=PROVIDER_ID, labels={label_keys.NODEPOOL: "default"}))

    assert [node.name for node in env.cache.joined_nodes()] == ["claim"]


def test_unregistered_node_has_the_values_of_its_claim() -> None:
    env = a_world_with_a_claim(taints=(STARTING,))
    taints = (UNREGISTERED_TAINT, NOT_READY)

    env.add(NODES, manifests.node("n1", provider_id=PROVIDER_ID, labels={"a": "b"}, taints=taints))
    young = env.cache.joined_node(PROVIDER_ID)
    env.patch(NODES, "n1", {"metadata": {"labels": {**OURS, label_keys.REGISTERED: "true"}}})
    registered = env.cache.joined_node(PROVIDER_ID)

    assert young is not None
    assert registered is not None
    assert "a" not in young.labels
    assert young.taints == (STARTING,)
    assert registered.labels["a"] == "b"
    assert registered.taints == taints


def test_startup_taints_are_hidden_until_the_node_is_initialized() -> None:
    env = a_world_with_a_claim(startup_taints=(STARTING,))
    labels = {**OURS, label_keys.REGISTERED: "true"}
    env.add(NODES, manifests.node("n1", provider_id=PROVIDER_ID, labels=labels, taints=(STARTING, NOT_READY)))
    starting = env.cache.joined_node(PROVIDER_ID)
    env.patch(NODES, "n1", {"metadata": {"labels": READY}})
    started = env.cache.joined_node(PROVIDER_ID)
    env.add(NODES, manifests.node("other", taints=(NOT_READY,)))
    unmanaged = env.cache.joined_node("other")

    assert starting is not None
    assert started is not None
    assert unmanaged is not None
    assert starting.effective_taints() == ()
    assert started.effective_taints() == (STARTING, NOT_READY)
    assert unmanaged.effective_taints() == (NOT_READY,)


def test_capacity_counts_one_node_at_every_stage() -> None:
    env = ProvisioningEnvironment([a_type("only")]).start()
    env.add_pending_pod()
    env.wait(2)
    (name,) = env.live_claims()
    counted = []

    for step in (env.launch, env.register, env.initialize):
        step(name)
        (node,) = env.cache.joined_nodes()
        counted.append((node.effective_capacity()["nodes"], node.effective_capacity()["cpu"]))

    assert [nodes for nodes, _ in counted] == [1, 1, 1]
    assert all(cpu > 0 for _, cpu in counted)


def test_joined_node_is_deleting_if_claim_or_node_is_or_if_it_is_tainted() -> None:
    env = a_world_with_a_claim(finalizers=["a.b/c"])
    node = manifests.node("n1", provider_id=PROVIDER_ID, labels=READY, taints=(), finalizers=["a.b/c"])
    env.add(NODES, node)

    def leaving() -> bool:
        node = env.cache.joined_node(PROVIDER_ID)
        return node is not None and node.deleting

    before = leaving()
    env.patch(NODES, "n1", {"spec": {"taints": [{"key": DISRUPTED_TAINT.key, "effect": "NoSchedule"}]}})
    marked = leaving()
    env.patch(NODES, "n1", {"spec": {"taints": []}})
    unmarked = leaving()
    env.delete(NODE_CLAIMS, "claim")

    assert (before, marked, unmarked, leaving()) == (False, True, False, True)


def test_deleted_node_or_claim_leaves_the_other_half() -> None:
    env = a_world_with_a_claim()
    env.add(NODES, manifests.node("n1", provider_id=PROVIDER_ID, labels=READY))

    env.delete(NODES, "n1")
    without_node = [node.name for node in env.cache.joined_nodes()]
    env.add(NODES, manifests.node("n1", provider_id=PROVIDER_ID, labels=READY))
    env.delete(NODE_CLAIMS, "claim")

    assert without_node == ["claim"]
    assert [(node.name, node.claim) for node in env.cache.joined_nodes()] == [("n1", "")]


def test_bound_pods_use_resources_until_terminal_deleted_or_bound_elsewhere() -> None:
    env = ControllerEnvironment()
    for name in ("n1", "n2"):
        env.add(NODES, manifests.node(name, taints=()))

    def room(name: str) -> int:
        node = env.cache.joined_node(name)
        assert node is not None
        return node.available()["pods"]

    for name in ("ends", "goes", "moves"):
        env.add(PODS, manifests.pod(name, node="n1"))
    full = room("n1")
    env.patch(PODS, "ends", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    at_once = DeleteOptions(grace_period_seconds=0)
    for name in ("goes", "moves"):
        env.api.delete(PODS, name, "default", options=at_once)
    env.api.create(PODS, manifests.pod("moves", node="n2"))  # Both in one breath.
    env.wait(0)

    assert full == 107
    assert (room("n1"), room("n2")) == (110, 109)


def test_pods_bound_before_their_node_arrives_are_counted() -> None:
    env = ControllerEnvironment()
    env.add(PODS, manifests.pod("p", node="n1"))

    env.add(NODES, manifests.node("n1"))

    node = env.cache.joined_node("n1")
    assert node is not None
    assert [pod.name for pod in node.pods] == ["p"]


def test_heartbeat_without_changes_keeps_the_joined_object() -> None:
    env = ControllerEnvironment()
    env.add(NODES, manifests.node("n1", provider_id=PROVIDER_ID))
    before = env.cache.joined_nodes()

    report = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T09:05:00Z"}
    env.patch(NODES, "n1", {"status": {"conditions": [report]}}, subresource="status")

    assert env.cache.joined_nodes() is before


def test_node_is_joined_again_only_after_a_change() -> None:
    env = ControllerEnvironment()
    for name in ("n1", "n2"):
        env.add(NODES, manifests.node(name))
    before = env.cache.joined_nodes()

    same = env.cache.joined_nodes()
    env.add(PODS, manifests.pod("p", node="n1"))
    after = env.cache.joined_nodes()

    assert same is before
    assert after[0] is not before[0]
    assert after[1] is before[1]


def test_volume_limits_do_not_depend_on_event_order() -> None:
    env = ControllerEnvironment()
    driver = {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 25}}
    env.add(CSI_NODES, {"metadata": {"name": "n1"}, "spec": {"drivers": [driver]}})

    env.add(NODES, manifests.node("n1"))
    early = env.cache.joined_node("n1")
    env.delete(CSI_NODES, "n1")
    late = env.cache.joined_node("n1")

    assert early is not None
    assert late is not None
    assert early.volume_limits == {"ebs.csi.aws.com": 25}
    assert late.volume_limits == {}


def test_pods_are_indexed_by_daemonset() -> None:
    env = ProvisioningEnvironment()
    uid = env.add_daemon_set("agent", {"cpu": "1"})
    owner = manifests.owner("DaemonSet", "agent", uid=uid, controller=True)

    env.add(PODS, manifests.pod("agent-1", node="n1", owner=owner))
    names = [pod.name for pod in env.cache.daemonset_pods("default", "agent")]
    env.api.delete(PODS, "agent-1", "default", options=DeleteOptions(grace_period_seconds=0))
    env.wait(0)

    assert names == ["agent-1"]
    assert env.cache.daemonset_pods("default", "agent") == ()
    assert len(env.cache.stores[DAEMON_SETS]) == 1


def test_pdbs_are_found_by_the_pods_they_select() -> None:
    env = ControllerEnvironment()
    for name, app in (("mine", "a"), ("theirs", "b")):
        spec = {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1}
        meta = {"name": name, "namespace": "default"}
        env.add(POD_DISRUPTION_BUDGETS, {"metadata": meta, "spec": spec})
    labelled = manifests.pod("p")
    labelled["metadata"]["labels"] = {"app": "a"}
    env.add(PODS, labelled)

    pod = env.cache.pod("default", "p")

    assert pod is not None
    assert [pdb.name for pdb in env.cache.pdbs_for(pod)] == ["mine"]


def test_volumes_are_found_by_node_and_by_name() -> None:
    env = ControllerEnvironment()
    spec = {"nodeName": "n1", "attacher": "x", "source": {"persistentVolumeName": "pv"}}
    env.add(VOLUME_ATTACHMENTS, {"metadata": {"name": "a"}, "spec": spec})
    meta = {"name": "data", "namespace": "default"}
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    env.add(PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": asked})

    assert [attachment.volume for attachment in env.cache.attachments_on("n1")] == ["pv"]
    assert env.cache.volume_claim("default", "data") is not None
    assert env.cache.volume_claim("default", "other") is None


def test_raw_node_class_is_kept_until_it_is_deleted() -> None:
    env = ControllerEnvironment()
    env.add(EC2_NODE_CLASSES, manifests.node_class())
    kept = env.cache.raw_node_class("default")

    env.delete(EC2_NODE_CLASSES, "default")

    assert kept is not None
    assert kept["spec"]["role"] == "nodes"
    assert env.cache.raw_node_class("default") is None


def test_empty_provider_id_matches_no_claim() -> None:
    env = ControllerEnvironment()
    env.add(NODE_CLAIMS, manifests.claim())
    env.add(NODES, manifests.node("n1"))

    assert env.cache.claims_of("") == ()
    assert env.cache.nodes_of("") == ()
    assert env.cache.pods_on("") == ()


def test_nomination_expires_after_twenty_seconds() -> None:
    nominations = NodeNominations()

    nominations.nominate("a", START)

    assert NOMINATION_WINDOW == timedelta(seconds=20)
    assert nominations.is_nominated("a", START + timedelta(seconds=19))
    assert not nominations.is_nominated("a", START + NOMINATION_WINDOW)
    assert not nominations.is_nominated("b", START)


def test_second_nomination_prolongs_the_first() -> None:
    nominations = NodeNominations()

    for seconds in (0, 10, 15):
        nominations.nominate("a", START + timedelta(seconds=seconds))
        nominations.nominate(f"other-{seconds}", START + timedelta(seconds=seconds))

    assert nominations.is_nominated("a", START + timedelta(seconds=34))
