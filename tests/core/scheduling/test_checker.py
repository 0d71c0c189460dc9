"""The checker of plans flags violations and accepts valid plans."""

import msgspec
import pytest

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.requirements import Requirement
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, StorageClass
from tests.support.scheduling.builders import (
    a_daemon_set,
    a_node,
    a_pod,
    a_pool,
    cluster,
    node_term,
    pods,
    taint,
    tolerate,
    zone_spread,
)
from tests.support.scheduling.checker.manual_plans import APP, a_plan, on, one_node, planned, rules
from tests.support.scheduling.checker.plan_checker import check, final_state
from tests.support.scheduling.instance_types import (
    DEFAULT_TYPES,
    ON_DEMAND,
    RESERVED,
    SPOT,
    Z1,
    Z2,
    Z3,
    a_type,
    offerings,
    reserved,
)


def test_a_good_plan_has_no_violations() -> None:
    snapshot = cluster(pods(4, labels=APP, spreads=[zone_spread(APP)]))

    assert check(snapshot, on(snapshot, Z1, Z2, Z3, Z1)) == []
    assert final_state(snapshot, on(snapshot, Z1, Z2, Z3, Z1)) == []


# --- Bookkeeping -----------------------------------------------------------------------------


def test_a_lost_pod_is_flagged() -> None:
    snapshot = cluster(pods(2))

    assert rules(snapshot, a_plan(planned(snapshot, "n0", snapshot.pending_pods[:1]))) == {"lost"}


def test_a_doubled_pod_is_flagged() -> None:
    snapshot = cluster(pods(1))
    node = planned(snapshot, "n0", snapshot.pending_pods)

    assert "duplicate" in rules(snapshot, a_plan(node, msgspec.structs.replace(node, name="n1")))
    assert "duplicate" in rules(snapshot, a_plan(node, unplaced=snapshot.pending_pods))


def test_a_placed_pod_that_was_not_pending_is_flagged() -> None:
    snapshot = cluster(pods(1))
    plan = a_plan(planned(snapshot, "n0", [*snapshot.pending_pods, a_pod("ghost")]))

    assert rules(snapshot, plan) == {"unknown"}


def test_a_pod_whose_requirements_were_changed_is_flagged() -> None:
    snapshot = cluster([a_pod("p", node_selector={"a": "b"})])

    assert rules(snapshot, a_plan(planned(snapshot, "n0", [a_pod("p")]))) == {"changed"}


def test_two_nodes_of_one_name_and_an_empty_node_are_flagged() -> None:
    snapshot = cluster(pods(1), nodes=[a_node("n0")])

    assert rules(snapshot, one_node(snapshot)) == {"name"}
    assert rules(snapshot, a_plan(planned(snapshot, "n1", []), unplaced=snapshot.pending_pods)) == {"empty"}


# --- New nodes --------------------------------------------------------------------------------


def test_a_type_that_is_too_small_is_flagged_wherever_it_is_listed() -> None:
    snapshot = cluster([a_pod("p", cpu=3)])

    assert rules(snapshot, one_node(snapshot, types=["default"])) == set()
    assert "resources" in rules(snapshot, one_node(snapshot, types=["small"]))
    assert "resources" in rules(snapshot, one_node(snapshot, types=["default", "small"]))


def test_daemon_sets_need_room_too() -> None:
    daemon = a_daemon_set("agent", cpu=1)
    snapshot = cluster([a_pod("p", cpu="1.5")], daemon_sets=[daemon])
    requests = Resources.parse({"cpu": 1, "memory": "64Mi", "pods": 1})

    assert rules(snapshot, one_node(snapshot, types=["default"], daemons=requests)) == set()
    assert rules(snapshot, one_node(snapshot, types=["small"], daemons=requests)) == {"resources"}


def test_a_daemon_set_that_does_not_tolerate_the_pool_needs_none() -> None:
    pool = a_pool(taints=[taint("team", "x")])
    snapshot = cluster(
        [a_pod("p", cpu="1.5", tolerations=[tolerate("team")])],
        [pool],
        daemon_sets=[a_daemon_set("agent", cpu=1)],
    )

    assert rules(snapshot, one_node(snapshot)) == set()


def test_an_unavailable_offering_is_flagged() -> None:
    shut = a_type("shut", offered=offerings(1.0, [(ON_DEMAND, Z1)], closed=True))
    snapshot = cluster(pods(1), types=[shut])

    assert "offering" in rules(snapshot, one_node(snapshot, types=["shut"]))


def test_an_offering_that_the_claim_rules_out_is_flagged() -> None:
    snapshot = cluster(pods(1), [a_pool(requirements=[(label_keys.ZONE, "In", [Z2])])])

    assert "offering" in rules(snapshot, one_node(snapshot, zone=Z1))


def test_an_alternative_without_an_offering_is_flagged() -> None:
    elsewhere = a_type("elsewhere", offered=offerings(1.0, [(ON_DEMAND, Z2)]))
    snapshot = cluster(pods(1), types=[*DEFAULT_TYPES, elsewhere])

    assert "offering" in rules(snapshot, one_node(snapshot, types=["small", "elsewhere"], zone=Z1))


def test_types_out_of_price_order_are_flagged() -> None:
    snapshot = cluster(pods(1))

    assert rules(snapshot, one_node(snapshot, types=["small", "default"])) == set()
    assert rules(snapshot, one_node(snapshot, types=["default", "small"])) == {"price"}


def test_a_more_expensive_offering_of_the_same_type_is_flagged() -> None:
    offered = [*offerings(1.0, [(ON_DEMAND, Z1)]), *offerings(0.4, [(SPOT, Z1)])]
    snapshot = cluster(pods(1), types=[a_type("t", offered=offered)])
    expensive = planned(snapshot, "n0", snapshot.pending_pods, types=["t"])
    either = Requirement.one_of(label_keys.CAPACITY_TYPE, SPOT, ON_DEMAND)
    requirements = expensive.requirements.without(label_keys.CAPACITY_TYPE).intersection([either])

    assert rules(snapshot, a_plan(expensive)) == set()
    assert rules(snapshot, a_plan(msgspec.structs.replace(expensive, requirements=requirements))) == {"price"}


@pytest.mark.parametrize("state", [{"deleting": True}, {"ready": False}, {"replicas": 3}])
def test_a_pool_that_may_not_be_used_is_flagged(state: dict[str, object]) -> None:
    snapshot = cluster(pods(1), [a_pool(**state)])  # type: ignore[arg-type]

    assert rules(snapshot, one_node(snapshot)) == {"pool"}


def test_a_claim_that_escapes_its_pool_is_flagged() -> None:
    snapshot = cluster(pods(1), [a_pool(requirements=[("team", "In", ["a"])], labels={"x": "y"})])
    plan = one_node(snapshot)
    node = plan.nodes[0]
    loose = msgspec.structs.replace(node, requirements=node.requirements.without("team"))
    bare = msgspec.structs.replace(node, labels=FrozenDict())

    assert rules(snapshot, plan) == set()
    assert rules(snapshot, a_plan(loose)) == {"requirement"}
    assert rules(snapshot, a_plan(bare)) == {"label"}


def test_limits_count_the_largest_type_that_may_come() -> None:
    snapshot = cluster(pods(1), [a_pool(limits={"cpu": 3})])

    assert rules(snapshot, one_node(snapshot, types=["small"])) == set()
    assert rules(snapshot, one_node(snapshot, types=["small", "default"])) == {"limits"}


def test_limits_count_existing_nodes_and_the_number_of_nodes() -> None:
    had = a_node("old", pool="default", cpu=2)
    busy = cluster(pods(1), [a_pool(limits={"cpu": 3})], nodes=[had])
    full = cluster(pods(1), [a_pool(limits={"nodes": 1})], nodes=[had])

    assert rules(busy, one_node(busy)) == {"limits"}
    assert rules(full, one_node(full)) == {"limits"}


def test_too_few_values_are_flagged_unless_relaxed() -> None:
    few = a_pool(requirements=[(label_keys.INSTANCE_TYPE, "Exists", [], 2)])
    snapshot = cluster(pods(1), [few])
    plan = one_node(snapshot, types=["small"])
    relaxed = msgspec.structs.replace(plan.nodes[0], min_values_relaxed=True)

    assert rules(snapshot, plan) == {"min-values"}
    assert rules(snapshot, a_plan(relaxed)) == set()
    assert rules(snapshot, one_node(snapshot, types=["small", "default"])) == set()


def test_a_reservation_used_twice_is_flagged() -> None:
    kind = a_type("t", offered=[reserved(Z1, "cr-1", 1)])
    snapshot = cluster(pods(2), types=[kind])
    nodes = [
        planned(snapshot, f"n{i}", [pod], types=["t"], capacity_type=RESERVED)
        for i, pod in enumerate(snapshot.pending_pods)
    ]

    assert rules(snapshot, a_plan(nodes[0], unplaced=snapshot.pending_pods[1:])) == set()
    assert rules(snapshot, a_plan(*nodes)) == {"reservation"}


def test_wrong_totals_are_flagged() -> None:
    snapshot = cluster(pods(1))
    node = planned(snapshot, "n0", snapshot.pending_pods)

    wrong = msgspec.structs.replace(node, requested=Resources())

    assert rules(snapshot, a_plan(wrong)) == {"requested"}


# --- Pod and node ----------------------------------------------------------------------------


def test_an_untolerated_taint_is_flagged_but_a_preference_is_not() -> None:
    hard = cluster(pods(1), [a_pool(taints=[taint("t")])])
    soft = cluster(pods(1), [a_pool(taints=[taint("t", effect="PreferNoSchedule")])])
    starting = cluster(pods(1), [a_pool(startup_taints=[taint("t")])])

    assert rules(hard, one_node(hard)) == {"taint"}
    assert rules(soft, one_node(soft)) == set()
    assert rules(starting, one_node(starting)) == set()


def test_a_node_selector_that_does_not_hold_is_flagged() -> None:
    snapshot = cluster([a_pod("p", node_selector={label_keys.ZONE: Z2})])

    assert rules(snapshot, one_node(snapshot, zone=Z2)) == set()
    assert rules(snapshot, one_node(snapshot, zone=Z1)) == {"node-affinity"}


def test_one_of_the_affinity_terms_is_enough() -> None:
    terms = [node_term((label_keys.ZONE, "In", [Z2])), node_term((label_keys.ZONE, "In", [Z3]))]
    snapshot = cluster([a_pod("p", node_terms=terms)])

    assert rules(snapshot, one_node(snapshot, zone=Z3)) == set()
    assert rules(snapshot, one_node(snapshot, zone=Z1)) == {"node-affinity"}


def test_a_selector_must_hold_for_every_type_that_may_come() -> None:
    snapshot = cluster([a_pod("p", node_selector={label_keys.ARCH: "amd64"})])

    assert rules(snapshot, one_node(snapshot, types=["small", "default"])) == set()
    assert rules(snapshot, one_node(snapshot, types=["small", "arm"])) == {"node-affinity"}


def test_a_custom_label_that_no_pool_or_type_sets_is_flagged() -> None:
    snapshot = cluster([a_pod("p", node_selector={"team": "a"})])

    assert rules(snapshot, one_node(snapshot)) == {"node-affinity"}


def test_an_operating_system_left_open_is_flagged_for_a_pod_that_needs_one() -> None:
    snapshot = cluster([a_pod("p", node_selector={label_keys.OS: "linux"})])
    decided = Requirement.one_of(label_keys.OS, "linux")

    assert rules(snapshot, one_node(snapshot)) == {"node-affinity"}
    assert rules(snapshot, one_node(snapshot, more=[decided])) == set()


def test_a_port_conflict_is_flagged_on_new_and_existing_nodes() -> None:
    snapshot = cluster(pods(2, ports=[80]), nodes=[a_node("old", pods=[a_pod("r", ports=[80])])])

    assert rules(snapshot, on(snapshot, Z1, Z1)) == set()
    assert rules(snapshot, one_node(snapshot)) == {"host-port"}
    assert rules(
        snapshot, a_plan(existing=[("old", snapshot.pending_pods[:1])], unplaced=snapshot.pending_pods[1:])
    ) == {"host-port"}


def test_a_port_conflict_with_a_daemon_set_is_flagged() -> None:
    snapshot = cluster(pods(1, ports=[80]), daemon_sets=[a_daemon_set("agent", ports=[80])])
    requests = snapshot.daemon_sets[0].pod.spec.requests

    assert rules(snapshot, one_node(snapshot, daemons=requests)) == {"host-port"}


def test_a_volume_in_another_zone_is_flagged() -> None:
    snapshot = cluster(
        pods(1, claims=["data"]),
        volume_claims=[
            PersistentVolumeClaim(
                namespace="default",
                name="data",
                volume="pv",
                annotations=FrozenDict({BIND_COMPLETED: "yes"}),
                phase="Bound",
            )
        ],
        volumes=[PersistentVolume(name="pv", node_terms=(node_term((label_keys.ZONE, "In", [Z3])),))],
    )

    assert rules(snapshot, one_node(snapshot, zone=Z3)) == set()
    assert rules(snapshot, one_node(snapshot, zone=Z1)) == {"volume"}


def test_a_claim_that_does_not_exist_or_binds_at_once_is_flagged() -> None:
    missing = cluster(pods(1, claims=["data"]))
    immediate = cluster(
        pods(1, claims=["data"]),
        volume_claims=[PersistentVolumeClaim(namespace="default", name="data", storage_class="fast")],
        storage_classes=[StorageClass(name="fast", binds_immediately=True)],
    )

    assert rules(missing, one_node(missing)) == {"volume"}
    assert rules(immediate, one_node(immediate)) == {"volume"}


def test_more_volumes_than_a_node_can_attach_are_flagged() -> None:
    claims = [
        PersistentVolumeClaim(namespace="default", name=f"data-{i}", storage_class="ebs") for i in range(2)
    ]
    snapshot = cluster(
        [a_pod(f"p{i}", claims=[f"data-{i}"]) for i in range(2)],
        nodes=[a_node("old", volume_limits=FrozenDict({"ebs.csi.aws.com": 1}))],
        volume_claims=claims,
        storage_classes=[StorageClass(name="ebs", provisioner="ebs.csi.aws.com")],
    )
    first, second = snapshot.pending_pods

    both = a_plan(existing=[("old", [first, second])])
    plan = a_plan(existing=[("old", [first])], unplaced=[second])

    assert rules(snapshot, both) == {"volume-limit"}
    assert rules(snapshot, plan) == set()


def test_a_full_existing_node_is_flagged() -> None:
    snapshot = cluster([a_pod("p", cpu=3)], nodes=[a_node("old", cpu=4, pods=[a_pod("r", cpu=2)])])

    assert rules(snapshot, a_plan(existing=[("old", snapshot.pending_pods)])) == {"resources"}


def test_an_existing_node_keeps_room_for_daemon_sets_that_are_not_there_yet() -> None:
    agent = a_daemon_set("agent", cpu=2)
    empty = cluster([a_pod("p", cpu=3)], nodes=[a_node("old", cpu=4)], daemon_sets=[agent])

    assert rules(empty, a_plan(existing=[("old", empty.pending_pods)])) == {"resources"}


def test_a_deleting_node_takes_no_pods() -> None:
    snapshot = cluster(pods(1), nodes=[a_node("old", deleting=True)])

    assert rules(snapshot, a_plan(existing=[("old", snapshot.pending_pods)])) == {"deleting"}
