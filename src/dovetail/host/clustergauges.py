"""The cluster in numbers, made when somebody asks and not kept between."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dovetail.model import labels as label_keys
from dovetail.model.nodepool import NodePool
from dovetail.model.nodes import Node
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, total
from dovetail.state.mirror import Mirror

_NODE_LABELS: Final = {
    "nodepool": label_keys.NODEPOOL,
    "instance_type": label_keys.INSTANCE_TYPE,
    "capacity_type": label_keys.CAPACITY_TYPE,
    "zone": label_keys.ZONE,
    "arch": label_keys.ARCH,
    "os": label_keys.OS,
}
_SHARED: Final = frozenset((CPU, MEMORY, PODS, EPHEMERAL_STORAGE))
"""What every node has, so that shares of all of it mean something."""


class Sight(msgspec.Struct, frozen=True):
    """What the numbers are made of; values only, so that another thread can count."""

    nodes: tuple[Node, ...]
    created: Mapping[str, datetime]
    pools: tuple[NodePool, ...]
    synced: bool
    now: datetime


def look(mirror: Mirror, now: datetime) -> Sight:
    """Take hold of what is there; quick, however large the cluster."""
    created = {one.name: one.created for one in mirror.nodes() if one.created is not None}
    return Sight(mirror.joined_nodes(), created, tuple(mirror.pools()), mirror.synced(), now)


def written(sight: Sight, *, each_node: bool) -> bytes:
    """Write the gauges in Prometheus' text format; those of single nodes if wanted."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once([*_of_cluster(sight), *(_of_nodes(sight) if each_node else ())]))
    return generate_latest(registry)


class _Once(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _of_cluster(sight: Sight) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "karpenter_cluster_state_node_count", "Machines that are known.", len(sight.nodes)
    )
    yield GaugeMetricFamily(
        "karpenter_cluster_state_synced", "1: all of the cluster is known.", float(sight.synced)
    )
    limits = GaugeMetricFamily(
        "karpenter_nodepools_limit",
        "What a NodePool may have, in cores, bytes or pieces.",
        labels=("nodepool", "resource_type"),
    )
    for pool in sorted(sight.pools, key=lambda one: one.name):
        for resource, amount in sorted((pool.limits or {}).items()):
            limits.add_metric((pool.name, resource), units(resource, amount))
    yield limits
    share = GaugeMetricFamily(
        "karpenter_cluster_utilization_percent",
        "How much of what nodes can give is asked for.",
        labels=("resource_type",),
    )
    there = total(node.allocatable for node in sight.nodes)
    asked = total(_requests(node) for node in sight.nodes)
    for resource in sorted(_SHARED & there.keys()):
        if there[resource]:
            share.add_metric((resource,), 100 * asked.get(resource, 0) / there[resource])
    yield share


def _of_nodes(sight: Sight) -> Iterator[Metric]:
    names = ("node_name", *_NODE_LABELS, "managed")
    by_resource = (*names, "resource_type")

    def gauge(name: str, told: str, labels: tuple[str, ...] = by_resource) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"karpenter_nodes_{name}", told, labels=labels)

    allocatable = gauge("allocatable", "What a node can give to pods.")
    requests = gauge("total_pod_requests", "What a node's pods ask for, without DaemonSets'.")
    daemons = gauge("total_daemon_requests", "What a node's DaemonSet pods ask for.")
    overhead = gauge("system_overhead", "What a node keeps for itself.")
    age = gauge("current_lifetime_seconds", "How old a node is.", names)
    for node in sight.nodes:
        who = (
            node.name,
            *(node.labels.get(key, "") for key in _NODE_LABELS.values()),
            str(node.managed).lower(),
        )
        for family, amounts in (
            (allocatable, node.allocatable),
            (requests, _requests(node, daemons=False)),
            (daemons, _requests(node, daemons=True)),
            (overhead, (node.capacity - node.allocatable).never_negative()),
        ):
            for resource, amount in amounts.items():
                family.add_metric((*who, resource), units(resource, amount))
        if node.name in sight.created:
            age.add_metric(who, (sight.now - sight.created[node.name]).total_seconds())
    return iter((allocatable, requests, daemons, overhead, age))


def _requests(node: Node, *, daemons: bool | None = None) -> Resources:
    """Add up what a node's pods ask for; with ``daemons``, of the one sort or the other."""
    return total(
        one.spec.requests
        for one in node.pods
        if not one.terminal and daemons in (None, one.of_daemon_set)
    )


def units(resource: str, amount: int) -> float:
    """Return an amount as metrics have it: CPU in cores."""
    return amount / 1000 if resource == CPU else amount
