"""Choice of the NodePool for a pod."""

import pytest

from dovetail.core.scheduling.solver import solve as unchecked
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Constraint
from dovetail.model.settings import Packing, SchedulingSettings
from tests.support.scheduling.builders import (
    Entry,
    a_node,
    a_pod,
    a_pool,
    cluster,
    owned_by,
    pods,
    taint,
    tolerate,
)
from tests.support.scheduling.plans import new_node_of, node_of, placed, reasons_of, unplaced
from tests.support.scheduling.solver import checked as solve

BOTH = pytest.mark.parametrize("packing", list(Packing))


# --- P5 to P9 ---------------------------------------------------------------------------------


def test_p5_one_pod_and_one_pool_give_one_node() -> None:
    plan = solve(cluster([a_pod("p")]))

    assert [len(node.pods) for node in plan.nodes] == [1]


@BOTH
def test_p6_a_hundred_pods_all_get_a_node(packing: Packing) -> None:
    plan = solve(cluster(pods(100)), SchedulingSettings(packing=packing))

    assert len(placed(plan)) == 100


def test_p7_a_pool_that_is_being_deleted_is_never_used() -> None:
    plan = solve(cluster([a_pod("p")], [a_pool("gone", deleting=True)]))

    assert unplaced(plan) == ["p"]
    answers = [(reason.nodepool, reason.constraint) for reason in reasons_of(plan, "p")]
    assert ("gone", Constraint.NODEPOOL_NOT_READY) in answers


def test_p8_without_any_pool_the_reason_says_so() -> None:
    plan = solve(cluster([a_pod("p")], []))

    assert [why.constraint for why in reasons_of(plan, "p")] == [Constraint.NO_NODEPOOL]


def test_p9_a_pool_that_is_not_ready_is_skipped() -> None:
    pools = [a_pool("broken", weight=100, ready=False), a_pool("fine")]

    plan = solve(cluster([a_pod("p")], pools))

    assert new_node_of(plan, "p").nodepool == "fine"


def test_p9_with_no_other_pool_the_reason_names_the_one_that_is_not_ready() -> None:
    plan = solve(cluster([a_pod("p")], [a_pool("broken", ready=False)]))

    answers = [(reason.nodepool, reason.constraint) for reason in reasons_of(plan, "p")]
    assert ("broken", Constraint.NODEPOOL_NOT_READY) in answers


@pytest.mark.parametrize(
    "settled",
    [
        a_pod("p", owner=owned_by("DaemonSet", "agent")),
        a_pod("p", owner=owned_by("Node", "n")),
        a_pod("p", nominated_node_name="n"),
        a_pod("p", node_name="n"),
    ],
    ids=["daemon", "static", "nominated", "bound"],
)
def test_pods_that_need_no_node_are_neither_placed_nor_unschedulable(settled: Pod) -> None:
    # Unchecked: the checker expects a result for every pod that is listed as pending.
    plan = unchecked(cluster([settled]))

    assert (plan.nodes, plan.existing, plan.unschedulable) == ((), (), ())


# --- P24 to P26: taints of the pool -----------------------------------------------------------


@pytest.mark.parametrize(
    "consent",
    [
        tolerate("dedicated", "gpu", "NoSchedule"),
        tolerate("dedicated", effect="NoSchedule"),
        tolerate("dedicated"),
        tolerate(),
    ],
)
def test_p24_every_form_of_toleration_of_the_pools_taint_works(consent: object) -> None:
    pool = a_pool(taints=[taint("dedicated", "gpu")])

    plan = solve(cluster([a_pod("p", tolerations=[consent])], [pool]))

    assert placed(plan) == ["p"]


@pytest.mark.parametrize(
    "tolerations", [[], [tolerate("other")], [tolerate("dedicated", "cpu", "NoSchedule")]]
)
@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_p25_a_taint_that_is_not_tolerated_leaves_the_pod_pending(
    tolerations: list[object], effect: str
) -> None:
    pool = a_pool(taints=[taint("dedicated", "gpu", effect)])

    plan = solve(cluster([a_pod("p", tolerations=tolerations)], [pool]))

    assert [why.constraint for why in reasons_of(plan, "p")] == [Constraint.TAINT]


def test_p26_tolerations_add_no_taints_to_the_node() -> None:
    pod = a_pod("p", tolerations=[tolerate("dedicated", "gpu"), tolerate("other")])

    plan = solve(cluster([pod]))

    assert new_node_of(plan, "p").taints == ()


# --- P68 to P71 -------------------------------------------------------------------------------


@BOTH
def test_p68_a_pod_chooses_its_pool_by_name(packing: Packing) -> None:
    pod = a_pod("p", node_selector={label_keys.NODEPOOL: "chosen"})
    pools = [a_pool("chosen"), a_pool("heavier", weight=100), a_pool("other")]

    plan = solve(cluster([pod], pools), SchedulingSettings(packing=packing))

    assert new_node_of(plan, "p").nodepool == "chosen"


@BOTH
def test_p68_a_pod_chooses_its_pool_by_label(packing: Packing) -> None:
    pod = a_pod("p", node_selector={"team": "red"})
    pools = [a_pool("other", labels={"team": "blue"}), a_pool("ours", labels={"team": "red"})]

    plan = solve(cluster([pod], pools), SchedulingSettings(packing=packing))

    assert new_node_of(plan, "p").nodepool == "ours"


@BOTH
def test_p69_a_pool_with_a_soft_taint_is_avoided(packing: Packing) -> None:
    pools = [a_pool("shy", weight=100, taints=[taint("busy", effect="PreferNoSchedule")]), a_pool("open")]

    plan = solve(cluster([a_pod("p")], pools), SchedulingSettings(packing=packing))

    assert new_node_of(plan, "p").nodepool == "open"


@BOTH
def test_p70_the_heaviest_pool_takes_every_pod(packing: Packing) -> None:
    pools = [a_pool("a", weight=20), a_pool("b", weight=100), a_pool("c")]

    plan = solve(cluster(pods(3, cpu="1.5"), pools), SchedulingSettings(packing=packing))

    assert {node.nodepool for node in plan.nodes} == {"b"}


@BOTH
def test_p70_pools_of_equal_weight_go_by_name_from_the_end(packing: Packing) -> None:
    pools = [a_pool("b"), a_pool("c"), a_pool("a")]

    plan = solve(cluster(pods(3), pools), SchedulingSettings(packing=packing))

    assert {node.nodepool for node in plan.nodes} == {"c"}


@BOTH
def test_p71_a_static_pool_is_never_used_for_pods(packing: Packing) -> None:
    pools = [a_pool("static", replicas=3), a_pool("dynamic")]

    plan = solve(cluster(pods(3), pools), SchedulingSettings(packing=packing))

    assert {node.nodepool for node in plan.nodes} == {"dynamic"}


def test_p71_with_a_static_pool_alone_the_pod_stays_pending() -> None:
    plan = solve(cluster([a_pod("p")], [a_pool("static", replicas=3)]))

    assert unplaced(plan) == ["p"]


def test_p71_nodes_of_a_static_pool_still_take_pods() -> None:
    node = a_node("n", pool="static")

    plan = solve(cluster([a_pod("p")], [a_pool("static", replicas=1)], nodes=[node]))

    assert node_of(plan, "p") == "n"


# --- S65 --------------------------------------------------------------------------------------

IMPOSSIBLE: list[list[Entry]] = [
    [(label_keys.INSTANCE_TYPE, "In", ["enormous"])],
    [(label_keys.ARCH, "In", ["riscv"])],
    [(label_keys.ARCH, "In", ["amd64"]), (label_keys.ARCH, "In", ["arm64"])],
    [(label_keys.ZONE, "In", ["mars-1a", "mars-1b"])],
]


@pytest.mark.parametrize("demands", IMPOSSIBLE)
def test_s65_a_pool_that_no_type_can_serve_gives_every_pod_a_reason(demands: list[Entry]) -> None:
    plan = solve(cluster(pods(2), [a_pool(requirements=demands)]))

    assert unplaced(plan) == ["pod-0", "pod-1"]
    for name in ("pod-0", "pod-1"):
        [reason] = reasons_of(plan, name)
        assert reason.nodepool == "default"
        assert reason.constraint in (Constraint.REQUIREMENT, Constraint.OFFERING)


def test_s65_room_on_existing_nodes_is_still_used() -> None:
    pool = a_pool(requirements=[(label_keys.ARCH, "In", ["riscv"])])

    plan = solve(cluster([a_pod("p")], [pool], nodes=[a_node("n")]))

    assert node_of(plan, "p") == "n"
    assert unplaced(plan) == []


def test_s65_a_pool_without_any_types_gives_every_pod_a_reason() -> None:
    plan = solve(cluster([a_pod("p")], types={"default": []}))

    [reason] = reasons_of(plan, "p")
    assert reason.nodepool == "default"
