"""Cluster metrics: gauges of nodes and NodePools, computed at each scrape."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, sum_resources
from dovetail.model.node import Node
from dovetail.state.cluster.cache import ClusterCache

_NODE_LABELS: Final = {
    "nodepool": label_keys.NODEPOOL,
    "instance_type": label_keys.INSTANCE_TYPE,
    "capacity_type": label_keys.CAPACITY_TYPE,
    "zone": label_keys.ZONE,
    "arch": label_keys.ARCH,
    "os": label_keys.OS,
}
_COMMON_RESOURCES: Final = frozenset((CPU, MEMORY, PODS, EPHEMERAL_STORAGE))
"""Resources that every node has; utilization of others would be misleading."""


_Offering = tuple[str, str, str]
"""Instance type, zone, capacity type."""


class ClusterSample(msgspec.Struct, frozen=True):
    """Input of the gauges; immutable, so that a thread can format them."""

    nodes: tuple[Node, ...]
    created: Mapping[str, datetime]
    pools: tuple[NodePool, ...]
    types: Mapping[str, tuple[InstanceType, ...]]
    """NodePool → its instance types with prices."""
    synced: bool
    unsynced_seconds: float
    """Time since watches fail."""
    now: datetime


GetTypes = Callable[[NodePool], tuple[InstanceType, ...]]


def collect(
    cache: ClusterCache,
    now: datetime,
    types: GetTypes = lambda _: (),
    *,
    disconnected_since: datetime | None = None,
) -> ClusterSample:
    """Return what the gauges need; fast, whatever the size of the cluster."""
    unsynced = 0.0 if disconnected_since is None else (now - disconnected_since).total_seconds()
    synced = cache.has_synced() and disconnected_since is None
    created = {node.name: node.created for node in cache.nodes() if node.created is not None}
    pools = tuple(sorted(cache.pools(), key=lambda pool: pool.name))
    types_by_pool = {pool.name: types(pool) for pool in pools}
    return ClusterSample(cache.joined_nodes(), created, pools, types_by_pool, synced, unsynced, now)


def format_gauges(sample: ClusterSample, *, per_node: bool) -> bytes:
    """Return the gauges in Prometheus' text format, with those per node if wanted.

    Without the client library: a cluster of 2,000 nodes has 40,000 lines, for which
    the library takes seconds per scrape.
    """
    families = [*_get_cluster_gauges(sample), *(_get_node_gauges(sample) if per_node else ())]
    return "".join(gauge.text() for gauge in families).encode()


class _Gauge:
    """Lines of one gauge."""

    def __init__(self, name: str, help_text: str) -> None:
        self._name = name
        self._lines = [f"# HELP {name} {help_text}\n# TYPE {name} gauge\n"]

    def add(self, value: float, labels: str = "") -> None:
        """Add a line; ``labels`` are formatted by ``_format_labels``."""
        self._lines.append(f"{self._name}{{{labels}}} {value}\n")

    def text(self) -> str:
        return "".join(self._lines)


def _get_cluster_gauges(sample: ClusterSample) -> Iterator[_Gauge]:
    count = _Gauge(
        "karpenter_cluster_state_node_count", "Nodes and launched NodeClaims in the cluster cache."
    )
    count.add(len(sample.nodes))
    yield count
    synced = _Gauge(
        "karpenter_cluster_state_synced", "1 if the cluster cache is synced and all watches are connected."
    )
    synced.add(int(sample.synced))
    yield synced
    unsynced = _Gauge(
        "karpenter_cluster_state_unsynced_time_seconds",
        "Time since a watch of some resource is disconnected.",
    )
    unsynced.add(sample.unsynced_seconds)
    yield unsynced
    limits = _Gauge("karpenter_nodepools_limit", "Limit of a NodePool's resources, in cores, bytes or units.")
    for pool in sample.pools:
        for resource, amount in sorted((pool.limits or {}).items()):
            labels = _format_labels({"nodepool": pool.name, "resource_type": resource})
            limits.add(_to_units(resource, amount), labels)
    yield limits
    costs = _Gauge("karpenter_nodepools_cost_total", "Price of a NodePool's nodes in USD per hour.")
    for name, cost in _sum_costs(sample).items():
        costs.add(cost, _format_labels({"nodepool": name}))
    yield costs
    share = _Gauge(
        "karpenter_cluster_utilization_percent",
        "Requests of all pods relative to the allocatable resources of all nodes.",
    )
    allocatable = sum_resources(node.allocatable for node in sample.nodes)
    requested = sum_resources(_sum_requests(node.pods) for node in sample.nodes)
    for resource in sorted(_COMMON_RESOURCES & allocatable.keys()):
        if allocatable[resource]:
            percent = 100 * requested.get(resource, 0) / allocatable[resource]
            share.add(percent, _format_labels({"resource_type": resource}))
    yield share


def _get_node_gauges(sample: ClusterSample) -> tuple[_Gauge, ...]:
    def gauge(name: str, help_text: str) -> _Gauge:
        return _Gauge(f"karpenter_nodes_{name}", help_text)

    allocatable = gauge("allocatable", "Allocatable resources of a node.")
    requests = gauge("total_pod_requests", "Requests of a node's pods without DaemonSet pods.")
    daemons = gauge("total_daemon_requests", "Requests of a node's DaemonSet pods.")
    overhead = gauge("system_overhead", "Capacity of a node that is not allocatable.")
    age = gauge("current_lifetime_seconds", "Age of a node.")
    for node in sample.nodes:
        labels = _format_labels(
            {
                "node_name": node.name,
                **{name: node.labels.get(key, "") for name, key in _NODE_LABELS.items()},
                "managed": str(node.is_managed).lower(),
            }
        )
        for family, amounts in (
            (allocatable, node.allocatable),
            (requests, _sum_requests(pod for pod in node.pods if not pod.is_owned_by_daemon_set)),
            (daemons, _sum_requests(pod for pod in node.pods if pod.is_owned_by_daemon_set)),
            (overhead, (node.capacity - node.allocatable).clamp_at_zero()),
        ):
            for resource, amount in amounts.items():
                family.add(_to_units(resource, amount), f'{labels},resource_type="{resource}"')
        if node.name in sample.created:
            age.add((sample.now - sample.created[node.name]).total_seconds(), labels)
    return allocatable, requests, daemons, overhead, age


def _sum_costs(sample: ClusterSample) -> dict[str, float]:
    """Return the price of all nodes by NodePool, without nodes of unknown price."""
    costs = dict.fromkeys(sample.types, 0.0)
    counts: dict[str, Counter[_Offering]] = {name: Counter() for name in sample.types}
    for node in sample.nodes:
        if node.pool in counts:
            counts[node.pool][_get_offering(node)] += 1
    for pool, offerings in counts.items():
        type_names = {name for name, _, _ in offerings}
        for instance_type in sample.types[pool]:
            if instance_type.name in type_names:
                for offering in instance_type.offerings:
                    # Popped, because several reservations may share the key.
                    key = (instance_type.name, offering.zone, offering.capacity_type)
                    costs[pool] += offerings.pop(key, 0) * offering.price
    return costs


def _get_offering(node: Node) -> _Offering:
    label = node.labels.get
    return (
        label(label_keys.INSTANCE_TYPE, ""),
        label(label_keys.ZONE, ""),
        label(label_keys.CAPACITY_TYPE, ""),
    )


def _sum_requests(pods: Iterable[Pod]) -> Resources:
    return sum_resources(pod.spec.requests for pod in pods if not pod.is_terminal)


def _format_labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _to_units(resource: str, amount: int) -> float:
    """Return an amount in the unit of metrics: CPU in cores."""
    return amount / 1000 if resource == CPU else amount
