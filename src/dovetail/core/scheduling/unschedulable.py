"""Why a pod gets no node: per pool, the first thing that rules it out, and by how much."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import DEAD
from dovetail.core.scheduling.arrays.nodepools import PoolTable
from dovetail.core.scheduling.arrays.types import Bools, Floats
from dovetail.core.scheduling.constraints.compiled_class import Want
from dovetail.core.scheduling.constraints.topology import Kind, Rule
from dovetail.core.scheduling.domains import Division
from dovetail.core.scheduling.placer import Placer
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.model import labels as label_keys
from dovetail.model.kube.quantity import format_amount
from dovetail.model.kube.requirements import Conflict, Requirement, Requirements
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from dovetail.model.kube.taints import Taint, untolerated
from dovetail.model.plan import Constraint, Refusal
from dovetail.model.snapshot import ClusterSnapshot

_MEGA = 1_000_000
_SHORT = 6
_RULES = {
    Kind.SPREAD: Constraint.SPREAD,
    Kind.AFFINITY: Constraint.AFFINITY,
    Kind.ANTI: Constraint.ANTI_AFFINITY,
}


class Explainer:
    """Finds the reasons after the fact, once per class."""

    def __init__(self, placer: Placer) -> None:
        self._placer = placer
        self._problem = placer.problem

    def why(self, one: PodClass) -> tuple[Refusal, ...]:
        """Return a refusal for each pool."""
        problem = self._problem
        # The weakest form: what even giving up every wish could not satisfy.
        forms = problem.forms[id(one)]
        want = self._placer.want(one, len(forms) - 1)
        refusals = [
            Refusal(table.pool.name, *self._why_pool(want, index, table))
            for index, table in enumerate(problem.tables)
        ]
        return (*refusals, *unusable_pools(problem.snapshot))

    def _why_pool(self, want: Want, index: int, table: PoolTable) -> tuple[Constraint, str]:
        for reason in self._reasons(want, index, table):
            return reason
        return self._why_rules(want) or (
            Constraint.RESOURCES,
            "every node that would do is taken by pods placed before it",
        )

    def _reasons(
        self, want: Want, index: int, table: PoolTable
    ) -> Iterator[tuple[Constraint, str]]:
        asked = self._problem.space.asks[want.ask]
        root = self._problem.space.roots[index]
        if root == DEAD:
            yield _why_empty(table)
        taint = untolerated(table.pool.template.taints, asked.tolerations)
        if taint is not None:
            also = next(self._other_reasons(want, index, table, asked.requirements), None)
            rest = f"; nor would it fit then: {also[1]}" if also else f"; {_toleration(taint)}"
            yield Constraint.TAINT, f"taint {taint} is not tolerated{rest}"
        yield from self._other_reasons(want, index, table, asked.requirements)

    def _other_reasons(
        self, want: Want, index: int, table: PoolTable, wanted: Requirements
    ) -> Iterator[tuple[Constraint, str]]:
        """Return what rules a pool out, were its taints tolerated."""
        conflict = table.base.why_incompatible(wanted, undefined_ok=label_keys.WELL_KNOWN)
        if conflict is not None:
            yield Constraint.REQUIREMENT, _conflict(conflict, table)
        yield from self._why_types(want, index, table, wanted)
        yield from self._why_volumes(want, index)
        yield from self._why_resources(want, index, table)

    def _why_types(
        self, want: Want, index: int, table: PoolTable, wanted: Requirements
    ) -> Iterator[tuple[Constraint, str]]:
        state = self._problem.space.states[self._problem.space.roots[index]]
        rows, columns = state.rows.copy(), state.columns.copy()
        for key in sorted(wanted):
            one = wanted[key]
            rows &= table.rows_allowing(one)
            columns &= table.columns_allowing(one)
            if not rows.any():
                yield Constraint.REQUIREMENT, _no_type(one, wanted, table)
        if not np.isfinite(table.price[np.ix_(rows, columns)]).any() and not table.reserved:
            names = [table.rows[row].type.name for row in np.flatnonzero(rows)[:3].tolist()]
            yield (
                Constraint.OFFERING,
                f"types that suit it ({', '.join(names)}, …) cannot be had at present in the "
                f"zones and capacity types it allows ({wanted or 'any'})",
            )

    def _why_volumes(self, want: Want, index: int) -> Iterator[tuple[Constraint, str]]:
        if all(state == DEAD for state in self._states(want, index)):
            places = " or ".join(
                ", ".join(str(place[key]) for key in sorted(place)) for place in want.alternatives
            )
            yield Constraint.VOLUME, f"its volumes can only be used where {places}"

    def _states(self, want: Want, index: int) -> list[int]:
        """Return what its claims would be narrowed to, by volume; taints are overlooked."""
        space = self._problem.space
        asked = space.asks[want.ask].requirements
        return [
            space.narrowed(space.roots[index], asked.and_also(place.values()))
            for place in want.alternatives
        ]

    def _why_resources(
        self, want: Want, index: int, table: PoolTable
    ) -> Iterator[tuple[Constraint, str]]:
        space, board = self._problem.space, self._problem.board
        state = next(state for state in self._states(want, index) if state != DEAD)
        rows = np.isfinite(space.cost[state][: len(table.rows)])
        each = board.each(want, state)
        if not (each >= 1).any():
            yield Constraint.RESOURCES, self._closest(want, table, rows)
            return
        fitting = each >= 1
        if want.ports:
            fitting = fitting & ~board.rows_with_ports(index, want.clashes, len(each))
            if not fitting.any():
                ports = ", ".join(str(p.port) for p in want.pod_class.spec.host_ports)
                yield (
                    Constraint.HOST_PORT,
                    f"a DaemonSet holds host port {ports} on every type that fits",
                )
        allowance = board.allowances[index]
        if not (fitting & allowance.affordable()).any():
            yield Constraint.LIMITS, self._over_limit(index, table, fitting)
        variety = board.varieties[index]
        if variety.wanted and variety.headroom(np.where(fitting, each, -1.0), variety.wanted) < 1:
            found = variety.achieved(fitting)
            short = [f"{key}: {found[key]} of {low}" for key, low in variety.wanted.items()]
            yield Constraint.MIN_VALUES, f"too few values for minValues ({', '.join(short)})"

    def _closest(self, want: Want, table: PoolTable, rows: Bools) -> str:
        """Name the type that comes closest, and what it lacks."""
        axis = self._problem.axis
        candidates = np.flatnonzero(rows if rows.any() else np.ones_like(rows))
        alloc: Floats = table.alloc[candidates]
        lacking = np.maximum(want.size[None, :] - alloc, 0.0)
        share = lacking / np.maximum(want.size[None, :], 1.0)
        best = int(np.lexsort((candidates, share.sum(axis=1)))[0])
        row = table.rows[int(candidates[best])]
        parts = [
            f"{axis[r]} {_amount(axis[r], want.size[r])} asked for, "
            f"{_amount(axis[r], max(0.0, alloc[best, r]))} to be had"
            for r in np.flatnonzero(lacking[best] > 0).tolist()
        ]
        less = " and ".join(
            f"{_amount(axis[r], lacking[best, r])} less {axis[r]}"
            for r in np.flatnonzero(lacking[best] > 0).tolist()
        )
        beside = " beside its DaemonSets" if table.daemon_requests[int(candidates[best])] else ""
        missing = [
            r for r in range(len(axis)) if want.size[r] > 0 and self._nobody_has(table, rows, r)
        ]
        if missing:
            root = self._problem.space.roots[self._problem.tables.index(table)]
            root_rows = self._problem.space.states[root].rows
            return self._missing(table, [axis[r] for r in missing], root_rows)
        return (
            f"too large for every type; closest is {row.type.name}{beside}: {'; '.join(parts)}; "
            f"would fit if it asked for {less}{self._slip(want)}"
        )

    @staticmethod
    def _nobody_has(table: PoolTable, rows: Bools, r: int) -> bool:
        name = table.axis[r]
        return not any(table.rows[row].allocatable.get(name) for row in np.flatnonzero(rows))

    @staticmethod
    def _missing(table: PoolTable, names: list[str], root_rows: Bools) -> str:
        """Tell a resource that no type has from one that only other types have."""
        wanted = " and ".join(names)
        numbers = [
            number
            for number, row in enumerate(table.rows)
            if all(row.allocatable.get(name, 0) > 0 for name in names)
        ]
        allowed = [number for number in numbers if root_rows[number]]
        having = [table.rows[number].type.name for number in allowed or numbers]
        if not having:
            return f"no type of this pool has {wanted}"
        shown = ", ".join(having[:3]) + (f" and {len(having) - 3} more" if len(having) > 3 else "")
        if not allowed:
            return f"this pool allows no type with {wanted} (such as {shown})"
        return f"types with {wanted} ({shown}) do not meet its other demands"

    def _slip(self, want: Want) -> str:
        """Point out an M where an m was meant."""
        axis = self._problem.axis
        cpu = int(want.size[axis.index(CPU)]) if CPU in axis else 0
        cores, rest = divmod(cpu, 1000)
        if cores >= _MEGA and rest == 0 and cores % _MEGA == 0:
            return f"; did you mean {cores // _MEGA}m cpu, not {cores // _MEGA}M?"
        return ""

    def _over_limit(self, index: int, table: PoolTable, fitting: Bools) -> str:
        allowance = self._problem.board.allowances[index]
        names = allowance.names
        rows = np.flatnonzero(fitting)
        over = np.maximum(allowance.capacity[rows] - allowance.left[None, :], 0.0)
        scale = np.maximum(allowance.capacity.max(axis=0), 1.0)
        best = int(np.argmin((over / scale).sum(axis=1)))
        row = int(rows[best])
        parts = []
        for i in np.flatnonzero(over[best] > 0).tolist():
            left = format_amount(names[i], max(0, int(allowance.left[i])))
            has = format_amount(names[i], int(allowance.capacity[row, i]))
            parts.append(f"{names[i]}: {left} left, {table.rows[row].type.name} has {has}")
        return f"the pool's limits are used up ({'; '.join(parts)})"

    def _why_rules(self, want: Want) -> tuple[Constraint, str] | None:
        """Name the topology rule that holds the pod back."""
        rule = self._broken_by_zones(want) or _broken_by_hosts(want)
        if rule is not None:
            others = rule not in want.rules
            return _RULES[rule.kind], ("pods that run keep it away: " if others else "") + _rule(
                rule
            )
        if want.ports:
            ports = ", ".join(str(p.port) for p in want.pod_class.spec.host_ports)
            return Constraint.HOST_PORT, f"host port {ports} is taken on every node it could use"
        return None

    def _broken_by_zones(self, want: Want) -> Rule | None:
        """Return the rule that rules most domains out; the first of them if several do."""
        cells = self._placer.cells(want) if want.keys else []
        division = Division(want, cells)
        found = Counter(rule for cell in cells if (rule := division.broken(cell)) is not None)
        if want.keys and not cells:
            return want.zonal_rules[0].rule if want.zonal_rules else None
        return max(found, key=lambda rule: found[rule]) if found else None


def _broken_by_hosts(want: Want) -> Rule | None:
    order = {Kind.AFFINITY: 0, Kind.ANTI: 1, Kind.SPREAD: 2}
    held = sorted(want.host_rules, key=lambda one: order[one.rule.kind])
    if held:
        return held[0].rule
    return next((rule for rule in want.inverse if rule.kind is Kind.ANTI), None)


def _amount(name: str, amount: float) -> str:
    """Spell an amount for reading: bytes in Gi with one decimal where that is enough."""
    whole = int(amount)
    exact = format_amount(name, whole)
    if name not in (MEMORY, EPHEMERAL_STORAGE) or whole < 1 << 30 or len(exact) <= _SHORT:
        return exact
    return f"{whole / (1 << 30):.1f}Gi"


def unusable_pools(snapshot: ClusterSnapshot) -> list[Refusal]:
    """Say which pools were not asked at all."""
    found = []
    for pool in sorted(snapshot.node_pools, key=lambda one: one.name):
        if pool.deleting:
            found.append(Refusal(pool.name, Constraint.POOL_NOT_READY, "is being deleted"))
        elif not pool.ready:
            found.append(Refusal(pool.name, Constraint.POOL_NOT_READY, "is not ready"))
        elif pool.replicas is not None:
            message = "is static (spec.replicas is set): it buys no nodes for pods"
            found.append(Refusal(pool.name, Constraint.POOL_NOT_READY, message))
    return found


def _toleration(taint: Taint) -> str:
    value = f", value: {taint.value}" if taint.value else ""
    operator = "Equal" if taint.value else "Exists"
    return (
        f"would fit with the toleration {{key: {taint.key}, operator: {operator}{value}, "
        f"effect: {taint.effect}}}"
    )


def _conflict(conflict: Conflict, table: PoolTable) -> str:
    if conflict.offered is None:
        return f"{conflict}; nodes of this pool do not have it"
    return f"asks for {conflict.wanted}; this pool has {conflict.offered}"


def _no_type(one: Requirement, wanted: Requirements, table: PoolTable) -> str:
    if table.rows_allowing(one).any():
        return f"no instance type of this pool has all of it: {wanted}"
    there = sorted(table.values_of(one.key))
    shown = ", ".join(there[:8]) + (f" and {len(there) - 8} more" if len(there) > 8 else "")
    return f"asks for {one}; this pool's types have {shown or 'no such label'}"


def _why_empty(table: PoolTable) -> tuple[Constraint, str]:
    own = table.base.without(label_keys.NODEPOOL, table.pool.template.node_class.label[0])
    torn = [key for key, one in own.items() if one.present and not one.complement]
    if torn:
        message = f"the pool's own requirements and labels contradict each other on {min(torn)}"
        return Constraint.REQUIREMENT, message
    rows = np.ones(len(table.rows), dtype=bool)
    for one in table.base.values():
        rows &= table.rows_allowing(one)
    if rows.any():
        names = [table.rows[row].type.name for row in np.flatnonzero(rows)[:3].tolist()]
        return (
            Constraint.OFFERING,
            f"the pool's types ({', '.join(names)}, …) cannot be had at present in any zone and "
            "capacity type that it allows",
        )
    return (
        Constraint.REQUIREMENT,
        f"no instance type meets the pool's own requirements ({own})",
    )


def _rule(rule: Rule) -> str:
    counter = rule.counter
    selector = "nothing" if counter.selector is None else _selector(counter.selector)
    counts = ", ".join(f"{domain}: {n}" for domain, n in sorted(counter.counts.items())[:6])
    where = f" ({counts})" if counts and not counter.by_host else ""
    if rule.kind is Kind.SPREAD:
        return f"spread over {counter.key} by at most {rule.skew} of pods with {selector}{where}"
    if rule.kind is Kind.AFFINITY:
        return (
            f"must share {counter.key} with pods with {selector}, which run nowhere it fits{where}"
        )
    return f"must not share {counter.key} with pods with {selector}{where}"


def _selector(selector: object) -> str:
    labels = getattr(selector, "match_labels", {})
    expressions = getattr(selector, "expressions", ())
    parts = [f"{key}={value}" for key, value in sorted(labels.items())]
    parts += [f"{e.key} {e.operator} {list(e.values)}" for e in expressions]
    return ", ".join(parts) or "any labels"
