"""Label keys that a new pod's rules are to compare by, made part of their selectors."""

from collections.abc import Mapping
from typing import Any, Final

_ALIKE: Final = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def merge_label_keys(obj: dict[str, Any]) -> None:
    """Complete the selectors of a new pod in place; replaces parts, never edits them."""
    spec: Mapping[str, Any] = obj["spec"]
    labels = obj["metadata"].get("labels") or {}
    merged: dict[str, Any] = {}
    if spreads := spec.get("topologySpreadConstraints"):
        merged["topologySpreadConstraints"] = [_merged(one, labels) for one in spreads]
    if affinity := spec.get("affinity"):
        merged["affinity"] = {
            kind: _terms(rules, labels) if kind != "nodeAffinity" else rules
            for kind, rules in affinity.items()
        }
    if merged:
        obj["spec"] = {**spec, **merged}


def _terms(rules: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    merged = dict(rules)
    if required := rules.get(_REQUIRED):
        merged[_REQUIRED] = [_merged(one, labels) for one in required]
    if preferred := rules.get(_PREFERRED):
        merged[_PREFERRED] = [
            {**one, "podAffinityTerm": _merged(one["podAffinityTerm"], labels)}
            if one.get("podAffinityTerm")
            else one
            for one in preferred
        ]
    return merged


def _merged(rule: Mapping[str, Any], labels: Mapping[str, str]) -> Mapping[str, Any]:
    selector = rule.get("labelSelector")
    own = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in _ALIKE.items()
        for key in rule.get(field) or ()
        if key in labels
    ]
    # A rule without selector selects nothing, whatever it compares by.
    if not own or selector is None:
        return rule
    expressions = [*(selector.get("matchExpressions") or ()), *own]
    return {**rule, "labelSelector": {**selector, "matchExpressions": expressions}}
