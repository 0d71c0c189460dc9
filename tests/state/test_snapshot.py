"""Snapshots: nodes with assigned pods, and pending NodeClaims as nodes."""

from datetime import timedelta

from msgspec.structs import replace

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.ports.api_resources import LIMIT_RANGES, NODE_CLAIMS, PODS, RUNTIME_CLASSES
from dovetail.state.nodes.initialization_stall import STALL_TIMEOUT, is_initialization_stalled
from dovetail.state.nodes.pending_claims import PendingClaims
from dovetail.state.pods.scheduling_latency import SchedulingLatency
from dovetail.state.snapshot import SnapshotBuilder
from tests.support.controllers.provisioning import ProvisioningEnvironment
from tests.support.kube import manifests
from tests.support.scheduling.instance_types import ON_DEMAND, SPOT, Z1, Z2, Z3, a_type, offerings
from tests.support.simulator.api_server import START

SMALL = a_type("a-small", cpu=4, memory="8Gi", price=1.0)
LARGE = a_type("a-large", cpu=16, memory="4Gi", price=4.0)
ARM = a_type("an-arm", cpu=8, arch="arm64", offered=offerings(0.5, [(SPOT, Z3)]))
TYPES = (SMALL, LARGE, ARM)


def a_claim(*names: str, **asked: tuple[str, ...]) -> NodeClaim:
    keys = {"zone": label_keys.ZONE, "capacity_type": label_keys.CAPACITY_TYPE}
    specs = {label_keys.INSTANCE_TYPE: names, **{keys[key]: asked[key] for key in asked}}
    return NodeClaim(
        name="default-1",
        labels=FrozenDict({label_keys.NODEPOOL: "default"}),
        requirements=tuple(RequirementSpec(key, Operator.IN, values) for key, values in specs.items()),
        requests=Resources.parse({"cpu": 2, "pods": 2}),
    )


def test_pending_claim_has_minimum_allocatable_and_maximum_capacity_of_its_types() -> None:
    node = PendingClaims().as_node(a_claim("a-small", "a-large"), TYPES, assume_cheapest=False)

    assert node.effective_allocatable()["cpu"] == SMALL.allocatable["cpu"]
    assert node.effective_allocatable()["memory"] == LARGE.allocatable["memory"]
    assert node.effective_capacity()["cpu"] == 16_000
    assert node.effective_capacity()["nodes"] == 1


def test_pending_claim_without_offered_types_has_room_for_its_own_pods() -> None:
    node = PendingClaims().as_node(a_claim("gone"), TYPES, assume_cheapest=False)

    assert node.effective_allocatable() == {"cpu": 2000, "pods": 2}


def test_pending_claim_has_the_labels_common_to_all_its_types() -> None:
    pending_claims = PendingClaims()

    alike = pending_claims.as_node(
        a_claim("a-small", "a-large", zone=(Z1,)), TYPES, assume_cheapest=False
    ).labels
    mixed = pending_claims.as_node(
        a_claim("a-small", "an-arm", zone=(Z1, Z3)), TYPES, assume_cheapest=False
    ).labels

    assert alike[label_keys.ARCH] == "amd64"
    assert alike[label_keys.ZONE] == Z1
    assert label_keys.INSTANCE_TYPE not in alike
    assert label_keys.ARCH not in mixed
    assert label_keys.ZONE not in mixed


def test_assumed_labels_are_those_of_the_cheapest_allowed_offering() -> None:
    pending_claims = PendingClaims()
    names = ("a-small", "a-large", "an-arm")

    free = pending_claims.as_node(a_claim(*names), TYPES, assume_cheapest=True).labels
    bound = pending_claims.as_node(
        a_claim(*names, zone=(Z1, Z2), capacity_type=(ON_DEMAND,)), TYPES, assume_cheapest=True
    ).labels

    assert (free[label_keys.INSTANCE_TYPE], free[label_keys.ZONE]) == ("an-arm", Z3)
    assert bound[label_keys.INSTANCE_TYPE] == "a-small"
    assert bound[label_keys.ZONE] in (Z1, Z2)
    assert bound[label_keys.CAPACITY_TYPE] == ON_DEMAND
    assert bound[label_keys.NODEPOOL] == "default"


def test_common_labels_are_recomputed_when_types_change() -> None:
    pending_claims = PendingClaims()
    before = pending_claims.as_node(a_claim("a-small"), TYPES, assume_cheapest=False)

    grown = (replace(SMALL, capacity=SMALL.capacity + {"cpu": 1000}),)
    after = pending_claims.as_node(a_claim("a-small"), grown, assume_cheapest=False)

    assert after.effective_allocatable()["cpu"] == before.effective_allocatable()["cpu"] + 1000


def test_assigned_pods_count_on_their_new_node_and_not_on_the_old_one() -> None:
    env = ProvisioningEnvironment([SMALL]).start()
    env.add_pending_pods(2)
    env.wait(2)
    (old,) = env.live_claims()
    env.make_ready(old)
    env.bind_all()
    env.delete_claim(old)
    env.wait(2)
    (new,) = env.live_claims()

    nodes = {node.claim: node for node in SnapshotBuilder(env.cache, env.assignments).nodes(env.now, {})}

    assert nodes[old].deleting
    assert nodes[old].pods == ()
    assert [(pod.name, pod.node_name) for pod in nodes[new].pods] == [("pod-0", new), ("pod-1", new)]


def test_pending_claims_under_deletion_are_no_nodes() -> None:
    env = ProvisioningEnvironment([SMALL]).start()
    env.add_pending_pod()
    env.wait(2)

    env.delete(PODS, "pod", "default")
    env.delete_claim(env.live_claims()[0])

    assert SnapshotBuilder(env.cache, env.assignments).nodes(env.now, {}) == ()


def test_newest_daemonset_pod_determines_the_requests() -> None:
    env = ProvisioningEnvironment()
    uid = env.add_daemon_set("agent", {"cpu": "1"})
    owner = manifests.owner("DaemonSet", "agent", uid=uid, controller=True)
    for name, cpu in (("old", "2"), ("new", "3")):
        pod = manifests.pod(name, node="n1", owner=owner)
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        env.add(PODS, pod)
        env.wait(60)

    builder = SnapshotBuilder(env.cache, env.assignments)
    (daemon,) = builder.build(env.now, pending=(), pools=(), types={}).daemon_sets

    assert daemon.newest_pod is not None
    assert daemon.newest_pod.spec.requests["cpu"] == 3000


def test_snapshots_share_unchanged_objects() -> None:
    env = ProvisioningEnvironment([SMALL]).start()
    env.add_pending_pods(2, requests={"cpu": "3"})
    env.wait(2)
    for name in env.live_claims():
        env.make_ready(name)
    builder = SnapshotBuilder(env.cache, env.assignments)
    env.bind_all()
    first = builder.build(env.now, pending=(), pools=(), types={})

    second = builder.build(env.now, pending=(), pools=(), types={})

    assert all(new is old for new, old in zip(second.nodes, first.nodes, strict=True))
    assert second.namespaces is first.namespaces


def a_state(env: ProvisioningEnvironment, name: str, **minutes: int) -> NodeClaim:
    conditions = {
        kind: Condition(status=TRUE, reason=kind, last_transition_time=START + timedelta(minutes=since))
        for kind, since in minutes.items()
    }
    env.add(NODE_CLAIMS, manifests.claim(name, conditions=FrozenDict(conditions)))
    return env.claim(name)


def test_initialization_is_stalled_if_a_later_node_of_the_nodepool_is_initialized() -> None:
    env = ProvisioningEnvironment()
    late = a_state(env, "late", Registered=1)
    long_after = START + timedelta(minutes=1) + STALL_TIMEOUT

    alone = is_initialization_stalled(late, env.cache, long_after)
    a_state(env, "earlier", Registered=0, Initialized=0)
    only_earlier = is_initialization_stalled(late, env.cache, long_after)
    a_state(env, "other", Registered=2, Initialized=3)

    assert (alone, only_earlier) == (False, False)
    assert is_initialization_stalled(late, env.cache, long_after)
    assert not is_initialization_stalled(late, env.cache, long_after - timedelta(seconds=1))
    assert not is_initialization_stalled(env.claim("other"), env.cache, long_after + STALL_TIMEOUT)


def test_only_the_first_decision_about_a_pod_is_timed() -> None:
    decisions = SchedulingLatency()
    later = START + timedelta(seconds=3)

    decisions.record_pending("a", START)
    decisions.record_pending("a", later)
    first = decisions.record_decision("a", later)
    again = decisions.record_decision("a", later)
    decisions.remove("a")

    assert first == timedelta(seconds=3)
    assert again is None
    assert decisions.record_decision("a", later) is None


def test_daemonset_without_pods_has_the_requests_that_admission_will_give_it() -> None:
    env = ProvisioningEnvironment(TYPES)
    env.add(LIMIT_RANGES, a_limit_range(default={"memory": "1Gi"}))
    env.add(RUNTIME_CLASSES, {"metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "250m"}}})
    env.add_daemon_set("agent", {"cpu": "1"}, runtimeClassName="kata")

    (daemon,) = (
        SnapshotBuilder(env.cache, env.assignments).build(env.now, pending=(), pools=(), types={}).daemon_sets
    )

    assert daemon.pod.spec.requests["cpu"] == 1250
    assert daemon.pod.spec.requests["memory"] == 1024**3


def test_daemonset_whose_pods_a_limit_range_rejects_takes_no_room() -> None:
    env = ProvisioningEnvironment(TYPES)
    env.add(LIMIT_RANGES, a_limit_range(max={"cpu": "500m"}))
    env.add_daemon_set("agent", {"cpu": "1"})

    snapshot = SnapshotBuilder(env.cache, env.assignments).build(env.now, pending=(), pools=(), types={})

    assert snapshot.daemon_sets == ()


def a_limit_range(**item: dict[str, str]) -> dict[str, object]:
    metadata = {"name": "limits", "namespace": "default"}
    return {"metadata": metadata, "spec": {"limits": [{"type": "Container", **item}]}}
