"""A plan as a person reads it."""

from dovetail.cli.cluster.plan_output import missing_lines, plan_lines
from dovetail.eks.plan.planner import plan
from dovetail.eks.plan.resource import Existing, Observed, Resource
from tests.support.clusters import ACCOUNT


def _observed(*existing: Existing) -> Observed:
    return Observed(account=ACCOUNT, resources={one.address: one for one in existing})


def test_what_would_be_replaced_is_one_red_line_with_the_reason_below_it() -> None:
    wanted = [Resource(kind="vpc", name="main", properties={"CidrBlock": "10.1.0.0/16"})]
    there = Existing(kind="vpc", name="main", properties={"CidrBlock": "10.0.0.0/16"})

    lines = plan_lines(plan(wanted, _observed(there)), name="dev", where="us-east-1")

    replaced = [one for one in lines if "± VPC main" in one.plain]
    assert len(replaced) == 1
    assert any("red" in str(span.style) for span in replaced[0].spans)
    below = lines[lines.index(replaced[0]) + 1]
    assert below.plain.endswith(
        "CidrBlock: 10.0.0.0/16 → 10.1.0.0/16; it cannot be changed, so it is replaced"
    )
    assert "1 to replace" in lines[-2].plain


def test_each_verb_has_its_sign_and_the_sum_names_what_is_not_nothing() -> None:
    wanted = [
        Resource(kind="sqs-queue", name="new"),
        Resource(kind="sqs-queue", name="same", properties={"DelaySeconds": 1}),
    ]
    there = [
        Existing(kind="sqs-queue", name="same", properties={"DelaySeconds": 0}),
        Existing(kind="sqs-queue", name="old"),
    ]

    text = "\n".join(
        one.plain for one in plan_lines(plan(wanted, _observed(*there)), name="dev", where="x")
    )

    assert "+ SQS queue new" in text
    assert "~ SQS queue same" in text
    assert "DelaySeconds: 0 → 1" in text
    assert "- SQS queue old" in text
    assert "1 to make, 1 to change, 1 to remove" in text


def test_subnets_that_are_not_there_are_spoken_of_as_the_file_does() -> None:
    selection = Resource(kind="subnet-selection", name="nodes", given=True)

    assert missing_lines([selection]) == [
        "vpc.existing: no such subnet is in this account and region"
    ]
