"""JSON output: stable fields for scripts."""

import msgspec

from dovetail.cli.output.plan_report import report_on
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.plan import Constraint, ExistingPlacement, Plan
from tests.cli.plans import M5, M6I, R5, a_planned_node, refused, replicas
from tests.support.scheduling.builders import a_pod

REGION = "us-east-1"
PRICES = PriceBook(source="a book", date="2026-01-31")
LISTED = PriceBook(
    source="a list",
    date="2026-01-31",
    list_prices=FrozenDict({"m5.xlarge": 0.192}),
    list_region=REGION,
    region_factors=FrozenDict({"us-gov-west-1": 1.2}),
    default_factor=1.0,
)


def test_a_node_has_type_pods_and_price() -> None:
    plan = Plan((a_planned_node("default-1", replicas("web", 2), M5, M6I, R5),))

    [node] = msgspec.to_builtins(report_on(plan, PRICES, REGION))["nodes"]

    assert node == {
        "name": "default-1",
        "nodepool": "default",
        "instance_type": "m5.xlarge",
        "alternatives": ["m6i.xlarge", "r5.xlarge"],
        "zone": "us-east-1a",
        "capacity_type": "on-demand",
        "price_per_hour": 0.192,
        "node_cost_per_hour": 0.0,
        "pods": ["default/web-0", "default/web-1"],
        "requested": {"cpu": "2", "memory": "4Gi", "pods": "2"},
        "allocatable": {"cpu": "3920m", "memory": "15Gi", "pods": "58"},
        "price_estimated": False,
    }


def test_existing_nodes_and_unschedulable_pods_are_listed_by_pod() -> None:
    plan = Plan(
        existing=(ExistingPlacement("ip-10-0-0-1", [a_pod("small")]),),
        unschedulable=(refused(a_pod("big"), ("default", Constraint.RESOURCES, "needs 1000 CPUs")),),
    )

    document = msgspec.to_builtins(report_on(plan, PRICES, REGION))

    assert document["existing"] == [{"node": "ip-10-0-0-1", "pods": ["default/small"]}]
    assert document["unplaced"] == [
        {
            "pod": "default/big",
            "refusals": [{"nodepool": "default", "constraint": "resources", "message": "needs 1000 CPUs"}],
        }
    ]


def test_totals_count_new_nodes_and_all_placed_pods_and_a_month_has_730_hours() -> None:
    plan = Plan(
        nodes=tuple(a_planned_node(f"default-{i}", replicas("web", 2)) for i in range(3)),
        existing=(ExistingPlacement("ip-10-0-0-1", [a_pod("small")]),),
        unschedulable=(refused(a_pod("big")),),
    )

    totals = report_on(plan, PRICES, REGION).totals

    assert msgspec.to_builtins(totals) == {
        "nodes": 3,
        "pods": 7,
        "price_per_hour": 0.576,
        "price_per_month": 420.48,
        "node_cost_per_hour": 0.0,
        "cost_per_hour": 0.576,
        "cost_per_month": 420.48,
    }


def test_the_report_of_an_empty_plan_has_every_documented_field() -> None:
    document = msgspec.to_builtins(report_on(Plan(), PRICES, REGION))

    assert document == {
        "nodes": [],
        "existing": [],
        "unplaced": [],
        "totals": {
            "nodes": 0,
            "pods": 0,
            "price_per_hour": 0,
            "price_per_month": 0,
            "node_cost_per_hour": 0,
            "cost_per_hour": 0,
            "cost_per_month": 0,
        },
        "prices": {"source": "a book", "date": "2026-01-31"},
    }


def test_prices_estimated_from_another_region_are_marked() -> None:
    plan = Plan((a_planned_node("default-1", replicas("web", 2), M5),))

    known = msgspec.to_builtins(report_on(plan, LISTED, "us-gov-west-1"))
    unknown = msgspec.to_builtins(report_on(plan, LISTED, "cn-north-1"))

    assert known["nodes"][0]["price_estimated"]
    assert known["prices"] == {
        "source": "a list",
        "date": "2026-01-31",
        "estimated_from": REGION,
        "region_factor": 1.2,
    }
    assert unknown["prices"]["factor_assumed"]
    assert unknown["prices"]["currency"] == "CNY"
