"""The cluster in numbers, made when somebody asks and not kept between."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, total
from dovetail.model.node import Node
from dovetail.state.cluster.cache import Mirror

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


_Place = tuple[str, str, str]
"""Type, zone, capacity type."""


class Sight(msgspec.Struct, frozen=True):
    """What the numbers are made of; values only, so that another thread can count."""

    nodes: tuple[Node, ...]
    created: Mapping[str, datetime]
    pools: tuple[NodePool, ...]
    types: Mapping[str, tuple[InstanceType, ...]]
    """What each NodePool could buy, and for how much."""
    synced: bool
    unsynced: float
    """Seconds for which the API server has not been followed."""
    now: datetime


Types = Callable[[NodePool], tuple[InstanceType, ...]]


def look(
    mirror: Mirror,
    now: datetime,
    types: Types = lambda _: (),
    *,
    lost_since: datetime | None = None,
) -> Sight:
    """Take hold of what is there; quick, however large the cluster."""
    unsynced = 0.0 if lost_since is None else (now - lost_since).total_seconds()
    synced = mirror.synced() and lost_since is None
    created = {one.name: one.created for one in mirror.nodes() if one.created is not None}
    pools = tuple(sorted(mirror.pools(), key=lambda one: one.name))
    known = {one.name: types(one) for one in pools}
    return Sight(mirror.joined_nodes(), created, pools, known, synced, unsynced, now)


def written(sight: Sight, *, each_node: bool) -> bytes:
    """Write the gauges in Prometheus' text format; those of single nodes if wanted.

    By hand: a cluster of 2,000 nodes has 40,000 lines, and the client library takes
    seconds for as many, every time that somebody asks.
    """
    families = [*_of_cluster(sight), *(_of_nodes(sight) if each_node else ())]
    return "".join(one.text() for one in families).encode()


class _Gauge:
    """One metric with its lines."""

    def __init__(self, name: str, told: str) -> None:
        self._name = name
        self._lines = [f"# HELP {name} {told}\n# TYPE {name} gauge\n"]

    def add(self, value: float, labels: str = "") -> None:
        """Add a line; ``labels`` as ``_labelled`` writes them."""
        self._lines.append(f"{self._name}{{{labels}}} {value}\n")

    def text(self) -> str:
        return "".join(self._lines)


def _of_cluster(sight: Sight) -> Iterator[_Gauge]:
    count = _Gauge("karpenter_cluster_state_node_count", "Machines that are known.")
    count.add(len(sight.nodes))
    yield count
    synced = _Gauge(
        "karpenter_cluster_state_synced", "1: all of the cluster is known, as it is now."
    )
    synced.add(int(sight.synced))
    yield synced
    unsynced = _Gauge(
        "karpenter_cluster_state_unsynced_time_seconds",
        "For how long the API server has not told of changes of some kind.",
    )
    unsynced.add(sight.unsynced)
    yield unsynced
    limits = _Gauge(
        "karpenter_nodepools_limit", "What a NodePool may have, in cores, bytes or pieces."
    )
    for pool in sight.pools:
        for resource, amount in sorted((pool.limits or {}).items()):
            labels = _labelled({"nodepool": pool.name, "resource_type": resource})
            limits.add(_units(resource, amount), labels)
    yield limits
    costs = _Gauge("karpenter_nodepools_cost_total", "What a NodePool's nodes cost, USD an hour.")
    for name, cost in _costs(sight).items():
        costs.add(cost, _labelled({"nodepool": name}))
    yield costs
    share = _Gauge(
        "karpenter_cluster_utilization_percent", "How much of what nodes can give is asked for."
    )
    there = total(node.allocatable for node in sight.nodes)
    asked = total(_requests(node.pods) for node in sight.nodes)
    for resource in sorted(_SHARED & there.keys()):
        if there[resource]:
            percent = 100 * asked.get(resource, 0) / there[resource]
            share.add(percent, _labelled({"resource_type": resource}))
    yield share


def _of_nodes(sight: Sight) -> tuple[_Gauge, ...]:
    def gauge(name: str, told: str) -> _Gauge:
        return _Gauge(f"karpenter_nodes_{name}", told)

    allocatable = gauge("allocatable", "What a node can give to pods.")
    requests = gauge("total_pod_requests", "What a node's pods ask for, without DaemonSets'.")
    daemons = gauge("total_daemon_requests", "What a node's DaemonSet pods ask for.")
    overhead = gauge("system_overhead", "What a node keeps for itself.")
    age = gauge("current_lifetime_seconds", "How old a node is.")
    for node in sight.nodes:
        who = _labelled(
            {
                "node_name": node.name,
                **{name: node.labels.get(key, "") for name, key in _NODE_LABELS.items()},
                "managed": str(node.managed).lower(),
            }
        )
        for family, amounts in (
            (allocatable, node.allocatable),
            (requests, _requests(one for one in node.pods if not one.of_daemon_set)),
            (daemons, _requests(one for one in node.pods if one.of_daemon_set)),
            (overhead, (node.capacity - node.allocatable).never_negative()),
        ):
            for resource, amount in amounts.items():
                family.add(_units(resource, amount), f'{who},resource_type="{resource}"')
        if node.name in sight.created:
            age.add((sight.now - sight.created[node.name]).total_seconds(), who)
    return allocatable, requests, daemons, overhead, age


def _costs(sight: Sight) -> dict[str, float]:
    """Add up the prices of nodes by NodePool; those that nobody knows are left out."""
    summed = dict.fromkeys(sight.types, 0.0)
    wanted: dict[str, Counter[_Place]] = {name: Counter() for name in sight.types}
    for node in sight.nodes:
        if node.pool in wanted:
            wanted[node.pool][_place(node)] += 1
    for pool, places in wanted.items():
        sold = {name for name, _, _ in places}
        for kind in sight.types[pool]:
            if kind.name in sold:
                for one in kind.offerings:
                    # Counted once: of several reservations in one place, the first.
                    count = places.pop((kind.name, one.zone, one.capacity_type), 0)
                    summed[pool] += count * one.price
    return summed


def _place(node: Node) -> _Place:
    label = node.labels.get
    return (
        label(label_keys.INSTANCE_TYPE, ""),
        label(label_keys.ZONE, ""),
        label(label_keys.CAPACITY_TYPE, ""),
    )


def _requests(pods: Iterable[Pod]) -> Resources:
    return total(one.spec.requests for one in pods if not one.terminal)


def _labelled(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _units(resource: str, amount: int) -> float:
    """Return an amount as metrics have it: CPU in cores."""
    return amount / 1000 if resource == CPU else amount
