"""Validation of an EC2NodeClass in a cluster, before anything is resolved for it.

The AWS and the simulated resolver share it: a problem is the reason and message of the
condition ``ValidationSucceeded``, and nothing is launched.
"""

from collections.abc import Mapping
from typing import Any

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclass_kubelet import check_kubelet_fields, check_kubelet_rules
from dovetail.codec.karpenter.nodeclass_validation import find_expressions
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.codec.text.field_path import format_path
from dovetail.core.nodeclass.validation import Problem, validate_nodeclass


def find_nodeclass_problem(raw: Mapping[str, Any]) -> Problem | None:
    """Return the first problem of a node class (an API object), or None."""
    context = DecodeContext(strict=False)
    root = Field(raw, context)
    node_class = decode_nodeclass(root)
    kubelet = root["spec"]["kubelet"]
    check_kubelet_fields(kubelet)
    check_kubelet_rules(kubelet)
    problem = _find_expression_error(raw) or validate_nodeclass(
        node_class, _errors_below(context, "spec", "kubelet")
    )
    errors = _errors_below(context, "spec")
    if problem is None and errors:
        return "InvalidSpec", "; ".join(errors)
    return problem


def _find_expression_error(raw: Mapping[str, Any]) -> Problem | None:
    fields = find_expressions(raw["spec"].get("kubelet") or {})
    names = ", ".join(f"spec.kubelet.{field}" for field in fields)
    if not names:
        return None
    message = f"{names}: expressions are not supported; write a number or a quantity"
    return "KubeletExpressionsDisabled", message


def _errors_below(context: DecodeContext, *prefix: str) -> list[str]:
    return [
        f"{format_path(path)}: {message}" for path, message in context.errors if path[: len(prefix)] == prefix
    ]
