"""I4: the controller's policy is behind the controller's version."""

from collections.abc import Iterator
from typing import Final

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.iam_policies import may

_ALWAYS: Final = (
    "ec2:CreateFleet",
    "ec2:CreateLaunchTemplate",
    "ec2:CreateTags",
    "ec2:DeleteLaunchTemplate",
    "ec2:DescribeImages",
    "ec2:DescribeInstances",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSpotPriceHistory",
    "ec2:DescribeSubnets",
    "ec2:RunInstances",
    "ec2:TerminateInstances",
    "iam:PassRole",
    "ssm:GetParameter",
)
_SINCE: Final = (
    ((1, 3), "ec2:DescribeCapacityReservations"),
    ((1, 7), "iam:ListInstanceProfiles"),
    ((1, 11), "ec2:DescribePlacementGroups"),
    ((1, 12), "ec2:DescribeInstanceStatus"),
)
_PLACEMENT: Final = (1, 11)
"""From here on launches name placement groups as well."""


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out all that is missing as one symptom."""
    found, role = controller_of(facts), facts.aws.controller_role
    if found is None or role is None:
        return
    wanted = [*_ALWAYS, *(one for since, one in _SINCE if found.version >= since)]
    if found.setting("INTERRUPTION_QUEUE"):
        wanted += ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
    if found.setting("ENABLE_ZONAL_SHIFT").lower() == "true":
        wanted.append("arc-zonal-shift:GetManagedResource")
    missing = [one for one in wanted if not may(role, one)]
    group = f"arn:{facts.aws.partition}:ec2:{facts.region}:{facts.aws.account}:placement-group/a"
    if found.version >= _PLACEMENT and not may(role, "ec2:RunInstances", group):
        missing.append("ec2:RunInstances on placement-group/*")
    if not missing:
        return
    version = ".".join(map(str, found.version)) if found.kind == "karpenter" else "dovetail"
    yield Symptom(
        about=f"role/{role.name}",
        seen=f"its documents do not allow {', '.join(missing)}; controller: {version}",
        wrong="the controller is refused where it needs these",
        fix="dovetail cluster render -f cluster.yaml  # then attach the policies it writes to "
        f"{role.name}",
    )


CHECK = Check(
    code="I4",
    title="controller policy behind the version",
    severity=Severity.BROKEN,
    how="the documents of the controller's role against a table of what each version needs",
    mend="add the actions that are named",
    needs=(Part.CONTROLLER, Part.VERSION, Part.CONTROLLER_ROLE),
    find=find,
)
