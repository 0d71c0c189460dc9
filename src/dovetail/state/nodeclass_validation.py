"""Validation of an EC2NodeClass in a cluster, before anything is resolved for it.

The AWS and the simulated resolver share it: a problem is the reason and message of the
condition ``ValidationSucceeded``, and nothing is launched.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclass_kubelet import check_kubelet_fields, check_kubelet_rules
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.codec.text.field_path import format_path
from dovetail.core.nodeclass.validation import Problem, validate_nodeclass
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.kubelet_expressions import ExpressionError, check_expression

KubeletCheck = Callable[[EC2NodeClass], Iterable[tuple[str, str]]]
"""Evaluates the expressions of a node class; returns field and message of those that fail."""


def find_nodeclass_problem(
    raw: Mapping[str, Any], check_kubelet: KubeletCheck | None = None
) -> Problem | None:
    """Return the first problem of a node class (an API object), or None.

    Without ``check_kubelet``, the feature gate NodeClassCEL is off.
    """
    validated = _validate(msgspec.json.encode(raw))
    return (
        validated.kubelet_problem
        or _find_expression_problem(validated.node_class, check_kubelet)
        or validated.spec_problem
    )


class _Validated(msgspec.Struct, frozen=True):
    """Results that depend only on the object itself."""

    node_class: EC2NodeClass
    kubelet_problem: Problem | None
    spec_problem: Problem | None


@lru_cache(maxsize=256)
def _validate(content: bytes) -> _Validated:
    """Validate an API object as JSON; every minute it is the same one."""
    context = DecodeContext(strict=False)
    root = Field(msgspec.json.decode(content), context)
    node_class = decode_nodeclass(root)
    kubelet = root["spec"]["kubelet"]
    check_kubelet_fields(kubelet)
    check_kubelet_rules(kubelet)
    kubelet_problem = None
    errors = _errors_below(context, "spec", "kubelet")
    if errors:
        kubelet_problem = ("InvalidKubeletConfiguration", "; ".join(errors))
    spec_problem = validate_nodeclass(node_class)
    errors = _errors_below(context, "spec")
    if spec_problem is None and errors:
        spec_problem = ("InvalidSpec", "; ".join(errors))
    return _Validated(node_class, kubelet_problem, spec_problem)


def _find_expression_problem(node_class: EC2NodeClass, check_kubelet: KubeletCheck | None) -> Problem | None:
    expressions = node_class.kubelet.expressions
    if not expressions:
        return None
    if check_kubelet is None:
        fields = ", ".join(f"spec.kubelet.{field}" for field in expressions)
        message = f"{fields}: expressions need the feature gate NodeClassCEL"
        pods = expressions.get("maxPods", "")
        if pods.isdecimal():
            message += f"; a number has no quotes: maxPods: {pods}"
        return "KubeletExpressionsDisabled", message
    invalid = []
    for field, expression in expressions.items():
        try:
            check_expression(expression)
        except ExpressionError as error:
            invalid.append((field, str(error)))
    if invalid:
        return "KubeletExpressionInvalid", _join(invalid)
    failures = list(check_kubelet(node_class))
    return ("KubeletExpressionEvaluationFailed", _join(failures)) if failures else None


def _join(failures: Iterable[tuple[str, str]]) -> str:
    return "; ".join(f"spec.kubelet.{field}: {message}" for field, message in failures)


def _errors_below(context: DecodeContext, *prefix: str) -> list[str]:
    return [
        f"{format_path(path)}: {message}" for path, message in context.errors if path[: len(prefix)] == prefix
    ]
