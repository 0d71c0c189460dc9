"""Validation of an EC2NodeClass in a cluster, before anything is resolved for it.

The AWS and the simulated resolver share it: a problem is the reason and message of the
condition ``ValidationSucceeded``, and nothing is launched.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
    context = DecodeContext(strict=False)
    root = Field(raw, context)
    node_class = decode_nodeclass(root)
    kubelet = root["spec"]["kubelet"]
    check_kubelet_fields(kubelet)
    check_kubelet_rules(kubelet)
    errors = _errors_below(context, "spec", "kubelet")
    if errors:
        return "InvalidKubeletConfiguration", "; ".join(errors)
    problem = _find_expression_problem(node_class, check_kubelet) or validate_nodeclass(node_class)
    errors = _errors_below(context, "spec")
    if problem is None and errors:
        return "InvalidSpec", "; ".join(errors)
    return problem


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
