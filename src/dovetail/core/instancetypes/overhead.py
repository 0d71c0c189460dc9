"""Overhead of a node: kube-reserved, system-reserved and eviction threshold."""

from fractions import Fraction
from math import ceil

from dovetail import errors
from dovetail.core.instancetypes.ami_families import ami_family_facts
from dovetail.core.instancetypes.capacity import MIB, eni_limited_pods
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.kube.quantity import parse_quantity
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, sum_resources

_COMPUTE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_CPU_BANDS = ((1000, 600), (1000, 100), (2000, 50))
"""(millicores in the band, reserved share in 1/10,000)."""
_CPU_REMAINING_SHARE = 25
_EVICTION_SIGNALS = {"memory.available": MEMORY, "nodefs.available": EPHEMERAL_STORAGE}
_EVICTION_MEMORY = 100 * MIB
_EVICTION_STORAGE_SHARE = 10


def compute_overhead(ec2_type: Ec2InstanceType, node_class: EC2NodeClass, capacity: Resources) -> Resources:
    """Return kube-reserved, system-reserved and eviction threshold together."""
    return sum_resources(
        (
            kube_reserved(ec2_type, node_class, pods=capacity.get(PODS, 0)),
            _compute_only(node_class.kubelet.system_reserved),
            eviction_threshold(node_class, capacity),
        )
    )


def kube_reserved(ec2_type: Ec2InstanceType, node_class: EC2NodeClass, *, pods: int) -> Resources:
    """Return the resources reserved for the kubelet and the container runtime.

    Most AMIs reserve memory for as many pods as the interfaces allow, whatever
    ``maxPods`` or reserved interfaces are.
    """
    family = ami_family_facts(node_class.ami_family)
    pods_reserved_for = pods if family.reserves_for_actual_pods else eni_limited_pods(ec2_type)
    defaults = {
        CPU: _reserved_millicores(ec2_type.vcpus * 1000),
        MEMORY: (11 * pods_reserved_for + 255) * MIB,
        EPHEMERAL_STORAGE: 1024 * MIB,
    }
    return Resources({**defaults, **_compute_only(node_class.kubelet.kube_reserved)})


def eviction_threshold(node_class: EC2NodeClass, capacity: Resources) -> Resources:
    """Return the hard eviction thresholds; soft ones do not count."""
    storage = capacity.get(EPHEMERAL_STORAGE, 0)
    amounts = {
        MEMORY: _EVICTION_MEMORY,
        EPHEMERAL_STORAGE: ceil(Fraction(storage * _EVICTION_STORAGE_SHARE, 100)),
    }
    errors_found = []
    for signal, resource in _EVICTION_SIGNALS.items():
        value = node_class.kubelet.eviction_hard.get(signal)
        if value is None:
            continue
        try:
            amounts[resource] = _threshold(value, capacity.get(resource, 0))
        except ValueError as error:
            field = f"spec.kubelet.evictionHard[{signal}]"
            errors_found.append(
                errors.ValidationError(f"EC2NodeClass {node_class.name}", 0, field, str(error))
            )
    if errors_found:
        raise errors.InvalidInputError(errors_found)
    return Resources(amounts)


def _reserved_millicores(millicores: int) -> int:
    """Return the sum of the share of each band, each rounded down to millicores."""
    reserved, remaining = 0, millicores
    for width, share in _CPU_BANDS:
        reserved += min(remaining, width) * share // 10_000
        remaining = max(0, remaining - width)
    return reserved + remaining * _CPU_REMAINING_SHARE // 10_000


def _threshold(value: str, capacity: int) -> int:
    """Return a quantity or percentage in bytes; 100 % disables the threshold."""
    text = value.strip()
    if not text.endswith("%"):
        return ceil(parse_quantity(text))
    try:
        percent = Fraction(text[:-1])
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{value!r} is not a percentage; write it as in 10%") from None
    if not 0 <= percent <= 100:
        raise ValueError(f"{value!r} is not between 0% and 100%")
    return 0 if percent == 100 else ceil(capacity * percent / 100)


def _compute_only(reserved: Resources) -> Resources:
    """Return the reserved resources without ``pid``, which pods cannot request."""
    return Resources({name: amount for name, amount in reserved.items() if name in _COMPUTE})
