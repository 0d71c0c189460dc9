"""NodePools as tables, DaemonSets subtracted; kept until an input changes.

Consecutive snapshots have the same instance types and DaemonSets, and NodePools that
differ in their status alone. Nothing in a table changes while pods are placed, except
for caches, so that problems share them.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from dovetail.core.scheduling.arrays.nodepools import NodePoolTable
from dovetail.core.scheduling.arrays.types import Bools
from dovetail.core.scheduling.constraints.daemonsets import daemonset_pod_spec, subtract_daemonsets
from dovetail.core.scheduling.plan_cost import get_node_cost
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.pod import HostPort, PodSpec
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

_MAX_KEPT: Final = 8
"""Tables that are kept, of all NodePools together."""


class PoolTable(NamedTuple):
    """One NodePool, and the host ports that DaemonSet pods use on its nodes."""

    table: NodePoolTable
    daemon_ports: list[tuple[HostPort, Bools]]
    """Host port and [types]: True where it is in use."""


class _Inputs(NamedTuple):
    """Inputs of a table, without the status of its NodePool."""

    name: str
    template: NodeTemplate
    node_cost: float
    resource_names: tuple[str, ...]
    daemon_specs: tuple[PodSpec, ...]
    reserved_capacity: bool
    min_node_memory: int


_kept: Final[list[tuple[tuple[InstanceType, ...], _Inputs, PoolTable]]] = []
"""The latest tables, newest last. Instance types are compared by identity: there are hundreds."""


def compile_tables(
    pools: Sequence[NodePool],
    snapshot: ClusterSnapshot,
    resource_names: tuple[str, ...],
    settings: SchedulingSettings,
) -> list[PoolTable]:
    """Return the tables of NodePools."""
    daemon_specs = tuple(map(daemonset_pod_spec, snapshot.daemon_sets))
    tables = []
    for pool in pools:
        types = snapshot.instance_types.get(pool.name, ())
        inputs = _Inputs(
            pool.name,
            pool.template,
            get_node_cost(pool, types, settings.node_cost),
            resource_names,
            daemon_specs,
            settings.reserved_capacity,
            settings.min_node_memory,
        )
        tables.append(_get_table(pool, types, inputs, snapshot))
    return tables


def _get_table(
    pool: NodePool, types: tuple[InstanceType, ...], inputs: _Inputs, snapshot: ClusterSnapshot
) -> PoolTable:
    for kept_types, kept_inputs, kept in tuple(_kept):
        if kept_types is types and kept_inputs == inputs:
            return PoolTable(kept.table.with_pool(pool), kept.daemon_ports)
    table = NodePoolTable(
        pool, types, inputs.resource_names, reservations=inputs.reserved_capacity, node_cost=inputs.node_cost
    )
    ports = subtract_daemonsets(table, snapshot.daemon_sets)
    table.add_memory_premium(inputs.min_node_memory)
    compiled = PoolTable(table, ports)
    _kept.append((types, inputs, compiled))
    del _kept[:-_MAX_KEPT]
    return compiled
