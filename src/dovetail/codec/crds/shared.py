"""Schemas that NodePool templates and NodeClaims share, and conditions."""

import re
from collections.abc import Mapping
from typing import Final

from dovetail.codec.crds import schema
from dovetail.codec.crds.labels import taints_schema
from dovetail.codec.crds.schema import Rule, Schema
from dovetail.codec.karpenter.nodepools import DEFAULT_EXPIRE_AFTER
from dovetail.codec.quantities import DURATION, encode_duration
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN

_EXAMPLES: Final = "30s, 15m, 720h or 1h30m"
DURATION_RULE: Final = schema.full_match(DURATION, f"must be a duration such as {_EXAMPLES}")
DURATION_OR_NEVER_RULE: Final = schema.full_match(
    re.compile(f"{DURATION.pattern}|Never"), f"must be a duration such as {_EXAMPLES}, or Never"
)
_NO_SLASH: Final = schema.rule("!self.contains('/')", "must be a group without version")


def node_fields(*, fixed_class: bool = False) -> Mapping[str, Schema]:
    """Return the spec fields of nodes, except requirements.

    With ``fixed_class``, group and kind of the node class are immutable.
    """
    return {
        "taints": taints_schema("Taints of the node."),
        "startupTaints": taints_schema(
            "Taints that another controller removes once the node is set up; pods do not need to "
            "tolerate them for a node to be launched."
        ),
        "nodeClassRef": _class_reference(fixed=fixed_class),
        "expireAfter": schema.string(
            "Maximum age of a node, or Never.",
            DURATION_OR_NEVER_RULE,
            default=encode_duration(DEFAULT_EXPIRE_AFTER),
        ),
        "terminationGracePeriod": schema.string(
            "Maximum duration of draining. Afterwards all pods are deleted, regardless of "
            "PodDisruptionBudgets and do-not-disrupt. If unset, draining has no time limit.",
            DURATION_RULE,
        ),
    }


def _class_reference(*, fixed: bool) -> Schema:
    fields = {
        "group": schema.string("API group of the node class, without version.", _NO_SLASH, shortest=1),
        "kind": schema.string("Kind of the node class.", shortest=1),
        "name": schema.string("Name of the node class.", shortest=1),
    }
    rules = [
        schema.rule(f"self.{name} == oldSelf.{name}", f"{name} cannot be changed; create a new NodePool")
        for name in ("group", "kind")
    ]
    return schema.struct(
        "Reference to the node class.", fields, *(rules if fixed else ()), required=tuple(fields)
    )


def status_schema(about: str, fields: Mapping[str, Schema], *rules: Rule) -> Schema:
    """Return the schema of a status: the given fields and conditions."""
    return schema.struct(about, {**fields, "conditions": _conditions()}, *rules)


def _conditions() -> Schema:
    fields = {
        "type": schema.string("Type of the condition.", longest=316),
        "status": schema.enum("Status of the condition.", (TRUE, FALSE, UNKNOWN)),
        "reason": schema.string("Reason for the status, in one word.", longest=1024),
        "message": schema.string("Message for users.", longest=32768),
        "lastTransitionTime": schema.timestamp("When the status last changed."),
        "observedGeneration": schema.integer(
            "Generation of the object when it was evaluated.", low=0, size="int64"
        ),
    }
    item = schema.struct("A condition.", fields, required=("type", "status", "lastTransitionTime"))
    return schema.array("Conditions of the object.", item, keyed_by=("type",))
