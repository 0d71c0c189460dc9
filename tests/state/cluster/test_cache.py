"""What controllers can ask the mirror: C1 to C6, C9 to C11, ST1, ST3, ST5."""

from datetime import timedelta

from dovetail.model import labels as label_keys
from dovetail.model.kube.taints import DISRUPTED, UNREGISTERED, Effect, Taint
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
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.state.cluster.cache import Mirror
from dovetail.state.nodes.nominations import WINDOW, Nominations
from tests.support import wire
from tests.support.catalog import a_type
from tests.support.cluster import START
from tests.support.shop import Shop
from tests.support.world import World

MACHINE = "aws:///z/i-1"
OURS = {label_keys.NODEPOOL: "default", label_keys.INSTANCE_TYPE: "t"}
READY = {**OURS, label_keys.REGISTERED: "true", label_keys.INITIALIZED: "true"}
STARTING = Taint("example.com/starting", Effect.NO_SCHEDULE)
NOT_READY = Taint("node.kubernetes.io/not-ready", Effect.NO_SCHEDULE)


def a_world_with_a_claim(**fields: object) -> World:
    world = World()
    world.add(
        NODE_CLAIMS,
        wire.claim(labels={label_keys.INSTANCE_TYPE: "t"}, provider_id=MACHINE, **fields),  # type: ignore[arg-type]
    )
    return world


def test_it_is_synced_once_every_kind_was_listed_and_stays_so_whatever_is_unlaunched() -> None:
    mirror = Mirror()
    *most, last = mirror.tables

    for kind in most:
        mirror.replace(kind, [])
    before = mirror.synced()
    mirror.replace(last, [])
    world = World()
    world.add(NODE_CLAIMS, wire.claim())

    assert (before, mirror.synced()) == (False, True)
    # Upstream stops everything while a claim has no machine; here it stands for its node.
    assert world.mirror.synced()
    assert [claim.name for claim in world.mirror.unlaunched()] == ["claim"]


def test_a_node_without_provider_id_goes_by_its_name_until_it_has_one() -> None:
    world = World()
    world.add(NODES, wire.node("n1"))
    before = world.mirror.joined("n1")

    world.patch(NODES, "n1", {"spec": {"providerID": MACHINE}})

    assert before is not None
    assert world.mirror.joined("n1") is None
    assert world.mirror.joined(MACHINE) is not None
    assert len(world.mirror.joined_nodes()) == 1


def test_a_node_of_a_pool_without_provider_id_is_spoken_for_by_its_claim() -> None:
    world = a_world_with_a_claim()

    world.add(NODES, wire.node("n1", labels=READY))

    assert [(node.name, node.claim) for node in world.mirror.joined_nodes()] == [("claim", "claim")]


def test_a_node_that_does_not_say_its_type_yet_is_spoken_for_by_its_claim() -> None:
    world = World()
    world.add(NODE_CLAIMS, wire.claim(provider_id=MACHINE))

    world.add(NODES, wire.node("n1", provider_id=MACHINE, labels={label_keys.NODEPOOL: "default"}))

    assert [node.name for node in world.mirror.joined_nodes()] == ["claim"]


def test_until_it_is_registered_the_claim_says_what_a_node_is_like() -> None:
    world = a_world_with_a_claim(taints=(STARTING,))
    taints = (UNREGISTERED, NOT_READY)

    world.add(NODES, wire.node("n1", provider_id=MACHINE, labels={"a": "b"}, taints=taints))
    young = world.mirror.joined(MACHINE)
    world.patch(NODES, "n1", {"metadata": {"labels": {**OURS, label_keys.REGISTERED: "true"}}})
    registered = world.mirror.joined(MACHINE)

    assert young is not None
    assert registered is not None
    assert "a" not in young.labels
    assert young.taints == (STARTING,)
    assert registered.labels["a"] == "b"
    assert registered.taints == taints


def test_taints_that_are_expected_to_go_are_hidden_until_the_node_is_initialized() -> None:
    world = a_world_with_a_claim(startup_taints=(STARTING,))
    labels = {**OURS, label_keys.REGISTERED: "true"}
    world.add(
        NODES,
        wire.node("n1", provider_id=MACHINE, labels=labels, taints=(STARTING, NOT_READY)),
    )
    starting = world.mirror.joined(MACHINE)
    world.patch(NODES, "n1", {"metadata": {"labels": READY}})
    started = world.mirror.joined(MACHINE)
    world.add(NODES, wire.node("other", taints=(NOT_READY,)))
    unmanaged = world.mirror.joined("other")

    assert starting is not None
    assert started is not None
    assert unmanaged is not None
    assert starting.effective_taints() == ()
    assert started.effective_taints() == (STARTING, NOT_READY)
    assert unmanaged.effective_taints() == (NOT_READY,)


def test_capacity_counts_one_node_at_every_stage() -> None:
    shop = Shop([a_type("only")]).open()
    shop.pod_waits()
    shop.wait(2)
    (name,) = shop.bought()
    counted = []

    for step in (shop.launch, shop.join, shop.initialize):
        step(name)
        (node,) = shop.mirror.joined_nodes()
        counted.append((node.effective_capacity()["nodes"], node.effective_capacity()["cpu"]))

    assert [nodes for nodes, _ in counted] == [1, 1, 1]
    assert all(cpu > 0 for _, cpu in counted)


def test_a_machine_is_leaving_when_its_claim_node_or_taint_says_so() -> None:
    world = a_world_with_a_claim(finalizers=["a.b/c"])
    node = wire.node("n1", provider_id=MACHINE, labels=READY, taints=(), finalizers=["a.b/c"])
    world.add(NODES, node)

    def leaving() -> bool:
        found = world.mirror.joined(MACHINE)
        return found is not None and found.deleting

    before = leaving()
    world.patch(NODES, "n1", {"spec": {"taints": [{"key": DISRUPTED.key, "effect": "NoSchedule"}]}})
    marked = leaving()
    world.patch(NODES, "n1", {"spec": {"taints": []}})
    unmarked = leaving()
    world.delete(NODE_CLAIMS, "claim")

    assert (before, marked, unmarked, leaving()) == (False, True, False, True)


def test_a_node_or_claim_that_goes_leaves_the_other_half() -> None:
    world = a_world_with_a_claim()
    world.add(NODES, wire.node("n1", provider_id=MACHINE, labels=READY))

    world.delete(NODES, "n1")
    without_node = [node.name for node in world.mirror.joined_nodes()]
    world.add(NODES, wire.node("n1", provider_id=MACHINE, labels=READY))
    world.delete(NODE_CLAIMS, "claim")

    assert without_node == ["claim"]
    assert [(node.name, node.claim) for node in world.mirror.joined_nodes()] == [("n1", "")]


def test_bound_pods_take_room_until_they_end_or_go_or_are_bound_elsewhere() -> None:
    world = World()
    for name in ("n1", "n2"):
        world.add(NODES, wire.node(name, taints=()))

    def room(name: str) -> int:
        node = world.mirror.joined(name)
        assert node is not None
        return node.available()["pods"]

    for name in ("ends", "goes", "moves"):
        world.add(PODS, wire.pod(name, node="n1"))
    full = room("n1")
    world.patch(PODS, "ends", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    at_once = DeleteOptions(grace_seconds=0)
    for name in ("goes", "moves"):
        world.api.delete(PODS, name, "default", options=at_once)
    world.api.create(PODS, wire.pod("moves", node="n2"))  # Both in one breath.
    world.wait(0)

    assert full == 107
    assert (room("n1"), room("n2")) == (110, 109)


def test_pods_that_were_bound_before_their_node_was_seen_are_counted() -> None:
    world = World()
    world.add(PODS, wire.pod("p", node="n1"))

    world.add(NODES, wire.node("n1"))

    node = world.mirror.joined("n1")
    assert node is not None
    assert [pod.name for pod in node.pods] == ["p"]


def test_a_kubelets_report_that_says_nothing_new_leaves_a_machine_the_object_it_was() -> None:
    world = World()
    world.add(NODES, wire.node("n1", provider_id=MACHINE))
    before = world.mirror.joined_nodes()

    report = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T09:05:00Z"}
    world.patch(NODES, "n1", {"status": {"conditions": [report]}}, subresource="status")

    assert world.mirror.joined_nodes() is before


def test_a_machine_is_joined_anew_only_when_something_of_it_has_changed() -> None:
    world = World()
    for name in ("n1", "n2"):
        world.add(NODES, wire.node(name))
    before = world.mirror.joined_nodes()

    same = world.mirror.joined_nodes()
    world.add(PODS, wire.pod("p", node="n1"))
    after = world.mirror.joined_nodes()

    assert same is before
    assert after[0] is not before[0]
    assert after[1] is before[1]


def test_volume_limits_are_known_in_whichever_order_they_are_told() -> None:
    world = World()
    driver = {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 25}}
    world.add(CSI_NODES, {"metadata": {"name": "n1"}, "spec": {"drivers": [driver]}})

    world.add(NODES, wire.node("n1"))
    early = world.mirror.joined("n1")
    world.delete(CSI_NODES, "n1")
    late = world.mirror.joined("n1")

    assert early is not None
    assert late is not None
    assert early.volume_limits == {"ebs.csi.aws.com": 25}
    assert late.volume_limits == {}


def test_daemon_pods_are_found_by_their_daemon_set() -> None:
    shop = Shop()
    uid = shop.daemon_set("agent", {"cpu": "1"})
    owner = wire.owner("DaemonSet", "agent", uid=uid, controller=True)

    shop.add(PODS, wire.pod("agent-1", node="n1", owner=owner))
    found = [pod.name for pod in shop.mirror.daemon_pods("default", "agent")]
    shop.api.delete(PODS, "agent-1", "default", options=DeleteOptions(grace_seconds=0))
    shop.wait(0)

    assert found == ["agent-1"]
    assert shop.mirror.daemon_pods("default", "agent") == ()
    assert len(shop.mirror.tables[DAEMON_SETS]) == 1


def test_budgets_are_found_by_the_pods_they_speak_for() -> None:
    world = World()
    for name, app in (("mine", "a"), ("theirs", "b")):
        spec = {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1}
        meta = {"name": name, "namespace": "default"}
        world.add(POD_DISRUPTION_BUDGETS, {"metadata": meta, "spec": spec})
    made = wire.pod("p")
    made["metadata"]["labels"] = {"app": "a"}
    world.add(PODS, made)

    pod = world.mirror.pod("default", "p")

    assert pod is not None
    assert [one.name for one in world.mirror.budgets_for(pod)] == ["mine"]


def test_volumes_are_found_by_node_and_by_name() -> None:
    world = World()
    spec = {"nodeName": "n1", "attacher": "x", "source": {"persistentVolumeName": "pv"}}
    world.add(VOLUME_ATTACHMENTS, {"metadata": {"name": "a"}, "spec": spec})
    meta = {"name": "data", "namespace": "default"}
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    world.add(PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": asked})

    assert [one.volume for one in world.mirror.attachments_on("n1")] == ["pv"]
    assert world.mirror.volume_claim("default", "data") is not None
    assert world.mirror.volume_claim("default", "other") is None


def test_a_node_class_is_kept_as_it_is_on_the_wire_until_it_is_gone() -> None:
    world = World()
    world.add(EC2_NODE_CLASSES, wire.node_class())
    kept = world.mirror.raw_node_class("default")

    world.delete(EC2_NODE_CLASSES, "default")

    assert kept is not None
    assert kept["spec"]["role"] == "nodes"
    assert world.mirror.raw_node_class("default") is None


def test_nobody_is_asked_for_machines_without_a_provider_id() -> None:
    world = World()
    world.add(NODE_CLAIMS, wire.claim())
    world.add(NODES, wire.node("n1"))

    assert world.mirror.claims_of("") == ()
    assert world.mirror.nodes_of("") == ()
    assert world.mirror.pods_on("") == ()


def test_a_nomination_lasts_twenty_seconds_and_is_then_forgotten() -> None:
    nominations = Nominations()

    nominations.nominate("a", START)

    assert WINDOW == timedelta(seconds=20)
    assert nominations.nominated("a", START + timedelta(seconds=19))
    assert not nominations.nominated("a", START + WINDOW)
    assert not nominations.nominated("b", START)


def test_a_node_that_is_nominated_again_is_spoken_for_longer() -> None:
    nominations = Nominations()

    for seconds in (0, 10, 15):
        nominations.nominate("a", START + timedelta(seconds=seconds))
        nominations.nominate(f"other-{seconds}", START + timedelta(seconds=seconds))

    assert nominations.nominated("a", START + timedelta(seconds=34))
