"""Output of plans."""

import json

import pytest

from dovetail.cli.cluster.plan_output import missing_lines, plan_json, plan_lines
from dovetail.eks.plan.planner import plan_changes
from dovetail.eks.plan.resource import DesiredResource, ObservedResource, ObservedState
from tests.support.eks.configs import ACCOUNT


def _observed(*resources: ObservedResource) -> ObservedState:
    return ObservedState(account=ACCOUNT, resources={resource.address: resource for resource in resources})


def test_replacement_is_one_red_line_with_the_reason_below_it() -> None:
    desired = [DesiredResource(kind="vpc", name="main", properties={"CidrBlock": "10.1.0.0/16"})]
    observed = ObservedResource(kind="vpc", name="main", properties={"CidrBlock": "10.0.0.0/16"})

    lines = plan_lines(plan_changes(desired, _observed(observed)), name="dev", region="us-east-1")

    replaced = [line for line in lines if "± VPC main" in line.plain]
    assert len(replaced) == 1
    assert any("red" in str(span.style) for span in replaced[0].spans)
    below = lines[lines.index(replaced[0]) + 1]
    assert below.plain.endswith(
        "CidrBlock: 10.0.0.0/16 → 10.1.0.0/16; immutable, so the resource is replaced"
    )
    assert "1 to replace" in lines[-2].plain


def test_each_action_has_its_sign_and_the_summary_counts_them() -> None:
    desired = [
        DesiredResource(kind="sqs-queue", name="new"),
        DesiredResource(kind="sqs-queue", name="same", properties={"DelaySeconds": 1}),
    ]
    observed = [
        ObservedResource(kind="sqs-queue", name="same", properties={"DelaySeconds": 0}),
        ObservedResource(kind="sqs-queue", name="old"),
    ]

    text = "\n".join(
        line.plain for line in plan_lines(plan_changes(desired, _observed(*observed)), name="dev", region="x")
    )

    assert "+ SQS queue new" in text
    assert "~ SQS queue same" in text
    assert "DelaySeconds: 0 → 1" in text
    assert "- SQS queue old" in text
    assert "1 to create, 1 to update, 1 to delete" in text


def test_missing_subnets_are_reported_by_their_field() -> None:
    selection = DesiredResource(kind="subnet-selection", name="nodes", external=True)

    assert missing_lines([selection]) == ["vpc.existing: no such subnet exists in this account and region"]


@pytest.mark.parametrize(
    ("region", "stated", "factor"),
    [
        ("eu-west-1", "on-demand estimated at 1.115 × us-east-1", 1.115),
        ("mx-central-1", "on-demand assumed at 1 × us-east-1 (no factor is known)", 1.0),
        ("cn-north-1", "on-demand assumed at 1 × us-east-1 (no factor is known)", 1.0),
    ],
)
def test_costs_estimated_from_another_region_are_marked(region: str, stated: str, factor: float) -> None:
    plan = plan_changes([DesiredResource(kind="eks-node-group", name="a", monthly_usd=1)], _observed())

    total = plan_lines(plan, name="dev", region=region)[-1].plain
    document = json.loads(plan_json(plan, name="dev", region=region))

    assert total.endswith(f"; {stated}")
    assert document["nodePricesEstimatedFrom"]["region"] == "us-east-1"
    assert document["nodePricesEstimatedFrom"]["factor"] == factor
    assert json.loads(plan_json(plan, name="dev", region="us-east-1"))["nodePricesEstimatedFrom"] is None
