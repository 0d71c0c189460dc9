"""Unschedulable reasons: per NodePool, the first constraint that rules a pod out.

Messages also say how close the pod came: "would fit if …".
"""

from collections.abc import Iterator, Sequence
from math import ceil

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import INFEASIBLE
from dovetail.core.scheduling.arrays.nodepools import NodePoolTable
from dovetail.core.scheduling.arrays.types import Bools, Floats
from dovetail.core.scheduling.constraints.compiled_class import CompiledClass
from dovetail.core.scheduling.constraints.min_values import PoolMinValues
from dovetail.core.scheduling.placer import Placer
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.reasons.labels import (
    ValueSuggestions,
    describe_conflict,
    describe_missing_type,
    find_undefined,
    quote,
    shorten,
)
from dovetail.core.scheduling.reasons.topology import (
    describe_violation,
    find_rule_against_new_nodes,
    find_violated_rule,
)
from dovetail.core.scheduling.work import complexity_reason
from dovetail.model import labels as label_keys
from dovetail.model.kube.quantity import format_amount
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from dovetail.model.kube.taints import Taint, find_untolerated_taints
from dovetail.model.plan import Constraint, UnschedulableReason
from dovetail.model.settings import MinValuesPolicy
from dovetail.model.snapshot import ClusterSnapshot

_Reason = tuple[Constraint, str]
_NO_ROOM = (Constraint.RESOURCES, "pods placed before it fill every suitable node")
_MILLION = 1_000_000
_MAX_MESSAGE_LENGTH = 1000
"""Characters of a reason: a pod may have thousands of label values."""
# Characters up to which an exact amount is shown.
_MAX_EXACT_LENGTH = 6
_STORAGE_FOR_PODS = 0.9
"""Share of a larger volume that pods can use; the kubelet evicts them from the rest."""


def find_nodepools_without_types(snapshot: ClusterSnapshot, policy: MinValuesPolicy) -> dict[str, str]:
    """Return NodePools whose own requirements exclude every instance type, and why."""
    excluded = {}
    for pool in snapshot.nodepools:
        table = NodePoolTable(pool, snapshot.instance_types.get(pool.name, ()), ())
        rows, columns = np.ones(len(table.rows), dtype=bool), np.ones(len(table.columns), dtype=bool)
        for requirement in table.requirements.values():
            rows &= table.rows_matching(requirement)
            columns &= table.columns_matching(requirement)
        available = rows & (np.isfinite(table.price) & columns).any(axis=1)
        for row, _ in table.reserved:
            available[row] |= rows[row]
        if not available.any():
            excluded[pool.name] = "its requirements exclude all available instance types"
            continue
        min_values = PoolMinValues(table)
        if policy is MinValuesPolicy.STRICT and not min_values.is_met(available, min_values.required):
            counts = min_values.count_values(available)
            short = [f"{key}: {counts[key]} of {low}" for key, low in min_values.required.items()]
            excluded[pool.name] = f"its minValues exclude all available instance types ({', '.join(short)})"
    return excluded


class UnschedulableExplainer:
    """Finds the reasons after placement, once per class."""

    def __init__(self, placer: Placer) -> None:
        self._placer = placer
        self._problem = placer.problem
        self._suggestions = ValueSuggestions(placer.problem.tables)

    def explain(self, pod_class: PodClass) -> tuple[UnschedulableReason, ...]:
        """Return one reason per NodePool."""
        problem = self._problem
        if id(pod_class) in self._placer.too_complex:
            return (complexity_reason(pod_class.spec),)
        # The last spec: what even a pod without preferences violates.
        problem.work.charge(4 * len(problem.tables))
        specs = problem.relaxed_specs[id(pod_class)]
        compiled = self._placer.compile_class(pod_class, len(specs) - 1)
        reasons = [self._explain_pool(compiled, index, table) for index, table in enumerate(problem.tables)]
        return (*reasons, *explain_unusable_pools(problem.snapshot))

    def _explain_pool(self, compiled: CompiledClass, index: int, table: NodePoolTable) -> UnschedulableReason:
        reason = next(self._reasons(compiled, index, table), None)
        constraint, message = reason or self._explain_topology(compiled) or _NO_ROOM
        if len(message) > _MAX_MESSAGE_LENGTH:
            message = message[: _MAX_MESSAGE_LENGTH - 1] + "…"
        return UnschedulableReason(table.pool.name, constraint, message)

    def _reasons(self, compiled: CompiledClass, index: int, table: NodePoolTable) -> Iterator[_Reason]:
        """Yield the reasons against a NodePool; only the first is used."""
        constraint = self._problem.space.constraints[compiled.constraint]
        root = self._problem.space.roots[index]
        if root == INFEASIBLE:
            yield _explain_empty_pool(table)
        taints = find_untolerated_taints(table.pool.template.taints, constraint.tolerations)
        if taints:
            other = next(self._other_reasons(compiled, index, table, constraint.requirements), None)
            if other is None:
                rule = find_rule_against_new_nodes(self._placer, compiled, index)
                other = None if rule is None else describe_violation(rule, compiled)
            yield Constraint.TAINT, _describe_taints(taints, other)
        yield from self._other_reasons(compiled, index, table, constraint.requirements)

    def _other_reasons(
        self, compiled: CompiledClass, index: int, table: NodePoolTable, requirements: Requirements
    ) -> Iterator[_Reason]:
        """Yield the reasons against a NodePool if its taints were tolerated."""
        conflict = table.requirements.find_conflict(requirements, allow_undefined=label_keys.WELL_KNOWN)
        if conflict is not None:
            message = describe_conflict(conflict, requirements, table, self._suggestions)
            undefined = find_undefined(requirements, table) if conflict.provided is None else []
            if undefined:
                defined = requirements.without(*undefined)
                other = next(self._reasons_with_labels(compiled, index, table, defined), None)
                message += f"; even with a matching label: {other}" if other else ""
            yield Constraint.REQUIREMENT, message
        yield from self._explain_types(compiled, index, table, requirements)
        yield from self._explain_volumes(compiled, index)
        yield from self._explain_resources(compiled, index, table)

    def _reasons_with_labels(
        self, compiled: CompiledClass, index: int, table: NodePoolTable, requirements: Requirements
    ) -> Iterator[str]:
        """Yield what else is missing in a NodePool: what edits of its labels cannot add.

        ``requirements`` are those of the pod without the labels that the NodePool does not define.
        """
        conflict = table.requirements.find_conflict(requirements, allow_undefined=label_keys.WELL_KNOWN)
        if conflict is not None:
            yield describe_conflict(conflict, requirements, table, self._suggestions)
        for _, message in self._explain_types(compiled, index, table, requirements):
            yield message
        rows = self._problem.space.states[self._problem.space.roots[index]].rows
        names = self._problem.resource_names
        requested = [names[r] for r in np.flatnonzero(compiled.requests > 0).tolist()]
        absent = [name for name in requested if _lacks_resource(table, rows, name)]
        if absent:
            yield _describe_missing_resource(table, absent, rows)

    def _explain_types(
        self, compiled: CompiledClass, index: int, table: NodePoolTable, requirements: Requirements
    ) -> Iterator[_Reason]:
        state = self._problem.space.states[self._problem.space.roots[index]]
        rows, columns = state.rows.copy(), state.columns.copy()
        for key in sorted(requirements):
            requirement = requirements[key]
            rows &= table.rows_matching(requirement)
            columns &= table.columns_matching(requirement)
            if not rows.any():
                yield (
                    Constraint.REQUIREMENT,
                    describe_missing_type(requirement, requirements, table, state.rows, self._suggestions),
                )
        if not np.isfinite(table.price[np.ix_(rows, columns)]).any() and not table.reserved:
            names = [table.rows[row].type.name for row in np.flatnonzero(rows)[:3].tolist()]
            yield (
                Constraint.OFFERING,
                f"matching types ({', '.join(names)}, …) are not available in the "
                f"zones and capacity types it allows ({requirements or 'any'})",
            )

    def _explain_volumes(self, compiled: CompiledClass, index: int) -> Iterator[_Reason]:
        if all(state == INFEASIBLE for state in self._states(compiled, index)):
            topologies = " or ".join(
                ", ".join(str(volume_topology[key]) for key in sorted(volume_topology))
                for volume_topology in compiled.volume_topologies
            )
            yield Constraint.VOLUME, f"its volumes can only be attached where {topologies}"

    def _states(self, compiled: CompiledClass, index: int) -> list[int]:
        """Return the claim states per volume topology; taints are ignored."""
        space = self._problem.space
        requirements = space.constraints[compiled.constraint].requirements
        return [
            space.add_requirements(space.roots[index], requirements.intersection(volume_topology.values()))
            for volume_topology in compiled.volume_topologies
        ]

    def _explain_resources(
        self, compiled: CompiledClass, index: int, table: NodePoolTable
    ) -> Iterator[_Reason]:
        space, placement = self._problem.space, self._problem.placement
        state = next(state for state in self._states(compiled, index) if state != INFEASIBLE)
        rows = np.isfinite(space.cost[state][: len(table.rows)])  # [types]
        per_row = placement.pods_per_empty_claim(compiled, state)
        if not (per_row >= 1).any():
            yield Constraint.RESOURCES, self._describe_closest_type(compiled, table, rows)
            return
        allowed = per_row >= 1
        if compiled.port_bits:
            bits = compiled.conflicting_port_bits
            allowed = allowed & ~placement.rows_with_ports(index, bits, len(per_row))
            if not allowed.any():
                ports = ", ".join(str(p.port) for p in compiled.pod_class.spec.host_ports)
                yield (Constraint.HOST_PORT, f"a DaemonSet uses host port {ports} on every type that fits")
        headroom = placement.limit_headrooms[index]
        if not (allowed & headroom.allowed_rows()).any():
            yield Constraint.LIMITS, self._describe_exceeded_limit(index, table, allowed)
        min_values = placement.min_values[index]
        required = min_values.required
        if required and min_values.max_pods(np.where(allowed, per_row, -1.0), required) < 1:
            counts = min_values.count_values(allowed)
            short = [f"{key}: {counts[key]} of {low}" for key, low in required.items()]
            yield Constraint.MIN_VALUES, f"too few values for minValues ({', '.join(short)})"

    def _describe_closest_type(self, compiled: CompiledClass, table: NodePoolTable, rows: Bools) -> str:
        """Return the type that comes closest, and what it lacks."""
        names = self._problem.resource_names
        candidates = np.flatnonzero(rows if rows.any() else np.ones_like(rows))
        alloc: Floats = table.alloc[candidates]  # [candidates, resources]
        missing = np.maximum(compiled.requests[None, :] - alloc, 0.0)
        share = missing / np.maximum(compiled.requests[None, :], 1.0)
        best = int(np.lexsort((candidates, share.sum(axis=1)))[0])
        row = table.rows[int(candidates[best])]
        parts = [
            f"{names[r]} {_format_amount(names[r], compiled.requests[r])} requested, "
            f"{_format_amount(names[r], max(0.0, alloc[best, r]))} available"
            for r in np.flatnonzero(missing[best] > 0).tolist()
        ]
        reductions = " and ".join(
            f"{_format_amount(names[r], missing[best, r])} less {names[r]}"
            for r in np.flatnonzero(missing[best] > 0).tolist()
        )
        with_daemonsets = " after DaemonSet overhead" if table.daemon_requests[int(candidates[best])] else ""
        requested = [names[r] for r in np.flatnonzero(compiled.requests > 0).tolist()]
        absent = [name for name in requested if _lacks_resource(table, rows, name)]
        if absent:
            root = self._problem.space.roots[self._problem.tables.index(table)]
            return _describe_missing_resource(table, absent, self._problem.space.states[root].rows)
        lacking = [names[r] for r in np.flatnonzero(missing[best] > 0).tolist()]
        volumes = {table.rows[i].type.capacity.get(EPHEMERAL_STORAGE, 0) for i in candidates.tolist()}
        if lacking == [EPHEMERAL_STORAGE] and len(volumes) == 1:
            more = missing[best, names.index(EPHEMERAL_STORAGE)] / _STORAGE_FOR_PODS
            size = ceil((volumes.pop() + more) / 2**30)
            node_class = table.pool.template.node_class.name
            return (
                f"{'; '.join(parts)} on every type; would fit with a volumeSize of {size}Gi in "
                f"blockDeviceMappings of EC2NodeClass {node_class}"
            )
        return (
            f"too large for every type; closest is {row.type.name}{with_daemonsets}: "
            f"{'; '.join(parts)}; "
            f"would fit if it requested {reductions}{self._suggest_millicores(compiled)}"
        )

    def _suggest_millicores(self, compiled: CompiledClass) -> str:
        """Return a hint if CPU was written with M (mega) instead of m (milli)."""
        names = self._problem.resource_names
        cpu = int(compiled.requests[names.index(CPU)]) if CPU in names else 0
        cores, rest = divmod(cpu, 1000)
        if cores >= _MILLION and rest == 0 and cores % _MILLION == 0:
            return f"; did you mean {cores // _MILLION}m cpu, not {cores // _MILLION}M?"
        return ""

    def _describe_exceeded_limit(self, index: int, table: NodePoolTable, allowed: Bools) -> str:
        headroom = self._problem.placement.limit_headrooms[index]
        names = headroom.names
        rows = np.flatnonzero(allowed)
        over = np.maximum(headroom.capacity[rows] - headroom.remaining[None, :], 0.0)
        scale = np.maximum(headroom.capacity.max(axis=0), 1.0)
        best = int(np.argmin((over / scale).sum(axis=1)))
        row = int(rows[best])
        parts = []
        for i in np.flatnonzero(over[best] > 0).tolist():
            left = format_amount(names[i], max(0, int(headroom.remaining[i])))
            has = format_amount(names[i], int(headroom.capacity[row, i]))
            parts.append(f"{names[i]}: {left} left, {table.rows[row].type.name} has {has}")
        return f"the limits of the NodePool are reached ({'; '.join(parts)})"

    def _explain_topology(self, compiled: CompiledClass) -> _Reason | None:
        """Return the topology rule or host port that rules the pod out."""
        rule = find_violated_rule(self._placer, compiled)
        if rule is not None:
            return describe_violation(rule, compiled)
        if compiled.port_bits:
            ports = ", ".join(str(p.port) for p in compiled.pod_class.spec.host_ports)
            return Constraint.HOST_PORT, f"host port {ports} is in use on every suitable node"
        return None


def _lacks_resource(table: NodePoolTable, rows: Bools, name: str) -> bool:
    return not any(table.rows[row].allocatable.get(name) for row in np.flatnonzero(rows))


def _describe_missing_resource(table: NodePoolTable, names: list[str], root_rows: Bools) -> str:
    """Return whether no type has a resource, or only types that are not allowed."""
    resources = " and ".join(names)
    suitable = [
        (row.type.name, bool(is_allowed))
        for row, is_allowed in zip(table.rows, root_rows, strict=True)
        if all(row.allocatable.get(name, 0) > 0 for name in names)
    ]
    if not suitable:
        return f"no type of this NodePool has {resources}"
    allowed = [name for name, is_allowed in suitable if is_allowed]
    shown = shorten(allowed or [name for name, _ in suitable], 3)
    if not allowed:
        return f"this NodePool allows no type with {resources} (such as {shown})"
    return f"types with {resources} ({shown}) do not meet its other requirements"


def _format_amount(name: str, amount: float) -> str:
    """Return an amount as text: bytes in Gi with one decimal where the exact is long."""
    amount_int = int(amount)
    exact = format_amount(name, amount_int)
    if name not in (MEMORY, EPHEMERAL_STORAGE) or amount_int < 1 << 30 or len(exact) <= _MAX_EXACT_LENGTH:
        return exact
    return f"{amount_int / (1 << 30):.1f}Gi"


def explain_unusable_pools(snapshot: ClusterSnapshot) -> list[UnschedulableReason]:
    """Return the reasons of the NodePools that launch no nodes for pods."""
    reasons = []
    for pool in sorted(snapshot.nodepools, key=lambda pool: pool.name):
        if pool.deleting:
            reasons.append(UnschedulableReason(pool.name, Constraint.NODEPOOL_NOT_READY, "is being deleted"))
        elif not pool.ready:
            reasons.append(UnschedulableReason(pool.name, Constraint.NODEPOOL_NOT_READY, "is not ready"))
        elif pool.replicas is not None:
            message = "is static (spec.replicas is set): it launches no nodes for pods"
            reasons.append(UnschedulableReason(pool.name, Constraint.NODEPOOL_NOT_READY, message))
    return reasons


def _describe_taints(taints: Sequence[Taint], other: _Reason | None) -> str:
    """Describe untolerated taints, with ``other`` as the reason against nodes without them."""
    is_one = len(taints) == 1
    names = " and ".join(map(str, taints))
    problem = f"taint {names} is not tolerated" if is_one else f"taints {names} are not tolerated"
    if other is not None:
        return f"{problem}; nor would it fit with {'a toleration' if is_one else 'tolerations'}: {other[1]}"
    tolerations = " and ".join(map(_format_toleration, taints))
    return f"{problem}; would fit with the toleration{'' if is_one else 's'} {tolerations}"


def _format_toleration(taint: Taint) -> str:
    value = f", value: {quote(taint.value)}" if taint.value else ""
    operator = "Equal" if taint.value else "Exists"
    return f"{{key: {taint.key}, operator: {operator}{value}, effect: {taint.effect}}}"


def _explain_empty_pool(table: NodePoolTable) -> _Reason:
    own = table.requirements.without(label_keys.NODEPOOL, table.pool.template.node_class.label[0])
    contradictory = [key for key, values in own.items() if values.must_exist and not values.complement]
    if contradictory:
        message = f"requirements and labels of the NodePool contradict each other on {min(contradictory)}"
        return Constraint.REQUIREMENT, message
    rows = np.ones(len(table.rows), dtype=bool)
    for requirement in table.requirements.values():
        rows &= table.rows_matching(requirement)
    if rows.any():
        names = [table.rows[row].type.name for row in np.flatnonzero(rows)[:3].tolist()]
        return (
            Constraint.OFFERING,
            f"types of the NodePool ({', '.join(names)}, …) are not available in any zone and "
            "capacity type that it allows",
        )
    return (Constraint.REQUIREMENT, f"no instance type meets the requirements of the NodePool ({own})")
