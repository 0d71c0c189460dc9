"""How much of a node is set aside before pods get any."""

from fractions import Fraction
from math import ceil

from dovetail import errors
from dovetail.core.instancetypes.ami_families import family_named
from dovetail.core.instancetypes.capacity import MIB, eni_limited_pods
from dovetail.model.cloud.ec2_catalog import Machine
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.kube.quantity import parse_quantity
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, total

_COMPUTE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_CPU_BANDS = ((1000, 600), (1000, 100), (2000, 50))
"""(millicores in the band, share of it in 1/10,000)."""
_CPU_REST_SHARE = 25
_EVICTION_SIGNALS = {"memory.available": MEMORY, "nodefs.available": EPHEMERAL_STORAGE}
_EVICTION_MEMORY = 100 * MIB
_EVICTION_STORAGE_SHARE = 10


def overhead_of(machine: Machine, node_class: NodeClass, capacity: Resources) -> Resources:
    """Return kube-reserved, system-reserved and eviction threshold together."""
    return total(
        (
            kube_reserved(machine, node_class, pods=capacity.get(PODS, 0)),
            _compute_only(node_class.kubelet.system_reserved),
            eviction_threshold(node_class, capacity),
        )
    )


def kube_reserved(machine: Machine, node_class: NodeClass, *, pods: int) -> Resources:
    """Return what is kept for the kubelet and the container runtime.

    Most images reserve for as many pods as the interfaces allow, whatever
    ``maxPods`` or reserved interfaces make of it.
    """
    family = family_named(node_class.ami_family)
    served = pods if family.reserves_for_actual_pods else eni_limited_pods(machine)
    defaults = {
        CPU: _reserved_millicores(machine.vcpus * 1000),
        MEMORY: (11 * served + 255) * MIB,
        EPHEMERAL_STORAGE: 1024 * MIB,
    }
    return Resources({**defaults, **_compute_only(node_class.kubelet.kube_reserved)})


def eviction_threshold(node_class: NodeClass, capacity: Resources) -> Resources:
    """Return what must stay free lest the kubelet evicts; soft thresholds do not count."""
    storage = capacity.get(EPHEMERAL_STORAGE, 0)
    amounts = {
        MEMORY: _EVICTION_MEMORY,
        EPHEMERAL_STORAGE: ceil(Fraction(storage * _EVICTION_STORAGE_SHARE, 100)),
    }
    mistakes = []
    for signal, resource in _EVICTION_SIGNALS.items():
        written = node_class.kubelet.eviction_hard.get(signal)
        if written is None:
            continue
        try:
            amounts[resource] = _threshold(written, capacity.get(resource, 0))
        except ValueError as error:
            field = f"spec.kubelet.evictionHard[{signal}]"
            mistakes.append(errors.Mistake(f"EC2NodeClass {node_class.name}", 0, field, str(error)))
    if mistakes:
        raise errors.BadInput(mistakes)
    return Resources(amounts)


def _reserved_millicores(millicores: int) -> int:
    """Add up the share of each band, each cut to whole millicores."""
    reserved, left = 0, millicores
    for width, share in _CPU_BANDS:
        reserved += min(left, width) * share // 10_000
        left = max(0, left - width)
    return reserved + left * _CPU_REST_SHARE // 10_000


def _threshold(written: str, capacity: int) -> int:
    """Read a quantity or a percentage; 100 % switches the threshold off."""
    text = written.strip()
    if not text.endswith("%"):
        return ceil(parse_quantity(text))
    try:
        percent = Fraction(text[:-1])
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{written!r} is no percentage; write it as in 10%") from None
    if not 0 <= percent <= 100:
        raise ValueError(f"{written!r} is not between 0% and 100%")
    return 0 if percent == 100 else ceil(capacity * percent / 100)


def _compute_only(reserved: Resources) -> Resources:
    """Drop ``pid``, which no pod asks for."""
    return Resources({name: amount for name, amount in reserved.items() if name in _COMPUTE})
