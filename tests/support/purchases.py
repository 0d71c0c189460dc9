"""Judges what a plan buys: types, offerings, prices, limits, reservations.

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
from dovetail.model.kube.resources import NODES, Resources, total
from dovetail.model.plan import PlannedNode
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.hosts import (
    Host,
    Values,
    label_values,
    may_hold,
    merged,
    offering_allowed,
    room_of,
    tolerates,
    type_allowed,
)

PRICE_SLACK = 1e-9

Finding = tuple[str, str, str]
"""(rule, about, message)."""


@dataclass(frozen=True)
class Way:
    """One type as a claim would get it: where, at what price, with how much room."""

    offerings: tuple[Offering, ...]
    rooms: tuple[Resources, ...]
    """Beside DaemonSets; one per offering."""
    labels: Mapping[str, Values]
    daemon_ports: tuple[HostPort, ...]
    prices: tuple[tuple[Resources, float], ...]
    """Distinct rooms, each with the lowest price at which it can be had."""

    def price_for(self, needed: Resources) -> float | None:
        """Return the lowest price at which this much fits, or None."""
        if len(self.prices) == 1:  # Nearly always; a plan may list millions of types in all.
            room, price = self.prices[0]
            return price if needed.fits_in(room) else None
        return min((price for room, price in self.prices if needed.fits_in(room)), default=None)


class Shop:
    """Answers what each claim could be bought as; equal questions are asked once."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.pools = {pool.name: pool for pool in snapshot.node_pools}
        self.sold = snapshot.instance_types
        self.daemons = [
            (one, one.newest.spec.requests if one.newest else one.pod.spec.requests)
            for one in snapshot.daemon_sets
            if not one.pod.spec.needs_devices
        ]
        self._ways: dict[tuple[object, ...], dict[str, Way]] = {}
        self._labels: dict[tuple[object, ...], dict[str, Values]] = {}

    def way(self, planned: PlannedNode, kind: InstanceType) -> Way:
        return self.ways(planned, [kind])[0]

    def ways(self, planned: PlannedNode, kinds: Sequence[InstanceType]) -> list[Way]:
        signature = _signature(planned)
        known = self._ways.setdefault(signature, {})
        for kind in kinds:
            if kind.name not in known:
                known[kind.name] = self._find(planned, kind, signature[2])
        return [known[kind.name] for kind in kinds]

    def labels(self, planned: PlannedNode) -> dict[str, Values]:
        """What each label of a planned node may be over all types it lists."""
        names = tuple(kind.name for kind in planned.instance_types)
        key = (_signature(planned), names)
        if key not in self._labels:
            ways = self.ways(planned, planned.instance_types)
            self._labels[key] = merged(way.labels for way in ways if way.labels)
        host = frozenset({planned.name})
        return {**self._labels[key], label_keys.HOSTNAME: host}

    def _find(self, planned: PlannedNode, kind: InstanceType, asked: Requirements) -> Way:
        usable: list[Offering] = []
        if type_allowed(kind, asked):
            usable = [o for o in kind.offerings if o.available and offering_allowed(o, asked)]
        rooms, ports, labels = [], [], []
        for offering in usable:
            values = label_values(planned, kind, offering)
            labels.append(values)
            taken, held = self._daemons_on(planned, values)
            rooms.append(room_of(kind, offering) - taken)
            ports += held
        return Way(
            offerings=tuple(usable),
            rooms=tuple(rooms),
            labels=merged(labels),
            daemon_ports=tuple(ports),
            prices=_cheapest_per_room(rooms, usable),
        )

    def _daemons_on(
        self, planned: PlannedNode, labels: Mapping[str, Values]
    ) -> tuple[Resources, list[HostPort]]:
        taints = self.pools[planned.nodepool].template.taints
        coming = [
            (one, requests)
            for one, requests in self.daemons
            if tolerates(one.pod.spec.tolerations, taints) and may_hold(one.pod.spec, labels)
        ]
        ports = [port for one, _ in coming for port in one.pod.spec.host_ports]
        return total(requests for _, requests in coming), ports


def _cheapest_per_room(
    rooms: Sequence[Resources], offerings: Sequence[Offering]
) -> tuple[tuple[Resources, float], ...]:
    lowest: dict[Resources, float] = {}
    for room, offering in zip(rooms, offerings, strict=True):
        lowest[room] = min(lowest.get(room, offering.price), offering.price)
    return tuple(lowest.items())


def _signature(planned: PlannedNode) -> tuple[str, object, Requirements]:
    asked = planned.requirements.without(label_keys.INSTANCE_TYPE, label_keys.HOSTNAME)
    return planned.nodepool, planned.labels, asked


def judge_purchases(
    snapshot: ClusterSnapshot, hosts: Iterable[Host], shop: Shop
) -> Iterator[Finding]:
    """Find new nodes that could not be bought, or not like that."""
    bought = [host for host in hosts if host.planned is not None]
    for host in bought:
        yield from _judge_one(host, shop)
    yield from _judge_limits(snapshot, bought)
    yield from _judge_reservations(snapshot, bought)


def _judge_one(host: Host, shop: Shop) -> Iterator[Finding]:
    planned = host.planned
    assert planned is not None
    pool = shop.pools.get(planned.nodepool)
    if pool is None:
        yield "pool", planned.name, f"NodePool {planned.nodepool} does not exist"
        return
    yield from _judge_pool(planned, pool)
    if not planned.instance_types:
        yield "type", planned.name, "no instance type is listed"
        return
    sold = {kind.name for kind in shop.sold.get(pool.name, ())}
    needed = total(pod.spec.requests for pod in planned.pods)
    yield from _judge_types(planned, shop, sold, needed)
    yield from _judge_first(planned, shop, needed)
    yield from _judge_min_values(planned, pool)
    said = needed + planned.daemon_requests
    if said.without_zeros() != planned.requested.without_zeros():
        yield "requested", planned.name, f"says {planned.requested.spelled()}, is {said.spelled()}"


def _judge_types(
    planned: PlannedNode, shop: Shop, sold: set[str], needed: Resources
) -> Iterator[Finding]:
    """Every listed type must do, and they must come cheapest first."""
    allowed = planned.requirements.get(label_keys.INSTANCE_TYPE)
    before = 0.0
    ways = shop.ways(planned, planned.instance_types)
    for kind, way in zip(planned.instance_types, ways, strict=True):
        if kind.name not in sold or (allowed is not None and not allowed.has(kind.name)):
            yield "type", planned.name, f"{kind.name} is not for sale to this claim"
            continue
        if not way.offerings:
            yield "offering", planned.name, f"{kind.name} has no open offering for this claim"
            continue
        price = way.price_for(needed)
        if price is None:
            yield "resources", planned.name, f"{needed.spelled()} does not fit {kind.name}"
            continue
        if price < before - PRICE_SLACK:
            yield "price", planned.name, f"{kind.name} is cheaper than a type before it"
        before = max(before, price)


def _judge_pool(planned: PlannedNode, pool: NodePool) -> Iterator[Finding]:
    if pool.deleting or not pool.ready or pool.replicas is not None:
        yield "pool", planned.name, f"NodePool {pool.name} may not be used"
    if set(planned.taints) != set(pool.template.taints):
        yield "taint", planned.name, "its taints are not those of its NodePool"
    if set(planned.startup_taints) != set(pool.template.startup_taints):
        yield "taint", planned.name, "its startup taints are not those of its NodePool"
    for key, value in pool.template.labels.items():
        if planned.labels.get(key) != value:
            yield "label", planned.name, f"label {key}={value} of the NodePool is missing"
    for key, one in pool.requirements().items():
        if not _narrows(planned.requirements.get(key), one):
            yield "requirement", planned.name, f"is not held to the NodePool's {one}"


def _narrows(claim: Requirement | None, pool: Requirement) -> bool:
    """Tell whether a claim allows nothing that its NodePool forbids."""
    if claim is None:
        return False
    if not claim.complement:
        empty_ok = pool.tolerates_absence or claim.present
        return all(pool.has(value) for value in claim.values) and (bool(claim.values) or empty_ok)
    both = claim.intersection(pool)
    return (both.complement, both.values, both.gte, both.lte) == (
        claim.complement,
        claim.values,
        claim.gte,
        claim.lte,
    )


def _judge_first(planned: PlannedNode, shop: Shop, needed: Resources) -> Iterator[Finding]:
    kind, offering = planned.instance_type, planned.offering
    way = shop.way(planned, kind)
    if offering not in way.offerings:
        yield "offering", planned.name, f"{kind.name} cannot be had as {offering}"
        return
    if not needed.fits_in(way.rooms[way.offerings.index(offering)]):
        yield "resources", planned.name, f"{needed.spelled()} does not fit {kind.name} as chosen"
    fitting = [
        other.price
        for other, room in zip(way.offerings, way.rooms, strict=True)
        if needed.fits_in(room)
    ]
    if fitting and offering.price > min(fitting) + PRICE_SLACK:
        yield "price", planned.name, f"{kind.name} can be had for {min(fitting)}"


def _judge_min_values(planned: PlannedNode, pool: NodePool) -> Iterator[Finding]:
    if planned.min_values_relaxed:
        return
    for key, one in Requirements.of_specs(pool.template.requirements).items():
        if one.min_values is None:
            continue
        seen: set[str] = set()
        for kind in planned.instance_types:
            seen |= kind.requirements.allowed(key).values
        if len(seen) < one.min_values:
            yield "min-values", planned.name, f"{key}: {len(seen)} values, {one.min_values} wanted"


def _judge_limits(snapshot: ClusterSnapshot, bought: Iterable[Host]) -> Iterator[Finding]:
    """Count each new node at the largest type it lists: any of them may come."""
    limits = {pool.name: pool.limits for pool in snapshot.node_pools}
    largest: dict[str, list[dict[str, int]]] = defaultdict(list)
    for host in bought:
        assert host.planned is not None
        kinds = host.planned.instance_types
        counted = {
            name: max((kind.capacity.get(name, 0) for kind in kinds), default=0)
            for name in limits.get(host.planned.nodepool) or ()
        }
        largest[host.planned.nodepool].append({**counted, NODES: 1})
    for pool in snapshot.node_pools:
        if not pool.limits or not largest[pool.name]:
            continue
        had = [
            n.effective_capacity() for n in snapshot.nodes if n.pool == pool.name and not n.deleting
        ]
        used = total([*had, *largest[pool.name]])
        for name, limit in pool.limits.items():
            if used.get(name, 0) > limit:
                yield "limits", pool.name, f"{name}: {used[name]} of {limit}"


def _judge_reservations(snapshot: ClusterSnapshot, bought: Iterable[Host]) -> Iterator[Finding]:
    capacity: dict[str, int] = {}
    for kinds in snapshot.instance_types.values():
        for kind in kinds:
            for o in kind.offerings:
                if o.reservation_id and o.available:
                    known = capacity.get(o.reservation_id, o.reservation_capacity)
                    capacity[o.reservation_id] = min(known, o.reservation_capacity)
    held: Counter[str] = Counter()
    for host in bought:
        assert host.planned is not None
        ids = set(host.planned.reservation_ids)
        if host.planned.offering.reservation_id:
            ids.add(host.planned.offering.reservation_id)
        held.update(ids)
    for reservation, count in sorted(held.items()):
        if count > capacity.get(reservation, 0):
            yield "reservation", reservation, f"{count} claims for {capacity.get(reservation, 0)}"
