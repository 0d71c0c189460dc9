"""Costs of control planes, NAT gateways and endpoints by region."""

from datetime import date

import pytest

from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.offline import offline_plan
from dovetail.eks.prices import (
    END_OF_STANDARD_SUPPORT,
    control_plane_cost,
    interface_endpoint_cost,
    nat_gateway_cost,
)
from dovetail.eks.versions import VERSIONS
from tests.support.eks.configs import a_cluster

BEFORE, AFTER = date(2026, 7, 29), date(2026, 7, 30)


@pytest.mark.parametrize(
    ("region", "hourly", "note"),
    [
        ("us-east-1", 0.045, "billed per GB"),
        ("eu-central-1", 0.052, "billed per GB"),
        ("sa-east-1", 0.093, "billed per GB"),
        ("eu-west-3", 0.045 * 1.167, "estimated at 1.167 × us-east-1"),
        ("mx-central-1", 0.045, "assumed at 1 × us-east-1"),
        ("cn-north-1", 0.045, "assumed at 1 × us-east-1"),
    ],
)
def test_nat_gateway_has_the_price_of_its_region(region: str, hourly: float, note: str) -> None:
    cost = nat_gateway_cost(region)

    assert cost.monthly_usd == pytest.approx(730 * hourly)
    assert cost.note.endswith(note)


def test_interface_endpoints_are_billed_per_zone_and_region() -> None:
    assert interface_endpoint_cost("us-east-1", 3).monthly_usd == pytest.approx(3 * 7.3)
    assert interface_endpoint_cost("eu-west-1", 2).monthly_usd == pytest.approx(2 * 730 * 0.011)
    assert "estimated at 1.594 × us-east-1" in interface_endpoint_cost("sa-east-1", 2).note


def test_control_plane_costs_six_times_as_much_in_extended_support() -> None:
    standard = control_plane_cost("1.33", region="us-east-1", today=BEFORE)
    extended = control_plane_cost("1.33", region="us-east-1", today=AFTER)

    assert standard.monthly_usd == pytest.approx(73)
    assert "standard support of 1.33 ends on 2026-07-29; extended support is $438.00" in standard.note
    assert extended.monthly_usd == pytest.approx(438)
    assert "extended support: standard support of 1.33 ended on 2026-07-29" in extended.note


def test_unknown_end_of_support_is_stated() -> None:
    unknown = [version for version in VERSIONS if version not in END_OF_STANDARD_SUPPORT]

    cost = control_plane_cost(unknown[-1], region="us-east-1", today=AFTER)

    assert cost.monthly_usd == pytest.approx(73)
    assert "whose end is not known here" in cost.note


def test_cluster_that_eks_upgrades_never_pays_for_extended_support() -> None:
    config = a_cluster(version="1.33", support="standard")
    cluster = next(r for r in desired_state(config, today=AFTER) if r.kind == "eks-cluster")

    assert cluster.properties["UpgradePolicy"] == {"SupportType": "STANDARD"}
    assert cluster.monthly_usd == pytest.approx(73)
    assert "EKS upgrades it at the end of standard support of 1.33, 2026-07-29" in cluster.cost_note


def test_plan_collects_the_notes_of_all_resources_once() -> None:
    config = a_cluster(region="eu-west-3", home="fargate", vpc={"create": {"nat": "per-zone"}})

    plan = offline_plan(config, today=AFTER)

    assert [note.partition(":")[0] for note in plan.cost_notes] == [
        "control plane",
        "NAT gateways",
        "Fargate",
    ]
    addresses, nat = 3 * 3.65, 3 * 730 * 0.045 * 1.167
    assert plan.monthly_usd == pytest.approx(438 + addresses + nat)
