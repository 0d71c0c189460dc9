"""Stuck host groups: pods that must share a host without room for all of them.

Pods with required affinity by hostname go where the first of them runs. kube-scheduler
binds the first one wherever it fits, and does not ask whether the others fit, too.
They then wait for ever: no other node is allowed, and this one is full.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from dovetail.core.scheduling.pods.pending import resolve_namespaces
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod, PodAffinityTerm
from dovetail.model.plan import Plan, UnschedulablePod
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

_MAX_TERMS = 200
"""Distinct affinity terms that are evaluated; each one costs a pass over all pods."""


class StuckHostGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Pending pods that must share a host with bound ones, and find no room there."""

    node: str
    waiting: tuple[Pod, ...]
    members: tuple[Pod, ...]
    """Bound pods that the waiting ones must share the host with."""


def find_stuck_groups(snapshot: ClusterSnapshot, unschedulable: Iterable[Pod]) -> tuple[StuckHostGroup, ...]:
    """Return the groups of unschedulable pods, one per node, by name of the node.

    Members on several nodes leave a choice; none of their nodes has room then, and
    only the first by name is returned.
    """
    hosts: dict[tuple[str, PodAffinityTerm], tuple[str, tuple[Pod, ...]] | None] = {}
    waiting: dict[str, list[Pod]] = {}
    members: dict[str, dict[str, Pod]] = {}
    for pod in unschedulable:
        for term in pod.spec.affinity:
            key = (pod.namespace, term)
            if term.topology_key != label_keys.HOSTNAME or (key not in hosts and len(hosts) >= _MAX_TERMS):
                continue
            if key not in hosts:
                hosts[key] = _find_host(pod, term, snapshot)
            host = hosts[key]
            if host is not None:
                node, bound = host
                waiting.setdefault(node, []).append(pod)
                members.setdefault(node, {}).update((member.key, member) for member in bound)
                break
    return tuple(
        StuckHostGroup(node=node, waiting=tuple(waiting[node]), members=tuple(members[node].values()))
        for node in sorted(waiting)
    )


def _find_host(
    pod: Pod, term: PodAffinityTerm, snapshot: ClusterSnapshot
) -> tuple[str, tuple[Pod, ...]] | None:
    """Return the node, the first by name, with pods that a term selects, and these pods."""
    namespaces = resolve_namespaces(
        pod.namespace, term.namespaces, term.namespace_selector, snapshot.namespaces
    )
    for node in sorted(snapshot.nodes, key=lambda node: node.name):
        selected = tuple(
            other
            for group in node.pod_groups
            if (namespaces is None or group.key.namespace in namespaces)
            and term.selector is not None
            and term.selector.matches(group.pods[0].labels)
            for other in group.pods
        )
        if selected:
            return node.name, selected
    return None


def plan_without_node(
    snapshot: ClusterSnapshot, node: str, settings: SchedulingSettings | None = None
) -> Plan:
    """Return the plan for all pending pods and the pods of one node, as if it were deleted."""
    nodes = tuple(replace(other, deleting=other.name == node or other.deleting) for other in snapshot.nodes)
    return solve(replace(snapshot, nodes=nodes), settings)


def format_reasons(unplaced: UnschedulablePod) -> str:
    """Return the reasons of a pod that a plan without the node leaves unschedulable."""
    return "; ".join(
        f"{reason.nodepool}: {reason.message}" if reason.nodepool else reason.message
        for reason in unplaced.reasons
    )
