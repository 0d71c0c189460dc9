"""The world before: what running pods count for, hold and have attached."""

from collections.abc import Iterable, Mapping

from dovetail.core.scheduling.arrays.claim_states import DEAD, StateSpace
from dovetail.core.scheduling.constraints.topology import EVERY_NODE, Counter, Rule, Topology
from dovetail.core.scheduling.placement.nodes import Hosts
from dovetail.core.scheduling.pods.volumes import Volumes
from dovetail.model.kube.pod import HostPort
from dovetail.model.kube.pod_groups import PodKind
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.taints import Taint, untolerated
from dovetail.model.node import Node

Running = dict[PodKind, dict[str, int]]
"""Kind → node → how many such pods run there."""


def running_pods(nodes: Iterable[Node], moving: frozenset[str]) -> Running:
    """Return the pods that run and stay; ``moving`` are keys of pods on nodes that go."""
    found: Running = {}
    for node in nodes:
        for alike in node.alike:
            many = len(alike.pods)
            if node.deleting and moving:
                many = sum(pod.key not in moving for pod in alike.pods)
            if many and not alike.deleting:
                where = found.setdefault(alike.kind, {})
                where[node.name] = where.get(node.name, 0) + many
    return found


def seed_domains(topology: Topology, space: StateSpace, hosts: Hosts) -> None:
    """Tell every counter which domains there are, or could be.

    A domain in which no pool can ever have a node that the counter looks at is
    none: kube-scheduler will never see such a node.
    """
    known: dict[tuple[str, tuple[Requirements, ...], int], list[str]] = {}
    for counter in topology.counters:
        if counter.by_host:
            continue
        consent, terms = counter.filter.tolerations, counter.filter.terms
        for index, table in enumerate(space.pools):
            if consent is not None and untolerated(table.pool.template.taints, consent):
                continue
            key = (counter.key, terms, index)
            if key not in known:
                known[key] = _reachable(space, index, counter.key, terms)
            for value in known[key]:
                counter.counts.setdefault(value, 0)
        for labels, taints in hosts.kinds:
            if counter.key in labels and counter.filter.passes(labels, taints, new=False):
                counter.counts.setdefault(_domain(labels, counter.key), 0)


def _reachable(
    space: StateSpace, pool: int, key: str, terms: tuple[Requirements, ...]
) -> list[str]:
    """Return the values of a key that nodes of a pool could have, meeting one of the terms."""
    values = sorted(space.pools[pool].values_of(key))
    if not terms:
        return values
    root = space.roots[pool]
    return [
        value
        for value in values
        if any(
            space.narrowed(root, term.and_also([Requirement.one_of(key, value)])) != DEAD
            for term in terms
        )
    ]


class _Place:
    """A node, as counters see it."""

    __slots__ = ("host", "labels", "taints")

    def __init__(self, node: Node, host: int | None) -> None:
        self.host = host
        """None: the node is going away; its pods count, it takes none."""
        self.labels = node.place
        self.taints: tuple[Taint, ...] = node.effective_taints()


def count_running(
    running: Running, topology: Topology, nodes: Iterable[Node], numbers: Mapping[str, int]
) -> None:
    """Count every running pod that somebody looks at, where it runs.

    ``numbers`` are those of the hosts, by name of the node.
    """
    places: dict[str, _Place] = {}
    by_name = {node.name: node for node in nodes}
    for kind, where in running.items():
        counters = topology.selecting(kind.namespace, kind.labels)
        rules = topology.anti_affinity_rules(kind.namespace, kind.spec)
        if not counters and not rules:
            continue
        for name, count in where.items():
            if name not in places:
                places[name] = _Place(by_name[name], numbers.get(name))
            for counter in counters:
                _count(counter, places[name], count)
            for rule in rules:
                _own(rule, places[name], count)


def _count(counter: Counter, place: _Place, count: int) -> None:
    if counter.by_host:
        if place.host is not None:
            counter.matched[place.host] += count
    elif counter.key in place.labels and (
        counter.filter is EVERY_NODE or counter.filter.passes(place.labels, place.taints, new=False)
    ):
        domain = _domain(place.labels, counter.key)
        counter.counts[domain] = counter.counts.get(domain, 0) + count


def _own(rule: Rule, place: _Place, count: int) -> None:
    key = rule.counter.key
    if rule.counter.by_host:
        if place.host is not None:
            rule.owned[place.host] += count
    elif key in place.labels:
        domain = _domain(place.labels, key)
        rule.owners[domain] = rule.owners.get(domain, 0) + count


def _domain(labels: Requirements, key: str) -> str:
    return next(iter(labels[key].values))


def occupy_ports(hosts: Hosts, bits: dict[HostPort, int]) -> None:
    """Note the host ports that running pods hold; new ports get a bit."""
    for index, node in enumerate(hosts.nodes):
        for alike in node.alike:
            for port in alike.kind.spec.host_ports:
                hosts.ports[index] |= 1 << bits.setdefault(port, len(bits))


def attached_volumes(
    hosts: Hosts, volumes: Volumes, drivers: Iterable[str]
) -> dict[str, list[set[str]]]:
    """Return the volumes of each driver that is asked for, by existing node."""
    attached: dict[str, list[set[str]]] = {
        driver: [set() for _ in hosts.nodes] for driver in sorted(drivers)
    }
    if attached:
        for index, node in enumerate(hosts.nodes):
            for alike in node.alike:
                kind = alike.kind
                if kind.spec.volumes:
                    for driver, claims in volumes.drivers_of(kind.namespace, kind.spec).items():
                        if driver in attached:
                            attached[driver][index] |= claims
    return attached
