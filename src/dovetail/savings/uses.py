"""Where today's bill goes: requests, DaemonSets, reserved, idle and fragmented capacity."""

from collections.abc import Iterable, Mapping
from typing import Final

from dovetail.core.cost.node_groups import GroupKind
from dovetail.core.cost.node_prices import PricedNode
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import CPU, MEMORY, Resources, sum_resources
from dovetail.model.node import NodeObject
from dovetail.savings.report import Line

_GIB_PER_CPU: Final = 9.0
"""GiB of memory that cost as much as one vCPU: m, c and r families of AWS differ by this."""
_ASSUMES: Final = {
    "requests of pods": "1 vCPU costs as much as 9 GiB; what is requested counts, not what is used",
    "DaemonSets and static pods": "their requests, on every node",
    "reserved for the system": "capacity that is not allocatable: kubelet, system, eviction threshold",
    "idle nodes": "free capacity of nodes without pods that need a node",
    "fragmentation": "free capacity beside such pods: nothing requests it, nothing else fits or comes",
    "Fargate and nodes of unknown size": "not divided",
}


def divide_bill(
    nodes: Mapping[str, NodeObject], priced: Iterable[PricedNode], pods: Mapping[str, tuple[Pod, ...]]
) -> list[Line]:
    """Return the parts of the bill; their sum is the sum of all prices."""
    sums = dict.fromkeys(_ASSUMES, 0.0)
    for entry in priced:
        if entry.price is None:
            continue
        node = nodes[entry.node]
        size = _to_vcpu(node.capacity)
        if entry.group.kind is GroupKind.FARGATE or not size:
            sums["Fargate and nodes of unknown size"] += entry.price
            continue
        running = [pod for pod in pods.get(entry.node, ()) if not pod.is_terminal]
        moving = [pod for pod in running if is_reschedulable(pod)]
        tied = [pod for pod in running if not is_reschedulable(pod)]
        # Requests never exceed what is allocatable; a node that was changed by hand may differ.
        left = 1.0
        shares = {}
        for name, load in (
            ("requests of pods", _to_vcpu(sum_resources(pod.spec.requests for pod in moving))),
            ("DaemonSets and static pods", _to_vcpu(sum_resources(pod.spec.requests for pod in tied))),
            ("reserved for the system", size - _to_vcpu(node.allocatable)),
        ):
            shares[name] = min(max(load, 0.0) / size, left)
            left -= shares[name]
        shares["fragmentation" if moving else "idle nodes"] = left
        for name, share in shares.items():
            sums[name] += entry.price * share
    return [Line(name=name, price=price, assumes=_ASSUMES[name]) for name, price in sums.items()]


def _to_vcpu(resources: Resources) -> float:
    """Return an amount of resources in vCPU."""
    return resources.get(CPU, 0) / 1000 + resources.get(MEMORY, 0) / 2**30 / _GIB_PER_CPU
