"""Checks new claims of a plan: types, offerings, prices, limits, reservations.

Part of the checker: shares no code with the solver.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import HostPort
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import NODES, Resources, sum_resources
from dovetail.model.plan import PlannedNode
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.checker.nodes import (
    CheckedNode,
    Values,
    allocatable_of,
    is_offering_allowed,
    is_type_allowed,
    label_values,
    may_match,
    merged,
    tolerates,
)

PRICE_SLACK = 1e-9

Finding = tuple[str, str, str]
"""(rule, object, message)."""


@dataclass(frozen=True)
class LaunchOption:
    """One instance type as a claim can launch it."""

    offerings: tuple[Offering, ...]
    allocatables: tuple[Resources, ...]
    """Resources left by DaemonSets, one per offering."""
    labels: Mapping[str, Values]
    daemon_ports: tuple[HostPort, ...]
    prices: tuple[tuple[Resources, float], ...]
    """Distinct allocatable resources, each with its lowest price."""

    def price_for(self, needed: Resources) -> float | None:
        """Return the lowest price at which these requests fit, or None."""
        if len(self.prices) == 1:  # Nearly always; a plan may list millions of types in all.
            allocatable, price = self.prices[0]
            return price if needed.fits_in(allocatable) else None
        return min((price for allocatable, price in self.prices if needed.fits_in(allocatable)), default=None)


class LaunchOptions:
    """Finds the launch options of claims; equal claims are computed once."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.pools = {pool.name: pool for pool in snapshot.nodepools}
        self.instance_types = snapshot.instance_types
        self.daemon_sets = [
            (daemon_set, (daemon_set.newest_pod or daemon_set.pod).spec.requests)
            for daemon_set in snapshot.daemon_sets
            if not daemon_set.pod.spec.needs_devices
        ]
        self._options: dict[tuple[object, ...], dict[str, LaunchOption]] = {}
        self._labels: dict[tuple[object, ...], dict[str, Values]] = {}

    def option(self, planned: PlannedNode, instance_type: InstanceType) -> LaunchOption:
        return self.options(planned, [instance_type])[0]

    def options(self, planned: PlannedNode, instance_types: Sequence[InstanceType]) -> list[LaunchOption]:
        signature = _signature(planned)
        cached = self._options.setdefault(signature, {})
        for instance_type in instance_types:
            if instance_type.name not in cached:
                cached[instance_type.name] = self._find(planned, instance_type, signature[2])
        return [cached[instance_type.name] for instance_type in instance_types]

    def labels(self, planned: PlannedNode) -> dict[str, Values]:
        """Return the possible values of each label, over all types of the claim."""
        names = tuple(instance_type.name for instance_type in planned.instance_types)
        key = (_signature(planned), names)
        if key not in self._labels:
            options = self.options(planned, planned.instance_types)
            self._labels[key] = merged(option.labels for option in options if option.labels)
        return {**self._labels[key], label_keys.HOSTNAME: frozenset({planned.name})}

    def _find(
        self, planned: PlannedNode, instance_type: InstanceType, requirements: Requirements
    ) -> LaunchOption:
        usable: list[Offering] = []
        if is_type_allowed(instance_type, requirements):
            usable = [
                o for o in instance_type.offerings if o.available and is_offering_allowed(o, requirements)
            ]
        allocatables, ports, labels = [], [], []
        for offering in usable:
            values = label_values(planned, instance_type, offering)
            labels.append(values)
            used, used_ports = self._daemons_on(planned, values)
            allocatables.append(allocatable_of(instance_type, offering) - used)
            ports += used_ports
        return LaunchOption(
            offerings=tuple(usable),
            allocatables=tuple(allocatables),
            labels=merged(labels),
            daemon_ports=tuple(ports),
            prices=_lowest_prices(allocatables, usable),
        )

    def _daemons_on(
        self, planned: PlannedNode, labels: Mapping[str, Values]
    ) -> tuple[Resources, list[HostPort]]:
        taints = self.pools[planned.nodepool].template.taints
        running = [
            (daemon_set.pod.spec, requests)
            for daemon_set, requests in self.daemon_sets
            if tolerates(daemon_set.pod.spec.tolerations, taints) and may_match(daemon_set.pod.spec, labels)
        ]
        ports = [port for spec, _ in running for port in spec.host_ports]
        return sum_resources(requests for _, requests in running), ports


def _lowest_prices(
    allocatables: Sequence[Resources], offerings: Sequence[Offering]
) -> tuple[tuple[Resources, float], ...]:
    lowest: dict[Resources, float] = {}
    for allocatable, offering in zip(allocatables, offerings, strict=True):
        lowest[allocatable] = min(lowest.get(allocatable, offering.price), offering.price)
    return tuple(lowest.items())


def _signature(planned: PlannedNode) -> tuple[str, object, Requirements]:
    requirements = planned.requirements.without(label_keys.INSTANCE_TYPE, label_keys.HOSTNAME)
    return planned.nodepool, planned.labels, requirements


def check_claims(
    snapshot: ClusterSnapshot, nodes: Iterable[CheckedNode], options: LaunchOptions
) -> Iterator[Finding]:
    """Yield new nodes that could not be launched as planned."""
    planned_nodes = [node for node in nodes if node.planned is not None]
    for node in planned_nodes:
        yield from _check_claim(node, options)
    yield from _check_limits(snapshot, planned_nodes)
    yield from _check_reservations(snapshot, planned_nodes)


def _check_claim(node: CheckedNode, options: LaunchOptions) -> Iterator[Finding]:
    planned = node.planned
    assert planned is not None
    pool = options.pools.get(planned.nodepool)
    if pool is None:
        yield "pool", planned.name, f"NodePool {planned.nodepool} does not exist"
        return
    yield from _check_pool(planned, pool)
    if not planned.instance_types:
        yield "type", planned.name, "no instance type is listed"
        return
    offered = {instance_type.name for instance_type in options.instance_types.get(pool.name, ())}
    needed = sum_resources(pod.spec.requests for pod in planned.pods)
    yield from _check_types(planned, options, offered, needed)
    yield from _check_first(planned, options, needed)
    yield from _check_min_values(planned, pool)
    expected = needed + planned.daemon_requests
    if expected.without_zeros() != planned.requested.without_zeros():
        yield (
            "requested",
            planned.name,
            f"says {planned.requested.to_quantities()}, is {expected.to_quantities()}",
        )


def _check_types(
    planned: PlannedNode, options: LaunchOptions, offered: set[str], needed: Resources
) -> Iterator[Finding]:
    """Check that every listed type is possible, and that they are sorted by price."""
    allowed = planned.requirements.get(label_keys.INSTANCE_TYPE)
    before = 0.0
    listed = options.options(planned, planned.instance_types)
    for instance_type, option in zip(planned.instance_types, listed, strict=True):
        if instance_type.name not in offered or (allowed is not None and not allowed.has(instance_type.name)):
            yield "type", planned.name, f"{instance_type.name} is not allowed for this claim"
            continue
        if not option.offerings:
            yield "offering", planned.name, f"{instance_type.name} has no available offering for this claim"
            continue
        price = option.price_for(needed)
        if price is None:
            yield "resources", planned.name, f"{needed.to_quantities()} does not fit {instance_type.name}"
            continue
        if instance_type.cpu_credits is not None:
            continue  # Its price depends on the pods: see test_burstable.py.
        if price < before - PRICE_SLACK:
            yield "price", planned.name, f"{instance_type.name} is cheaper than a type before it"
        before = max(before, price)


def _check_pool(planned: PlannedNode, pool: NodePool) -> Iterator[Finding]:
    if pool.deleting or not pool.ready or pool.replicas is not None:
        yield "pool", planned.name, f"NodePool {pool.name} may not be used"
    if set(planned.taints) != set(pool.template.taints):
        yield "taint", planned.name, "its taints are not those of its NodePool"
    if set(planned.startup_taints) != set(pool.template.startup_taints):
        yield "taint", planned.name, "its startup taints are not those of its NodePool"
    for key, value in pool.template.labels.items():
        if planned.labels.get(key) != value:
            yield "label", planned.name, f"label {key}={value} of the NodePool is missing"
    for key, requirement in pool.requirements().items():
        if not _narrows(planned.requirements.get(key), requirement):
            yield "requirement", planned.name, f"does not keep the NodePool's {requirement}"


def _narrows(claim: Requirement | None, pool: Requirement) -> bool:
    """Return True if a claim allows nothing that its NodePool forbids."""
    if claim is None:
        return False
    if not claim.complement:
        empty_ok = pool.allows_absence or claim.must_exist
        return all(pool.has(value) for value in claim.values) and (bool(claim.values) or empty_ok)
    both = claim.intersection(pool)
    return (both.complement, both.values, both.gte, both.lte) == (
        claim.complement,
        claim.values,
        claim.gte,
        claim.lte,
    )


def _check_first(planned: PlannedNode, options: LaunchOptions, needed: Resources) -> Iterator[Finding]:
    instance_type, offering = planned.instance_type, planned.offering
    option = options.option(planned, instance_type)
    if offering not in option.offerings:
        yield "offering", planned.name, f"{instance_type.name} has no offering {offering}"
        return
    if not needed.fits_in(option.allocatables[option.offerings.index(offering)]):
        yield (
            "resources",
            planned.name,
            f"{needed.to_quantities()} does not fit {instance_type.name} as chosen",
        )
    fitting = [
        other.price
        for other, allocatable in zip(option.offerings, option.allocatables, strict=True)
        if needed.fits_in(allocatable)
    ]
    if fitting and offering.price > min(fitting) + PRICE_SLACK:
        yield "price", planned.name, f"{instance_type.name} is available for {min(fitting)}"


def _check_min_values(planned: PlannedNode, pool: NodePool) -> Iterator[Finding]:
    if planned.min_values_relaxed:
        return
    for key, requirement in Requirements.from_specs(pool.template.requirements).items():
        if requirement.min_values is None:
            continue
        seen: set[str] = set()
        for instance_type in planned.instance_types:
            seen |= instance_type.requirements.get_or_exists(key).values
        if len(seen) < requirement.min_values:
            yield "min-values", planned.name, f"{key}: {len(seen)} values, {requirement.min_values} required"


def _check_limits(snapshot: ClusterSnapshot, planned_nodes: Iterable[CheckedNode]) -> Iterator[Finding]:
    """Count each new node with the largest type it lists: any of them may be launched."""
    limits = {pool.name: pool.limits for pool in snapshot.nodepools}
    largest: dict[str, list[dict[str, int]]] = defaultdict(list)
    for node in planned_nodes:
        assert node.planned is not None
        instance_types = node.planned.instance_types
        counted = {
            name: max((instance_type.capacity.get(name, 0) for instance_type in instance_types), default=0)
            for name in limits.get(node.planned.nodepool) or ()
        }
        largest[node.planned.nodepool].append({**counted, NODES: 1})
    for pool in snapshot.nodepools:
        if not pool.limits or not largest[pool.name]:
            continue
        existing = [n.effective_capacity() for n in snapshot.nodes if n.pool == pool.name and not n.deleting]
        used = sum_resources([*existing, *largest[pool.name]])
        for name, limit in pool.limits.items():
            if used.get(name, 0) > limit:
                yield "limits", pool.name, f"{name}: {used[name]} of {limit}"


def _check_reservations(snapshot: ClusterSnapshot, planned_nodes: Iterable[CheckedNode]) -> Iterator[Finding]:
    capacity: dict[str, int] = {}
    for instance_types in snapshot.instance_types.values():
        for instance_type in instance_types:
            for o in instance_type.offerings:
                if o.reservation_id and o.available:
                    earlier = capacity.get(o.reservation_id, o.reservation_capacity)
                    capacity[o.reservation_id] = min(earlier, o.reservation_capacity)
    used: Counter[str] = Counter()
    for node in planned_nodes:
        assert node.planned is not None
        ids = set(node.planned.reservation_ids)
        if node.planned.offering.reservation_id:
            ids.add(node.planned.offering.reservation_id)
        used.update(ids)
    for reservation, count in sorted(used.items()):
        if count > capacity.get(reservation, 0):
            yield "reservation", reservation, f"{count} claims for {capacity.get(reservation, 0)}"
