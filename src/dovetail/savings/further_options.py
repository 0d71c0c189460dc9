"""Further savings that need a decision: spot, arm64 and newer generations."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from dovetail.codec.text.suggestions import pluralize
from dovetail.core.cost.images import find_multi_arch_images, get_images
from dovetail.core.cost.node_prices import PricedNode
from dovetail.core.instancetypes.type_names import category_and_generation, is_flex
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.kube.pod import Pod
from dovetail.model.node import Node
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.savings.planning import PodHolds, allow_values, plan_fleet
from dovetail.savings.report import Line

_SPOT_OWNERS: Final = ("ReplicaSet", "Job")
_MIN_REPLICAS: Final = 2


class OptionsInput(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster with its NodePools, and the fleet that options are compared with."""

    raw_pods: Sequence[Mapping[str, Any]]
    snapshot: ClusterSnapshot
    holds: PodHolds
    priced: Sequence[PricedNode]
    moving: frozenset[str]
    """Nodes that the fleet from scratch replaces."""
    fleet_price: float
    """USD per hour of that fleet's new nodes."""
    scheduling: SchedulingSettings
    facts: Sequence[Ec2InstanceType]
    prices: PriceBook
    region: str


def find_options(given: OptionsInput) -> list[Line]:
    """Return what each option saves, alone."""
    return [_price_spot(given), _price_arm64(given), _price_generations(given)]


def _price_spot(given: OptionsInput) -> Line:
    replicas = Counter(
        (pod.namespace, pod.owner.kind, pod.owner.name)
        for node in given.snapshot.nodes
        for pod in node.pods
        if pod.owner is not None and not pod.is_terminal
    )

    def may_use_spot(pod: Pod, node: Node) -> bool:
        if node.labels.get(label_keys.CAPACITY_TYPE) == label_keys.SPOT:
            return True
        owner = pod.owner
        if owner is None or owner.kind not in _SPOT_OWNERS or label_keys.DO_NOT_DISRUPT in pod.annotations:
            return False
        is_replicated = replicas[(pod.namespace, owner.kind, owner.name)] >= _MIN_REPLICAS
        return (is_replicated or owner.kind == "Job") and all(volume.ephemeral for volume in pod.spec.volumes)

    return Line(
        name="on-demand that could be spot",
        price=_saving(given, label_keys.CAPACITY_TYPE, (label_keys.SPOT,), may_use_spot),
        assumes="pods of ReplicaSets with 2 or more replicas and of Jobs, without volumes and "
        "do-not-disrupt, bear interruptions; every NodePool accepts spot; today's spot prices hold",
    )


def _price_arm64(given: OptionsInput) -> Line:
    architectures = {node.name: node.labels.get(label_keys.ARCH, "") for node in given.snapshot.nodes}
    multi_arch = find_multi_arch_images(given.raw_pods, architectures)
    ready = {
        f"{meta.get('namespace') or 'default'}/{meta.get('name')}"
        for pod in given.raw_pods
        for meta in [pod.get("metadata") or {}]
        if get_images(pod) <= multi_arch
    }
    return Line(
        name="amd64 that could be arm64",
        price=_saving(given, label_keys.ARCH, ("arm64",), lambda pod, _: pod.key in ready),
        assumes=f"images that exist for both ({len(multi_arch)}): well-known ones, and those that "
        "run on both today; one vCPU does the same work on both",
    )


def _saving(
    given: OptionsInput, key: str, values: Sequence[str], may_move: Callable[[Pod, Node], bool]
) -> float:
    """Return the saving if NodePools accept more values of a label, for some of the pods."""
    pools = allow_values(given.snapshot.nodepools, key, values)
    if pools == given.snapshot.nodepools or not given.moving:
        return 0.0

    def change(pod: Pod, node: Node) -> Pod:
        if may_move(pod, node):
            return given.holds.release(pod, node, key)
        return given.holds.hold_label(pod, node, key)

    fleet = plan_fleet(replace(given.snapshot, nodepools=pools), given.moving, given.scheduling, change)
    kept = sum(entry.price or 0.0 for entry in given.priced if entry.node in fleet.kept)
    return max(0.0, given.fleet_price - fleet.price - kept)


def _price_generations(given: OptionsInput) -> Line:
    facts = {kind.name: kind for kind in given.facts}
    by_shape: dict[tuple[str, str, int], list[Ec2InstanceType]] = {}
    for kind in given.facts:
        by_shape.setdefault(_shape(kind), []).append(kind)
    saving, replaced = 0.0, Counter[str]()
    for entry in given.priced:
        known = facts.get(entry.instance_type)
        if entry.price is None or known is None:
            continue
        cheaper = _find_successor(known, by_shape[_shape(known)], entry, given)
        if cheaper is not None:
            saving += entry.price - cheaper[1]
            replaced[f"{known.name} → {cheaper[0]}"] += 1
    examples = ", ".join(
        pair for pair, _ in sorted(replaced.items(), key=lambda item: (-item[1], item[0]))[:3]
    )
    return Line(
        name="older generations that cost more than their successors",
        price=saving,
        assumes=f"{pluralize(replaced.total(), 'node')}, same architecture, vCPU and memory"
        + (f": {examples}" if examples else ""),
    )


def _shape(kind: Ec2InstanceType) -> tuple[str, str, int]:
    shape = category_and_generation(kind.name)
    return (shape[0] if shape else "", "|".join(sorted(kind.architectures)), kind.vcpus)


def _find_successor(
    kind: Ec2InstanceType, similar: Iterable[Ec2InstanceType], entry: PricedNode, given: OptionsInput
) -> tuple[str, float] | None:
    """Return the cheapest newer type of the same size, and its price; None if none is cheaper."""
    best: tuple[str, float] | None = None
    for other in similar:
        if not _is_newer(other.name, kind.name) or other.memory_mib < kind.memory_mib:
            continue
        if is_flex(other.name) or other.local_storage_gb < kind.local_storage_gb or other.gpus != kind.gpus:
            continue
        if entry.capacity_type == label_keys.SPOT:
            price = given.prices.spot(other.name, region=given.region, zone=entry.zone)
        else:
            price = given.prices.on_demand(other.name, given.region)
        if price is not None and price < (best[1] if best else entry.price or 0.0):
            best = (other.name, price)
    return best


def _is_newer(name: str, other: str) -> bool:
    shape, other_shape = category_and_generation(name), category_and_generation(other)
    return shape is not None and other_shape is not None and int(shape[1]) > int(other_shape[1])
