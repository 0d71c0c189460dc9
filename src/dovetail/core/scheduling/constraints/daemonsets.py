"""DaemonSet overhead: requests and host ports of DaemonSet pods on each node."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from msgspec.structs import replace

from dovetail.core.scheduling.arrays.nodepools import NodePoolTable
from dovetail.core.scheduling.arrays.types import Bools
from dovetail.core.scheduling.constraints.topology import required_node_terms
from dovetail.core.scheduling.pods.node_pods import get_node_pods
from dovetail.core.scheduling.pods.watched_labels import watched_labels
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import HostPort, PodSpec
from dovetail.model.kube.requirements import NO_REQUIREMENTS, Requirement, Requirements
from dovetail.model.kube.resources import Resources, sum_resources
from dovetail.model.kube.taints import Taint, TaintEffect, find_untolerated_taint
from dovetail.model.kube.workloads import DaemonSet
from dovetail.model.node import Node

_MAX_OVERHEADS: Final = 4
"""Overheads that are kept: few sets of DaemonSets are in use at a time."""
_MAX_PROFILES: Final = 4096
"""Distinct (labels, taints) per overhead."""
_INITIALIZED_LABELS = Requirements.from_requirements(
    [Requirement.one_of(label_keys.REGISTERED, "true"), Requirement.one_of(label_keys.INITIALIZED, "true")]
)


def daemonset_pod_spec(daemon: DaemonSet) -> PodSpec:
    """Return the spec of the next pod of a DaemonSet.

    A live pod has its true requests (LimitRanges and webhooks applied), but the
    DaemonSet controller pins it to its node by affinity. The template has the node
    affinity that the user wrote.
    """
    if daemon.newest_pod is None:
        return daemon.pod.spec
    return replace(daemon.newest_pod.spec, node_terms=daemon.pod.spec.node_terms)


def subtract_daemonsets(
    table: NodePoolTable, daemons: Sequence[DaemonSet], *, only_certain: bool = False
) -> list[tuple[HostPort, Bools]]:
    """Subtract DaemonSet requests from each type; return host ports in use, by row.

    A DaemonSet counts where its pod may run. With ``only_certain`` it counts where its
    pod runs on every node of the type: a lower bound needs that.
    """
    if not daemons:
        return []
    ports: list[tuple[HostPort, Bools]] = []
    taints = table.pool.template.taints
    scheduled: list[tuple[PodSpec, Bools]] = []
    for daemon in daemons:
        spec = daemonset_pod_spec(daemon)
        if spec.needs_devices or _is_repelled(taints, spec):
            continue
        rows = _rows_certain(table, spec) if only_certain else _rows_scheduled(table, spec)
        scheduled.append((spec, rows))
        ports += [(port, rows) for port in spec.host_ports]
    _subtract_by_set(table, scheduled)
    return ports


def _subtract_by_set(table: NodePoolTable, scheduled: Sequence[tuple[PodSpec, Bools]]) -> None:
    """Subtract requests once per distinct set of DaemonSets; there are few sets."""
    if not scheduled or not table.rows:
        return
    rows_by_set: dict[tuple[bool, ...], list[int]] = {}
    for row, running in enumerate(zip(*(rows.tolist() for _, rows in scheduled), strict=True)):
        rows_by_set.setdefault(running, []).append(row)
    for running, rows in rows_by_set.items():
        if any(running):
            requests = [spec.requests for (spec, _), on in zip(scheduled, running, strict=True) if on]
            table.subtract_daemonsets(np.array(rows), sum_resources(requests))


def _rows_scheduled(table: NodePoolTable, spec: PodSpec) -> Bools:
    base = table.requirements.intersection(_INITIALIZED_LABELS.values())
    scheduled = np.zeros(len(table.rows), dtype=bool)
    for term in required_node_terms(spec) or (NO_REQUIREMENTS,):
        if base.find_conflict(term, allow_undefined=label_keys.WELL_KNOWN):
            continue
        rows = np.ones(len(table.rows), dtype=bool)
        for requirement in term.values():
            rows &= table.rows_matching(requirement)
        scheduled |= rows
    return scheduled


def _rows_certain(table: NodePoolTable, spec: PodSpec) -> Bools:
    """Return [rows]: True where every node of the type runs a DaemonSet's pod."""
    base = table.requirements.intersection(_INITIALIZED_LABELS.values())
    certain = np.zeros(len(table.rows), dtype=bool)
    for term in required_node_terms(spec) or (NO_REQUIREMENTS,):
        rows = np.ones(len(table.rows), dtype=bool)
        for requirement in term.values():
            holds: dict[Requirement | None, bool] = {}
            for index, row in enumerate(table.rows):
                known = row.type.requirements.get(requirement.key)
                if known not in holds:
                    holds[known] = _is_implied(requirement, base.get(requirement.key), known)
                rows[index] &= holds[known]
        certain |= rows
    return certain


def _is_implied(requirement: Requirement, of_pool: Requirement | None, of_type: Requirement | None) -> bool:
    """Return True if all nodes with these labels meet a requirement."""
    known = [each for each in (of_pool, of_type) if each is not None]
    if not known:
        # The label may still come from the offering if it is well known; others are absent.
        return requirement.allows_absence and requirement.key not in label_keys.WELL_KNOWN
    return any(
        not each.complement and each.values and all(map(requirement.has, each.values)) for each in known
    )


class DaemonSetOverhead:
    """Requests of DaemonSet pods that existing nodes do not run yet.

    Computed once per distinct (labels, taints), with only the labels that
    DaemonSets select by.
    """

    def __init__(self, specs: Sequence[PodSpec]) -> None:
        self._specs = [spec for spec in specs if not spec.needs_devices]
        terms = [term for spec in self._specs for term in (required_node_terms(spec) or (NO_REQUIREMENTS,))]
        self._keys = frozenset(key for term in terms for key in term)
        self._requests: dict[tuple[Requirements, tuple[Taint, ...]], Resources] = {}

    def remaining_on(self, node: Node) -> Resources:
        """Return the requests of the DaemonSet pods still to be created on a node."""
        labels = watched_labels(node, self._keys)
        taints = node.effective_taints()
        requests = self._requests.get((labels, taints))
        if requests is None:
            if len(self._requests) >= _MAX_PROFILES:
                self._requests.clear()
            requests = self._requests[(labels, taints)] = sum_resources(
                spec.requests
                for spec in self._specs
                if not _is_repelled(taints, spec)
                and any(
                    labels.find_conflict(term) is None
                    for term in (required_node_terms(spec) or (NO_REQUIREMENTS,))
                )
            )
        running = get_node_pods(node).daemonset_requests
        return (requests - running).clamp_at_zero() if running else requests


@lru_cache(maxsize=_MAX_OVERHEADS)
def _compile_overhead(specs: tuple[PodSpec, ...]) -> DaemonSetOverhead:
    return DaemonSetOverhead(specs)


def get_overhead(daemons: Sequence[DaemonSet]) -> DaemonSetOverhead:
    """Return the overhead of DaemonSets; the same object until one of their specs changes."""
    return _compile_overhead(tuple(map(daemonset_pod_spec, daemons)))


def _is_repelled(taints: Sequence[Taint], spec: PodSpec) -> bool:
    hard = [taint for taint in taints if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE]
    return find_untolerated_taint(hard, spec.tolerations) is not None
