"""What the templates of pools and the claims themselves say alike, and every status."""

import re
from collections.abc import Mapping
from typing import Final

from dovetail.codec.crds.labels import taints
from dovetail.codec.crds.schema import (
    Rule,
    Schema,
    choice,
    instant,
    listing,
    matching,
    record,
    rule,
    text,
    whole,
)
from dovetail.codec.karpenter.nodepools import DEFAULT_EXPIRY
from dovetail.codec.quantities import DURATION, show_duration
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN

_EXAMPLES: Final = "30s, 15m, 720h or 1h30m"
SPAN: Final = matching(DURATION, f"must be a duration such as {_EXAMPLES}")
SPAN_OR_NEVER: Final = matching(
    re.compile(f"{DURATION.pattern}|Never"), f"must be a duration such as {_EXAMPLES}, or Never"
)
_NO_SLASH: Final = rule("!self.contains('/')", "must be a group without its version")


def node_parts(*, fixed_class: bool = False) -> Mapping[str, Schema]:
    """Return the fields of a node to be, but for its requirements.

    ``fixed_class`` forbids to move to another kind of node class later.
    """
    return {
        "taints": taints("Taints that the node has from the beginning."),
        "startupTaints": taints(
            "Taints that somebody else takes off once the node is set up; pods need not tolerate "
            "them to have the node bought."
        ),
        "nodeClassRef": _class_reference(fixed=fixed_class),
        "expireAfter": text(
            "How old a node may become before it is replaced, or Never.",
            SPAN_OR_NEVER,
            default=show_duration(DEFAULT_EXPIRY),
        ),
        "terminationGracePeriod": text(
            "How long draining may take. After it pods are deleted whatever protects them; without "
            "it draining takes as long as it needs.",
            SPAN,
        ),
    }


def _class_reference(*, fixed: bool) -> Schema:
    fields = {
        "group": text("API group of the node class, without version.", _NO_SLASH, shortest=1),
        "kind": text("Kind of the node class.", shortest=1),
        "name": text("Name of the node class.", shortest=1),
    }
    rules = [
        rule(f"self.{name} == oldSelf.{name}", f"{name} cannot be changed; make a new pool instead")
        for name in ("group", "kind")
    ]
    return record(
        "The object that holds the cloud's details.",
        fields,
        *(rules if fixed else ()),
        required=tuple(fields),
    )


def status(about: str, fields: Mapping[str, Schema], *rules: Rule) -> Schema:
    """Return the schema of a status: what is given, and conditions."""
    return record(about, {**fields, "conditions": _conditions()}, *rules)


def _conditions() -> Schema:
    fields = {
        "type": text("What it is about.", longest=316),
        "status": choice("Whether it holds.", (TRUE, FALSE, UNKNOWN)),
        "reason": text("Why, in one word.", longest=1024),
        "message": text("Why, in a sentence.", longest=32768),
        "lastTransitionTime": instant("Since when the status is as it is."),
        "observedGeneration": whole(
            "Generation of the object that was looked at.", low=0, size="int64"
        ),
    }
    one = record(
        "How far this object has come, in one respect.",
        fields,
        required=("type", "status", "lastTransitionTime"),
    )
    return listing("How far this object has come.", one, keyed_by=("type",))
