"""T4: a plan replaces a NodePool or node class, and with it every node."""

import re
from collections.abc import Iterator
from typing import Any

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, many

_KINDS = ("NodePool", "EC2NodeClass", "Provisioner", "AWSNodeTemplate")
_KIND = re.compile(r"^kind:\s*['\"]?(\w+)", re.MULTILINE)


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out replacements of objects that own nodes."""
    for change in facts.files.plan:
        actions = many(change, "change", "actions")
        kind = _kind(at(change, "change", "before"))
        if kind in _KINDS and {"create", "delete"} <= set(actions):
            address = str(change.get("address"))
            yield Symptom(
                about=f"plan/{address}",
                seen=f"{kind}: {' then '.join(map(str, actions))}",
                wrong=f"deleting the {kind} drains and deletes all nodes that come from it",
                fix=f"add to {address}: lifecycle {{ prevent_destroy = true }}  "
                "# and change the object in place",
            )


def _kind(before: Any) -> str:
    told = at(before, "manifest", "kind") or at(before, "kind")
    if told:
        return str(told)
    found = _KIND.search(str(at(before, "yaml_body") or ""))
    return found.group(1) if found else ""


CHECK = Check(
    code="T4",
    title="change that replaces a NodePool or EC2NodeClass",
    severity=Severity.BROKEN,
    how="a plan in JSON: delete and create of those kinds",
    mend="change it in place, and guard it",
    needs=(Part.PLAN,),
    find=find,
)
