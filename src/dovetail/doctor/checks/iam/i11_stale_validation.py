"""I11: a node class is still called invalid long after it failed."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import age, condition, name_of
from dovetail.ports.api_resources import EC2_NODE_CLASSES

_REMEMBERED: Final = timedelta(minutes=10)


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out classes whose failure is older than controllers remember it."""
    for one in facts.of(EC2_NODE_CLASSES):
        told = condition(one, "ValidationSucceeded")
        since = age(facts, told.get("lastTransitionTime"))
        if told.get("status") == "False" and since > _REMEMBERED:
            minutes = int(since.total_seconds() // 60)
            name = name_of(one)
            yield Symptom(
                about=f"EC2NodeClass/{name}",
                seen=f"ValidationSucceeded is False for {minutes} minutes: {told.get('reason')}",
                wrong="if IAM was mended since, the controller has not looked again",
                fix=f"kubectl annotate ec2nodeclass {name} --overwrite "
                f"dovetail.sh/looked-at={facts.now:%Y%m%dT%H%M%S}",
            )


CHECK = Check(
    code="I11",
    title="validation stale after a fix",
    severity=Severity.RISK,
    how="ValidationSucceeded of an EC2NodeClass is False for more than 10 minutes",
    mend="touch an annotation of the class, so that it is looked at again",
    needs=(EC2_NODE_CLASSES,),
    find=find,
)
