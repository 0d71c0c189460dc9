"""The plan as a table."""

import pytest

from dovetail.cli.simulate.table import format_plan, get_workload
from dovetail.model.plan import Constraint, ExistingPlacement, Plan
from tests.cli.plans import C5, M5, M6I, M7I, R5, a_planned_node, refused, replicas
from tests.support.scheduling.builders import a_pod, owned_by


def shown(plan: Plan, *notes: str) -> str:
    return "\n".join(line.plain for line in format_plan(plan, prices="a book", notes=notes))


def test_equal_nodes_share_a_line_with_their_number_and_total_price() -> None:
    alike = tuple(a_planned_node(f"default-{i}", replicas("web", 3)) for i in range(12))

    lines = shown(Plan(alike)).splitlines()

    assert lines[1].split() == [
        *("12", "×", "m5.xlarge", "on-demand", "us-east-1a", "default"),
        *("3.0/3.9", "6.0/15.0", "2.3040"),
    ]
    assert lines[2].strip() == "each: web × 3"


@pytest.mark.parametrize(
    ("zones", "said"),
    [
        (["us-east-1a", "us-east-1b"], "us-east-1a,b"),
        (["us-east-1a", "us-east-1b", "us-east-1a"], "us-east-1a×2,b×1"),
        (["us-east-1a", "us-east-1-bos-1a"], "us-east-1-bos-1a,us-east-1a"),
        (["us-east-1f", "us-east-1f"], "us-east-1f"),
    ],
)
def test_equal_nodes_in_several_zones_share_a_line_with_the_zones(zones: list[str], said: str) -> None:
    nodes = tuple(
        a_planned_node(f"default-{i}", replicas("web", 1), zone=zone) for i, zone in enumerate(zones)
    )

    line = shown(Plan(nodes)).splitlines()[1]

    assert line.split()[:5] == [str(len(zones)), "×", "m5.xlarge", "on-demand", said]


def test_alternatives_of_a_line_fit_all_its_nodes() -> None:
    nodes = (
        a_planned_node("default-1", replicas("web", 1), M5, M6I, R5),
        a_planned_node("default-2", replicas("web", 1), M5, M7I, R5),
    )

    assert "· or r5.xlarge\n" in shown(Plan(nodes))


def test_many_different_nodes_are_grouped_by_type() -> None:
    fleet = tuple(a_planned_node(f"default-{i}", replicas(f"app{i}", 1)) for i in range(500))

    text = shown(Plan(fleet))

    assert "500 ×" in text
    assert len(text.splitlines()) < 10


def test_alternatives_are_abbreviated() -> None:
    node = a_planned_node("default-1", replicas("web", 1), M5, M6I, M7I, R5, C5)

    text = shown(Plan((node,)))

    assert "or m6i.xlarge, m7i.xlarge, r5.xlarge and 1 more" in text


def test_unschedulable_pods_with_the_same_reasons_are_counted_in_one_line() -> None:
    reasons = (
        ("default", Constraint.RESOURCES, "needs 8 nvidia.com/gpu"),
        ("ml", Constraint.TAINT, "does not tolerate team=ml:NoSchedule"),
    )
    plan = Plan(unschedulable=tuple(refused(pod, *reasons) for pod in replicas("train", 40)))

    lines = [line.strip() for line in shown(plan).splitlines()]

    assert lines[:4] == [
        "No node for 40 pods",
        "train × 40",
        "default  resources  needs 8 nvidia.com/gpu",
        "ml       taint      does not tolerate team=ml:NoSchedule",
    ]


def test_a_reason_without_nodepool_is_shown_for_any() -> None:
    plan = Plan(unschedulable=(refused(a_pod("odd"), ("", Constraint.INVALID_POD, "has no containers")),))

    assert "any  invalid-pod  has no containers" in shown(plan)


def test_the_last_lines_are_totals_price_source_and_notes() -> None:
    plan = Plan(
        nodes=(a_planned_node("default-1", replicas("web", 2)),),
        existing=(ExistingPlacement("ip-10-0-0-1", [a_pod("small")]),),
        unschedulable=(refused(a_pod("big"), ("", Constraint.NO_NODEPOOL, "there is no NodePool")),),
    )

    *_, totals, prices, note = shown(plan, "something was assumed").splitlines()

    assert totals == (
        "1 new node for 2 pods: $0.1920 per hour, $140.16 per month (730 h); "
        "1 pod on existing nodes; 1 pod unschedulable"
    )
    assert prices == "Prices: a book."
    assert note == "Note: something was assumed"


def test_existing_nodes_with_the_same_pods_share_a_line() -> None:
    taken = tuple(ExistingPlacement(f"ip-{i}", replicas("web", 2)) for i in range(5))
    other = ExistingPlacement("ip-9", replicas("api", 1))

    text = shown(Plan(existing=(*taken, other)))

    assert "  ip-0, ip-1 and 3 more  each: web × 2" in text
    assert "  ip-9                   api" in text


def test_namespaces_are_shown_if_there_are_several() -> None:
    web, job = replicas("web", 1, namespace="shop"), replicas("job", 1, namespace="batch")

    alone = shown(Plan((a_planned_node("default-1", web),)))
    together = shown(Plan((a_planned_node("default-1", web + job),)))

    assert "shop/web" not in alone
    assert "batch/job, shop/web" in together


def test_an_empty_plan_has_a_message() -> None:
    assert shown(Plan()).startswith("No pod is pending")


def test_pods_of_a_live_deployment_are_named_after_the_deployment() -> None:
    pod = a_pod(
        "web-5d8f9c-x2x4z",
        owner=owned_by("ReplicaSet", "web-5d8f9c"),
        labels={"pod-template-hash": "5d8f9c"},
        namespace="shop",
    )

    assert get_workload(pod) == "shop/web"
