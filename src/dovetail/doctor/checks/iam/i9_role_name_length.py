"""I9: a role's name is longer than IAM takes."""

from collections.abc import Iterator
from typing import Final

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, name_of
from dovetail.eks.desired.names import ROLE_LIMIT
from dovetail.ports.api_resources import EC2_NODE_CLASSES

_USUAL: Final = "KarpenterNodeRole-"


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out names that are too long: of classes, of a plan, and by the usual pattern."""
    names: dict[str, str] = {}
    for one in facts.of(EC2_NODE_CLASSES):
        role = str(at(one, "spec", "role") or "").rpartition("/")[2]
        names[role] = f"EC2NodeClass/{name_of(one)}"
    for change in facts.files.plan:
        if change.get("type") == "aws_iam_role":
            names[str(at(change, "change", "after", "name") or "")] = str(change.get("address"))
    if facts.cluster and not any(names):
        names[f"{_USUAL}{facts.cluster}"] = f"cluster/{facts.cluster}"
    for name, about in sorted(names.items()):
        if len(name) > ROLE_LIMIT:
            yield Symptom(
                about=about,
                seen=f"role {name} has {len(name)} characters; IAM takes {ROLE_LIMIT}",
                wrong="the role cannot be made, or is not the one that is meant",
                fix="set iam.prefix in cluster.yaml to something short, or name the role yourself",
            )


CHECK = Check(
    code="I9",
    title="role name over 64 characters",
    severity=Severity.BROKEN,
    how="spec.role of each EC2NodeClass, roles of a Terraform plan, else KarpenterNodeRole-CLUSTER",
    mend="shorten it",
    any_of=(EC2_NODE_CLASSES, Part.PLAN),
    find=find,
)
