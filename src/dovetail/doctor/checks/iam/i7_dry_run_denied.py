"""I7: an organisation's policy denies the dry run that node classes are tried with."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import condition, name_of
from dovetail.ports.api_resources import EC2_NODE_CLASSES


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out classes whose validation was refused."""
    for one in facts.of(EC2_NODE_CLASSES):
        told = condition(one, "ValidationSucceeded")
        reason = str(told.get("reason") or "")
        if told.get("status") == "False" and reason.endswith("AuthCheckFailed"):
            yield Symptom(
                about=f"EC2NodeClass/{name_of(one)}",
                seen=f"ValidationSucceeded is False, {reason}: {told.get('message') or ''}".strip(
                    ": "
                ),
                wrong="the class is not ready, so nothing is bought with it",
                fix="allow ec2:RunInstances, ec2:CreateFleet and ec2:CreateLaunchTemplate with "
                "the class's tags in the service control policy; or set DISABLE_DRY_RUN=true",
            )


CHECK = Check(
    code="I7",
    title="policy denies the dry run",
    severity=Severity.BROKEN,
    how="condition ValidationSucceeded of each EC2NodeClass, reason …AuthCheckFailed",
    mend="allow it in the service control or tag policy, or set DISABLE_DRY_RUN",
    needs=(EC2_NODE_CLASSES,),
    find=find,
)
