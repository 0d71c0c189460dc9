"""Price of any node of an EKS cluster, from its labels and, on Fargate, its pods."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dovetail.core.cost.node_groups import GroupKind, NodeGroup, find_node_group
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import CPU, MEMORY
from dovetail.model.node import Node, NodeObject

FARGATE_CPU_PRICE: Final = 0.04048
FARGATE_MEMORY_PRICE: Final = 0.004445
"""USD per vCPU-hour and GB-hour, Linux on x86 in us-east-1: aws.amazon.com/fargate/pricing."""
FARGATE_NOTE: Final = (
    "Fargate at $0.04048 per vCPU-hour and $0.004445 per GB-hour (us-east-1, Linux/x86; other regions by the "
    "factor of EC2 prices); storage above 20 GB is not counted"
)
CAPACITY_PROVISIONED: Final = "CapacityProvisioned"
"""Annotation of a pod on Fargate: the size that is billed, such as ``0.25vCPU 0.5GB``."""
_FARGATE_REGION: Final = "us-east-1"
_FARGATE_SYSTEM_MEMORY: Final = 256 * 2**20
"""Bytes that Fargate adds for kubelet, kube-proxy and containerd."""
_FARGATE_SIZES: Final = (
    (0.25, (0.5, 1, 2)),
    (0.5, (1, 2, 3, 4)),
    (1, tuple(range(2, 9))),
    (2, tuple(range(4, 17))),
    (4, tuple(range(8, 31))),
    (8, tuple(range(16, 61, 4))),
    (16, tuple(range(32, 121, 8))),
)
"""vCPU, and the GB that can be combined with it."""
_SIZE: Final = re.compile(r"([0-9.]+)vCPU\s+([0-9.]+)GB")
_MANAGED_CAPACITY_TYPE: Final = "eks.amazonaws.com/capacityType"
_LIFECYCLE_LABELS: Final = ("node.kubernetes.io/lifecycle", "lifecycle", "kops.k8s.io/lifecycle")
_NOT_PRICEABLE: Final = {
    GroupKind.GKE: "a node of GKE; only AWS prices are known",
    GroupKind.AKS: "a node of AKS; only AWS prices are known",
    GroupKind.HYBRID: "a hybrid node; AWS charges per vCPU-hour, the hardware is yours",
}


class PricedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node, its group and its price."""

    node: str
    group: NodeGroup
    instance_type: str
    """Empty on Fargate and for nodes without the label."""
    zone: str
    capacity_type: str
    """``fargate`` on Fargate."""
    price: float | None
    """USD per hour; None: unknown."""
    note: str = ""
    """Why there is no price, or what the price assumes."""


class NodePrices:
    """Prices nodes of one cluster; nodes of several regions are possible."""

    def __init__(self, catalog: Catalog, prices: PriceBook, region: str) -> None:
        self._catalog = catalog
        self._prices = prices
        self._region = region
        """Region of nodes that do not name one."""

    def price(self, node: NodeObject | Node, pods: Iterable[Pod] = ()) -> PricedNode:
        """Return a node with its price, without surplus CPU credits and node costs."""
        group = find_node_group(node.labels, node.provider_id)
        region = self._find_region(node.labels)
        zone, name = node.labels.get(label_keys.ZONE, ""), get_instance_type(node.labels)
        if group.kind is GroupKind.FARGATE:
            price, note = self._price_fargate(pods, region)
            return PricedNode(
                node=node.name,
                group=group,
                instance_type="",
                zone=zone,
                capacity_type="fargate",
                price=price,
                note=note,
            )
        capacity_type, assumed = get_capacity_type(node.labels)
        amount, note = self._price_instance(group, name, capacity_type, region, zone)
        if amount is not None:
            notes = [note, "capacity type assumed: on-demand" if assumed else ""]
            if node.labels.get(label_keys.OS) == "windows":
                notes.append("Linux price: the Windows licence is not counted")
            if group.kind is GroupKind.AUTO_MODE:
                notes.append("the fee of EKS Auto Mode is not counted")
            note = "; ".join(filter(None, notes))
        return PricedNode(
            node=node.name,
            group=group,
            instance_type=name,
            zone=zone,
            capacity_type=capacity_type,
            price=amount,
            note=note,
        )

    def _find_region(self, labels: Mapping[str, str]) -> str:
        return labels.get(label_keys.REGION) or labels.get(_OLD_REGION) or self._region

    def _price_instance(
        self, group: NodeGroup, name: str, capacity_type: str, region: str, zone: str
    ) -> tuple[float | None, str]:
        if group.kind in _NOT_PRICEABLE:
            return None, _NOT_PRICEABLE[group.kind]
        if not name:
            return None, f"no label {label_keys.INSTANCE_TYPE}"
        known = self._catalog.regions.get(region)
        zone_id = known.zones.get(zone, "") if known is not None else ""
        if capacity_type == label_keys.SPOT:
            price = self._prices.spot(name, region=region, zone=zone, zone_id=zone_id)
        else:
            price = self._prices.on_demand(name, region, zone_id)
        if price is None:
            return None, f"no {capacity_type} price of {name} in {region} is known"
        if capacity_type == label_keys.RESERVED:
            return price, "reserved, at the on-demand price"
        return price, ""

    def _price_fargate(self, pods: Iterable[Pod], region: str) -> tuple[float | None, str]:
        """Return the price of the one pod of a Fargate node."""
        pod = next((pod for pod in pods if not pod.is_terminal), None)
        if pod is None:
            return None, "a Fargate node without its pod: the size is not known"
        size = get_fargate_size(pod)
        if size is None:
            return None, f"pod {pod.key} is larger than any size of Fargate"
        factor = 1.0
        if region != _FARGATE_REGION:
            factor = self._prices.region_factors.get(region, self._prices.default_factor or 1.0)
        return factor * (size[0] * FARGATE_CPU_PRICE + size[1] * FARGATE_MEMORY_PRICE), ""


_OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"


def get_instance_type(labels: Mapping[str, str]) -> str:
    """Return the name of a node's instance type, also of a node with the beta label only."""
    return labels.get(label_keys.INSTANCE_TYPE) or labels.get("beta.kubernetes.io/instance-type", "")


def get_capacity_type(labels: Mapping[str, str]) -> tuple[str, bool]:
    """Return the capacity type of a node, and True if no label names it."""
    own = labels.get(label_keys.CAPACITY_TYPE)
    if own:
        return own, False
    managed = labels.get(_MANAGED_CAPACITY_TYPE, "")
    if managed:
        return (label_keys.SPOT if managed.upper() == "SPOT" else label_keys.ON_DEMAND), False
    for key in _LIFECYCLE_LABELS:
        value = labels.get(key, "").lower()
        if value:
            return (label_keys.SPOT if "spot" in value else label_keys.ON_DEMAND), False
    return label_keys.ON_DEMAND, True


def get_fargate_size(pod: Pod) -> tuple[float, float] | None:
    """Return vCPU and GB that Fargate bills for a pod; None if it is too large.

    Without the annotation that Fargate sets: its requests and what Fargate adds, rounded up
    to the next size.
    """
    match = _SIZE.fullmatch(pod.annotations.get(CAPACITY_PROVISIONED, ""))
    if match is not None:
        return float(match[1]), float(match[2])
    cpu = pod.spec.requests.get(CPU, 0) / 1000
    memory = (pod.spec.requests.get(MEMORY, 0) + _FARGATE_SYSTEM_MEMORY) / 2**30
    for vcpu, sizes in _FARGATE_SIZES:
        if vcpu >= cpu:
            for size in sizes:
                if size >= memory:
                    return float(vcpu), float(size)
    return None
