"""I5: a policy that IAM will not take because it is too long."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at
from dovetail.eks.desired.desired_state import wanted

MOST: Final = 6144
"""Characters without blanks that IAM takes in a managed policy."""
INLINE: Final = 10240
"""In all inline policies of a role together."""


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out policies of a plan, of a cluster.yaml, and the role's inline ones."""
    for name, size, most in _sizes(facts):
        if size > most:
            yield Symptom(
                about=f"policy/{name}",
                seen=f"{size:,} characters without blanks; IAM takes {most:,}",
                wrong="IAM refuses it with LimitExceeded",
                fix="dovetail cluster render -f cluster.yaml  # six policies, each about one thing",
            )


def _sizes(facts: Facts) -> Iterator[tuple[str, int, int]]:
    for change in facts.files.plan:
        if change.get("type") == "aws_iam_policy":
            text = at(change, "change", "after", "policy")
            if isinstance(text, str):
                yield str(change.get("address")), _size(text), MOST
    if facts.files.spec is not None:
        for one in wanted(facts.files.spec):
            if one.kind == "iam-policy":
                yield one.name, _size(one.properties.get("PolicyDocument")), MOST
    role = facts.aws.controller_role
    if role is not None:
        inline = [
            document for name, document in role.documents.items() if name not in role.attached
        ]
        yield f"inline of {role.name}", sum(map(_size, inline)), INLINE


def _size(document: Any) -> int:
    if isinstance(document, Mapping):
        document = json.dumps(document, separators=(",", ":"))
    return len("".join(str(document).split()))


CHECK = Check(
    code="I5",
    title="policy over 6,144 characters",
    severity=Severity.BROKEN,
    how="policies in a Terraform plan, those that cluster.yaml makes, inline ones of the role",
    mend="split it in five or six, or shorten the names in it",
    any_of=(Part.PLAN, Part.SPEC, Part.CONTROLLER_ROLE),
    find=find,
)
