"""Whether a node class can be bought from, from what the cloud finds for it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from dovetail.core.conditions import Family, Subject, changed
from dovetail.model.conditions import FALSE, TRUE, Conditions
from dovetail.model.nodeclass import NodeClass

VALIDATION: Final = "ValidationSucceeded"
_LOOKED_UP: Final = ("SubnetsReady", "SecurityGroupsReady", "AMIsReady", "InstanceProfileReady")
FAMILY: Final = Family((*_LOOKED_UP, VALIDATION))

Problem = tuple[str, str]
"""Reason and message."""


def conditions_of(
    node_class: NodeClass, problems: Mapping[str, Problem], now: datetime
) -> Conditions:
    """Return the conditions of a class after it was looked up.

    What is not in ``problems`` is well. Nothing is validated while what it would
    be validated with is missing.
    """
    known = node_class.conditions
    who = Subject(
        family=FAMILY, now=now, generation=node_class.generation, deleting=node_class.deleting
    )
    missing = [kind for kind in _LOOKED_UP if kind in problems]
    for kind in FAMILY.dependents:
        problem = problems.get(kind)
        if kind == VALIDATION and missing:
            listed = ", ".join(f"{one}=False" for one in missing)
            problem = ("DependenciesNotReady", f"Awaiting {listed}")
        if problem is None:
            known = changed(known, who, kind, TRUE)
        else:
            known = changed(known, who, kind, FALSE, reason=problem[0], message=problem[1])
    return known
