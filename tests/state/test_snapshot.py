"""Nodes as a decision sees them: promised pods on them, claims as what they will become."""

from datetime import timedelta

from msgspec.structs import replace

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.ports.api_resources import NODE_CLAIMS, PODS
from dovetail.state.nodes.initialization_stall import PATIENCE, is_stuck
from dovetail.state.nodes.pending_claims import Prospects
from dovetail.state.pods.scheduling_latency import Decisions
from dovetail.state.snapshot import Picture
from tests.support import wire
from tests.support.catalog import ON_DEMAND, SPOT, Z1, Z2, Z3, a_type, offerings
from tests.support.cluster import START
from tests.support.shop import Shop

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
        requirements=tuple(
            RequirementSpec(key, Operator.IN, values) for key, values in specs.items()
        ),
        requests=Resources.parse({"cpu": 2, "pods": 2}),
    )


def test_an_unlaunched_claim_has_the_least_room_and_the_most_capacity_of_its_types() -> None:
    node = Prospects().node(a_claim("a-small", "a-large"), TYPES, guess=False)

    assert node.effective_allocatable()["cpu"] == SMALL.allocatable["cpu"]
    assert node.effective_allocatable()["memory"] == LARGE.allocatable["memory"]
    assert node.effective_capacity()["cpu"] == 16_000
    assert node.effective_capacity()["nodes"] == 1


def test_a_claim_for_types_that_nobody_sells_any_more_has_room_for_its_own_pods() -> None:
    node = Prospects().node(a_claim("gone"), TYPES, guess=False)

    assert node.effective_allocatable() == {"cpu": 2000, "pods": 2}


def test_only_what_all_its_types_have_in_common_is_certain() -> None:
    prospects = Prospects()

    alike = prospects.node(a_claim("a-small", "a-large", zone=(Z1,)), TYPES, guess=False).labels
    mixed = prospects.node(a_claim("a-small", "an-arm", zone=(Z1, Z3)), TYPES, guess=False).labels

    assert alike[label_keys.ARCH] == "amd64"
    assert alike[label_keys.ZONE] == Z1
    assert label_keys.INSTANCE_TYPE not in alike
    assert label_keys.ARCH not in mixed
    assert label_keys.ZONE not in mixed


def test_a_guess_is_the_cheapest_way_that_the_claim_allows() -> None:
    prospects = Prospects()
    names = ("a-small", "a-large", "an-arm")

    free = prospects.node(a_claim(*names), TYPES, guess=True).labels
    bound = prospects.node(
        a_claim(*names, zone=(Z1, Z2), capacity_type=(ON_DEMAND,)), TYPES, guess=True
    ).labels

    assert (free[label_keys.INSTANCE_TYPE], free[label_keys.ZONE]) == ("an-arm", Z3)
    assert bound[label_keys.INSTANCE_TYPE] == "a-small"
    assert bound[label_keys.ZONE] in (Z1, Z2)
    assert bound[label_keys.CAPACITY_TYPE] == ON_DEMAND
    assert bound[label_keys.NODEPOOL] == "default"


def test_what_types_have_in_common_is_found_again_when_they_change() -> None:
    prospects = Prospects()
    before = prospects.node(a_claim("a-small"), TYPES, guess=False)

    grown = (replace(SMALL, capacity=SMALL.capacity + {"cpu": 1000}),)
    after = prospects.node(a_claim("a-small"), grown, guess=False)

    assert after.effective_allocatable()["cpu"] == before.effective_allocatable()["cpu"] + 1000


def test_promised_pods_are_seen_where_they_will_be_and_no_more_where_they_are() -> None:
    shop = Shop([SMALL]).open()
    shop.pods(2)
    shop.wait(2)
    (old,) = shop.bought()
    shop.bring_up(old)
    shop.bind_all()
    shop.retire(old)
    shop.wait(2)
    (new,) = shop.bought()

    nodes = {node.claim: node for node in Picture(shop.mirror, shop.promises).nodes(shop.now, {})}

    assert nodes[old].deleting
    assert nodes[old].pods == ()
    assert [(pod.name, pod.node_name) for pod in nodes[new].pods] == [
        ("pod-0", new),
        ("pod-1", new),
    ]


def test_claims_that_go_before_they_are_launched_are_no_nodes() -> None:
    shop = Shop([SMALL]).open()
    shop.pod_waits()
    shop.wait(2)

    shop.delete(PODS, "pod", "default")
    shop.retire(shop.bought()[0])

    assert Picture(shop.mirror, shop.promises).nodes(shop.now, {}) == ()


def test_the_newest_pod_of_a_daemon_set_says_what_the_next_will_request() -> None:
    shop = Shop()
    uid = shop.daemon_set("agent", {"cpu": "1"})
    owner = wire.owner("DaemonSet", "agent", uid=uid, controller=True)
    for name, cpu in (("old", "2"), ("new", "3")):
        made = wire.pod(name, node="n1", owner=owner)
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        shop.add(PODS, made)
        shop.wait(60)

    picture = Picture(shop.mirror, shop.promises)
    (daemon,) = picture.snapshot(shop.now, pending=(), pools=(), types={}).daemon_sets

    assert daemon.newest is not None
    assert daemon.newest.spec.requests["cpu"] == 3000


def test_a_snapshot_shares_what_has_not_changed_with_the_one_before() -> None:
    shop = Shop([SMALL]).open()
    shop.pods(2, requests={"cpu": "3"})
    shop.wait(2)
    for name in shop.bought():
        shop.bring_up(name)
    picture = Picture(shop.mirror, shop.promises)
    shop.bind_all()
    first = picture.snapshot(shop.now, pending=(), pools=(), types={})

    second = picture.snapshot(shop.now, pending=(), pools=(), types={})

    assert all(new is old for new, old in zip(second.nodes, first.nodes, strict=True))
    assert second.namespaces is first.namespaces


def a_state(shop: Shop, name: str, **minutes: int) -> NodeClaim:
    known = {
        kind: Condition(status=TRUE, reason=kind, since=START + timedelta(minutes=since))
        for kind, since in minutes.items()
    }
    shop.add(NODE_CLAIMS, wire.claim(name, conditions=FrozenDict(known)))
    return shop.claim(name)


def test_a_node_is_stuck_when_others_of_its_pool_have_come_further_since() -> None:
    shop = Shop()
    late = a_state(shop, "late", Registered=1)
    long_after = START + timedelta(minutes=1) + PATIENCE

    alone = is_stuck(late, shop.mirror, long_after)
    a_state(shop, "earlier", Registered=0, Initialized=0)
    only_earlier = is_stuck(late, shop.mirror, long_after)
    a_state(shop, "other", Registered=2, Initialized=3)

    assert (alone, only_earlier) == (False, False)
    assert is_stuck(late, shop.mirror, long_after)
    assert not is_stuck(late, shop.mirror, long_after - timedelta(seconds=1))
    assert not is_stuck(shop.claim("other"), shop.mirror, long_after + PATIENCE)


def test_the_first_decision_about_a_pod_is_timed_and_no_other() -> None:
    decisions = Decisions()
    later = START + timedelta(seconds=3)

    decisions.asked("a", START)
    decisions.asked("a", later)
    first = decisions.decided("a", later)
    again = decisions.decided("a", later)
    decisions.forget("a")

    assert first == timedelta(seconds=3)
    assert again is None
    assert decisions.decided("a", later) is None
