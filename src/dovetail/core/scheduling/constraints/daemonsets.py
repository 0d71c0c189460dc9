"""What DaemonSets take of a node before any other pod does."""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from dovetail.core.scheduling.arrays.nodepools import PoolTable
from dovetail.core.scheduling.arrays.types import Bools
from dovetail.core.scheduling.constraints.topology import node_alternatives
from dovetail.core.scheduling.pods.watched_labels import noticed
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import HostPort, PodSpec
from dovetail.model.kube.requirements import ANYTHING, Requirement, Requirements
from dovetail.model.kube.resources import Resources, total
from dovetail.model.kube.taints import Effect, Taint, untolerated
from dovetail.model.kube.workloads import DaemonSet
from dovetail.model.node import Node

_ONCE_RUNNING = Requirements.of(
    [
        Requirement.one_of(label_keys.REGISTERED, "true"),
        Requirement.one_of(label_keys.INITIALIZED, "true"),
    ]
)


def daemon_spec(daemon: DaemonSet) -> PodSpec:
    """Return the spec its next pod will have.

    A live pod knows its true requests, but is tied to its node by affinity; the
    template knows where pods may go.
    """
    if daemon.newest is None:
        return daemon.pod.spec
    return replace(daemon.newest.spec, node_terms=daemon.pod.spec.node_terms)


def charge_daemons(table: PoolTable, daemons: Sequence[DaemonSet]) -> list[tuple[HostPort, Bools]]:
    """Take DaemonSets off each type of a pool; return the host ports they hold, by row."""
    if not daemons:
        return []
    ports: list[tuple[HostPort, Bools]] = []
    taints = table.pool.template.taints
    served: list[tuple[PodSpec, Bools]] = []
    for daemon in daemons:
        spec = daemon_spec(daemon)
        if spec.needs_devices or _keeps_off(taints, spec):
            continue
        rows = _rows_served(table, spec)
        served.append((spec, rows))
        ports += [(port, rows) for port in spec.host_ports]
    _charge_alike(table, served)
    return ports


def _charge_alike(table: PoolTable, served: Sequence[tuple[PodSpec, Bools]]) -> None:
    """Charge the rows together that get the same DaemonSets; there are few such sets."""
    if not served or not table.rows:
        return
    sets, codes = np.unique(np.array([rows for _, rows in served]), axis=1, return_inverse=True)
    for number in range(sets.shape[1]):
        there = [spec.requests for (spec, _), on in zip(served, sets[:, number], strict=True) if on]
        if there:
            table.charge_daemons(codes.ravel() == number, total(there))


def _rows_served(table: PoolTable, spec: PodSpec) -> Bools:
    base = table.base.and_also(_ONCE_RUNNING.values())
    served = np.zeros(len(table.rows), dtype=bool)
    for wanted in node_alternatives(spec) or (ANYTHING,):
        if base.why_incompatible(wanted, undefined_ok=label_keys.WELL_KNOWN):
            continue
        rows = np.ones(len(table.rows), dtype=bool)
        for one in wanted.values():
            rows &= table.rows_allowing(one)
        served |= rows
    return served


class Outstanding:
    """What DaemonSets will still take of existing nodes.

    Nodes that look alike to every DaemonSet are judged once.
    """

    def __init__(self, daemons: Sequence[DaemonSet]) -> None:
        self._specs = [spec for spec in map(daemon_spec, daemons) if not spec.needs_devices]
        asked = [
            wanted for spec in self._specs for wanted in (node_alternatives(spec) or (ANYTHING,))
        ]
        self._keys = frozenset(key for wanted in asked for key in wanted)
        self._due: dict[tuple[Requirements, tuple[Taint, ...]], Resources] = {}

    def on(self, node: Node) -> Resources:
        seen = noticed(node, self._keys)
        taints = node.effective_taints()
        due = self._due.get((seen, taints))
        if due is None:
            due = self._due[(seen, taints)] = total(
                spec.requests
                for spec in self._specs
                if not _keeps_off(taints, spec)
                and any(
                    seen.why_incompatible(wanted) is None
                    for wanted in (node_alternatives(spec) or (ANYTHING,))
                )
            )
        there = total(
            pod.spec.requests
            for alike in node.alike
            if alike.pods[0].of_daemon_set
            for pod in alike.pods
        )
        return (due - there).never_negative() if there else due


def _keeps_off(taints: Sequence[Taint], spec: PodSpec) -> bool:
    hard = [taint for taint in taints if taint.effect is not Effect.PREFER_NO_SCHEDULE]
    return untolerated(hard, spec.tolerations) is not None
