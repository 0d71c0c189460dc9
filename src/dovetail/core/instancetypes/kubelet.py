"""Kubelet settings of a node class for one instance type: expressions become values."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from dovetail.core.instancetypes.capacity import max_pods
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.kubelet_expressions import (
    ExpressionError,
    InstanceTypeVariables,
    evaluate_max_pods,
    evaluate_reservation,
)
from dovetail.model.kube.resources import Resources

_MAX_PODS: Final = "maxPods"
_RESERVED: Final = {"kubeReserved": "kube_reserved", "systemReserved": "system_reserved"}

Failure = tuple[str, str]
"""Field below ``spec.kubelet``, and what is wrong with its value."""


def evaluate_kubelet(
    ec2_type: Ec2InstanceType, node_class: EC2NodeClass, settings: InstanceTypeSettings
) -> EC2NodeClass:
    """Return the node class with the kubelet settings of its nodes of a type.

    It is the same object if there are no expressions, or their feature gate is off:
    a setting with an expression then has its default. So has one whose expression
    fails; nothing is launched from such a node class (``find_failures``).
    """
    if not node_class.kubelet.expressions or not settings.kubelet_expressions:
        return node_class
    evaluated, _ = _evaluate(ec2_type, node_class, settings)
    return evaluated


def find_failures(
    ec2_types: Iterable[Ec2InstanceType], node_class: EC2NodeClass, settings: InstanceTypeSettings
) -> Iterator[Failure]:
    """Yield the first failure of each expression of a node class, by instance type."""
    if not node_class.kubelet.expressions:
        return
    reported: set[str] = set()
    for ec2_type in ec2_types:
        for field, message in _evaluate(ec2_type, node_class, settings)[1]:
            if field not in reported:
                reported.add(field)
                yield field, message


def _evaluate(
    ec2_type: Ec2InstanceType, node_class: EC2NodeClass, settings: InstanceTypeSettings
) -> tuple[EC2NodeClass, list[Failure]]:
    failures: list[Failure] = []
    expressions = node_class.kubelet.expressions
    if _MAX_PODS in expressions:
        try:
            # In maxPods itself, max_pods is the default.
            pods = evaluate_max_pods(expressions[_MAX_PODS], _variables(ec2_type, node_class, settings))
        except ExpressionError as error:
            failures.append((_MAX_PODS, str(error)))
        else:
            kubelet = msgspec.structs.replace(node_class.kubelet, max_pods=pods)
            node_class = msgspec.structs.replace(node_class, kubelet=kubelet)
    variables = _variables(ec2_type, node_class, settings)
    reserved = {name: dict(getattr(node_class.kubelet, field)) for name, field in _RESERVED.items()}
    for path, expression in expressions.items():
        name, _, resource = path.partition(".")
        if not resource:
            continue
        try:
            reserved[name][resource] = evaluate_reservation(resource, expression, variables)
        except ExpressionError as error:
            failures.append((path, str(error)))
    kubelet = msgspec.structs.replace(
        node_class.kubelet,
        kube_reserved=Resources(reserved["kubeReserved"]),
        system_reserved=Resources(reserved["systemReserved"]),
    )
    return msgspec.structs.replace(node_class, kubelet=kubelet), failures


def _variables(
    ec2_type: Ec2InstanceType, node_class: EC2NodeClass, settings: InstanceTypeSettings
) -> InstanceTypeVariables:
    return InstanceTypeVariables(
        vcpus=ec2_type.vcpus,
        memory_mib=ec2_type.memory_mib,
        default_enis=ec2_type.enis,
        ips_per_eni=ec2_type.ipv4_per_eni,
        max_pods=max_pods(ec2_type, node_class, settings),
        instance_type=ec2_type.name,
    )
