"""N3: a node class's terms find nothing."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, many, name_of
from dovetail.ports.api_resources import EC2_NODE_CLASSES

_FIELDS = (
    ("subnets", "subnetSelectorTerms"),
    ("securityGroups", "securityGroupSelectorTerms"),
)


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out terms without an answer: EC2's own, else what the status says."""
    asked = Part.NETWORK not in facts.unseen
    for one in facts.of(EC2_NODE_CLASSES):
        name = name_of(one)
        for field, terms in _FIELDS:
            known = facts.aws.subnets if field == "subnets" else facts.aws.groups
            if asked:
                found, who = bool(known.get(name)), "EC2"
            elif at(one, "status", "conditions"):
                found, who = bool(many(one, "status", field)), f"status.{field}"
            else:
                continue
            if not found:
                yield Symptom(
                    about=f"EC2NodeClass/{name}",
                    seen=f"{who} has nothing for {terms} {many(one, 'spec', terms)}",
                    wrong="the class is not ready, so nothing is bought with it",
                    fix=f"kubectl edit ec2nodeclass {name}  # or tag what {terms} should find",
                )


CHECK = Check(
    code="N3",
    title="selector matches nothing",
    severity=Severity.BROKEN,
    how="subnets and groups that EC2 finds for each EC2NodeClass, else its status",
    mend="correct the tag",
    needs=(EC2_NODE_CLASSES,),
    find=find,
)
