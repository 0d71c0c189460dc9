"""Optimality gap: what the nodes of NodePools cost, divided by the lower bound."""

import msgspec

from dovetail.core.cost.lower_bound import LowerBound, compute_lower_bound
from dovetail.core.disruption.candidates import get_node_price
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.kube.pod import Pod
from dovetail.model.snapshot import ClusterSnapshot


class FleetGap(msgspec.Struct, frozen=True, kw_only=True):
    """The bill of the nodes of NodePools, and the lower bound for their pods."""

    nodes: int
    price: float
    """USD per hour of these nodes' instances."""
    bound: LowerBound
    unpriced: int = 0
    """Number of nodes without a known price; neither they nor their pods are in the figures."""

    @property
    def ratio(self) -> float | None:
        """Bill divided by the bound; None without a bound."""
        return self.bound.ratio(self.price)


def measure_fleet(snapshot: ClusterSnapshot) -> FleetGap:
    """Return the gap of the nodes of a snapshot that belong to its NodePools.

    Deleting nodes count neither as price nor with their pods. Takes milliseconds, for
    thousands of distinct pods half a second.
    """
    types: dict[str, dict[str, InstanceType]] = {
        name: {instance_type.name: instance_type for instance_type in known}
        for name, known in snapshot.instance_types.items()
    }
    pods: list[Pod] = []
    price, nodes, unpriced = 0.0, 0, 0
    for node in snapshot.nodes:
        pool = node.labels.get(label_keys.NODEPOOL, "")
        if pool not in types or node.deleting:
            continue
        node_price = get_node_price(node, types[pool], node.pods)
        if not node_price and node.labels.get(label_keys.CAPACITY_TYPE) != label_keys.RESERVED:
            unpriced += 1
            continue
        nodes, price = nodes + 1, price + node_price
        pods.extend(pod for pod in node.pods if is_reschedulable(pod))
    return FleetGap(nodes=nodes, price=price, bound=compute_lower_bound(snapshot, pods), unpriced=unpriced)
