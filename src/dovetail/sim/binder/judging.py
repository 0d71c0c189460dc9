"""Where a pod can run and where it runs best; if nowhere, why."""

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from dovetail.model.frozen import FrozenDict
from dovetail.model.pods import NodeTerm, PreferredNodeTerm
from dovetail.model.resources import PODS
from dovetail.model.taints import Toleration
from dovetail.sim.binder.claims import Claims, Verdict
from dovetail.sim.binder.classes import PodClass, Read
from dovetail.sim.binder.counting import Counting
from dovetail.sim.binder.fitting import PerNode, Selecting, Tolerating, preferring
from dovetail.sim.binder.neighbours import Neighbours
from dovetail.sim.binder.nodes import Bools, Ints, NodeTable
from dovetail.sim.binder.ports import HostPorts
from dovetail.sim.binder.scoring import Scoring

Reasons = Callable[[Bools], list[tuple[str, int]]]
"""Tells, for the nodes in a mask, why and how many are out."""


class Unschedulable(Exception):
    """No node can take the pod; the text is what users read in the pod's condition."""

    def __init__(self, message: str, reasons: frozenset[str]) -> None:
        super().__init__(message)
        self.message = message
        self.reasons = reasons


class Judge:
    """Filters and scores nodes for pods, a class at a time."""

    def __init__(self, table: NodeTable, counting: Counting, claims: Claims) -> None:
        self._table = table
        self._claims = claims
        self.neighbours = Neighbours(table, counting)
        self.scoring = Scoring(table, self.neighbours)
        self.ports = HostPorts(table)
        self._selecting: dict[tuple[FrozenDict[str, str], tuple[NodeTerm, ...]], Selecting] = {}
        self._tolerating: dict[tuple[Toleration, ...], Tolerating] = {}
        self._preferring: dict[tuple[PreferredNodeTerm, ...], PerNode] = {}

    def best(self, pod: Read, needs: Verdict) -> int:
        """Return the slot of the best node; raises ``Unschedulable``."""
        kind = pod.kind
        open_to = self._open(pod, needs)
        candidates = np.flatnonzero(open_to)
        if not candidates.size:
            raise self._why(pod, needs)
        if candidates.size == 1:
            return int(candidates[0])
        preferred = self._preferred(kind)
        scores = self.scoring.scores(
            kind,
            candidates,
            soft_taints=self._tolerance(kind).soft,
            preferred=None if preferred is None else preferred.values,
        )
        ties = candidates[scores == scores.max()]
        return int(ties[np.argmin(self._table.ranks[ties])])

    def could_help(self, pod: Read, slots: Ints) -> bool:
        """Tell whether changes of some nodes may have made room for a pod there."""
        if pod.only_node:
            slots = slots[slots == self._table.slots.get(pod.only_node, -1)]
        kind, tolerance = pod.kind, self._tolerance(pod.kind)
        fine = self._selected(kind)[slots] & (tolerance.codes[slots] == 0)
        fine &= ~tolerance.closed[slots]
        if not fine.any():
            return False
        short = self._short(kind)
        return short is None or bool((fine & ~short[slots]).any())

    def _open(self, pod: Read, needs: Verdict) -> Bools:
        found = self._table.there
        for refused, _ in self._filters(pod, needs):
            if refused is not None:
                found = found & ~refused
                if not found.any():
                    break
        return found

    def _filters(self, pod: Read, needs: Verdict) -> Iterator[tuple[Bools | None, Reasons | str]]:
        """Hand out where each rule refuses the pod, in kube-scheduler's order, and why."""
        kind, spec = pod.kind, pod.kind.spec
        tolerance = self._tolerance(kind)
        yield tolerance.closed, "node(s) were unschedulable"
        if pod.only_node:
            only = np.ones(len(self._table.facts), dtype=np.bool_)
            slot = self._table.slots.get(pod.only_node)
            if slot is not None:
                only[slot] = False
            yield only, "node(s) didn't satisfy plugin(s) [NodeAffinity]"
        yield tolerance.codes > 0, lambda out: _taints(tolerance, out)
        yield ~self._selected(kind), "node(s) didn't match Pod's node affinity/selector"
        ports = self.ports.refusals(spec.host_ports)
        yield ports, "node(s) didn't have free ports for the requested pod ports"
        yield self._short(kind), lambda out: self._shortages(kind, out)
        yield from self._claims.refusals(needs)
        spread = self.neighbours.spread_refusals(
            kind, lambda: self._selected(kind), lambda: tolerance.codes == 0
        )
        yield spread, "node(s) didn't match pod topology spread constraints"
        affinity = self.neighbours.affinity_refusals(kind)
        yield affinity, "node(s) didn't match pod affinity rules"
        avoiding = self.neighbours.avoidance_refusals(kind)
        yield avoiding, "node(s) didn't match pod anti-affinity rules"
        unwelcome = self.neighbours.unwelcome(kind)
        yield unwelcome, "node(s) didn't satisfy existing pods anti-affinity rules"

    def _why(self, pod: Read, needs: Verdict) -> Unschedulable:
        left = self._table.there
        total = int(left.sum())
        if not total:
            return Unschedulable("no nodes available to schedule pods", frozenset())
        tally: Counter[str] = Counter()
        for refused, reason in self._filters(pod, needs):
            if refused is None:
                continue
            out = left & refused
            left = left & ~refused
            if not out.any():
                continue
            told = [(reason, int(out.sum()))] if isinstance(reason, str) else reason(out)
            for text, number in told:
                tally[text] += number
        shown = ", ".join(sorted(f"{number} {text}" for text, number in tally.items()))
        return Unschedulable(f"0/{total} nodes are available: {shown}.", frozenset(tally))

    def _short(self, kind: PodClass) -> Bools | None:
        """Return where too little of something is left."""
        table, short = self._table, None
        for name, amount in kind.requests:
            room = table.need(name).values
            lacks = room - table.used[name].values < amount
            short = lacks if short is None else short | lacks
        return short

    def _shortages(self, kind: PodClass, out: Bools) -> list[tuple[str, int]]:
        found = []
        for name, amount in kind.requests:
            lacks = self._table.need(name).values - self._table.used[name].values < amount
            number = int((lacks & out).sum())
            if number:
                found.append(("Too many pods" if name == PODS else f"Insufficient {name}", number))
        return found

    def _selected(self, kind: PodClass) -> Bools:
        key = (kind.spec.node_selector, kind.spec.node_terms)
        known = self._selecting.get(key)
        if known is None:
            known = self._selecting[key] = Selecting(self._table, *key)
        return known.mask

    def _tolerance(self, kind: PodClass) -> Tolerating:
        key = kind.spec.tolerations
        known = self._tolerating.get(key)
        if known is None:
            known = self._tolerating[key] = Tolerating(self._table, key)
        return known

    def _preferred(self, kind: PodClass) -> PerNode | None:
        key = kind.spec.preferred_node_terms
        if not key:
            return None
        known = self._preferring.get(key)
        if known is None:
            known = self._preferring[key] = preferring(self._table, key)
        return known


def _taints(tolerance: Tolerating, out: Bools) -> list[tuple[str, int]]:
    numbers: Ints = np.bincount(tolerance.codes[out], minlength=len(tolerance.reasons))
    return [
        (f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}", int(number))
        for taint, number in zip(tolerance.reasons, numbers, strict=True)
        if taint is not None and number
    ]
