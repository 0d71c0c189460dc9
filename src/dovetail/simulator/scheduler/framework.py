"""Where a pod can run and where it runs best; if nowhere, why."""

from collections import Counter
from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

import numpy as np

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import NodeTerm, PreferredNodeTerm
from dovetail.model.kube.resources import PODS, Resources
from dovetail.model.kube.taints import Toleration
from dovetail.simulator.scheduler.equivalence import PodClass, Read
from dovetail.simulator.scheduler.host_ports import HostPorts
from dovetail.simulator.scheduler.interpod_filters import Neighbours
from dovetail.simulator.scheduler.node_filter_cache import CLOSED, Local
from dovetail.simulator.scheduler.node_filters import PerNode, Selecting, Tolerating, preferring
from dovetail.simulator.scheduler.node_table import Bools, Ints, NodeTable
from dovetail.simulator.scheduler.pod_counts import Counting
from dovetail.simulator.scheduler.scoring import Scoring
from dovetail.simulator.scheduler.volumes import Claims, Verdict

Reasons = Callable[[Bools], list[tuple[str, int]]]
"""Tells, for the nodes in a mask, why and how many are out."""
Demands = tuple[FrozenDict[str, str], tuple[NodeTerm, ...], tuple[Toleration, ...], Resources]
"""All that a pod asks of a node alone."""


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
        # Classes that ask for the same share it, and it goes with the last of them.
        self._locals: WeakValueDictionary[Demands, Local] = WeakValueDictionary()
        self._local_of: dict[PodClass, Local] = {}
        self._selecting: dict[tuple[FrozenDict[str, str], tuple[NodeTerm, ...]], Selecting] = {}
        self._tolerating: dict[tuple[Toleration, ...], Tolerating] = {}
        self._preferring: dict[tuple[PreferredNodeTerm, ...], PerNode] = {}

    def best(self, pod: Read, needs: Verdict) -> int:
        """Return the slot of the best node; raises ``Unschedulable``."""
        kind = pod.kind
        local = self._local(kind)
        scores = local.scores
        for refused, _ in self._dynamic(pod, needs):
            if refused is not None:
                scores = np.where(refused, CLOSED, scores)
        best = scores.max()
        if best == CLOSED:
            raise self._why(pod, needs)
        soft, preferred = local.tolerating.soft, self._preferred(kind)
        if soft is not None or preferred is not None or self.scoring.has_wishes(kind):
            candidates = np.flatnonzero(scores > CLOSED)
            scores = scores.copy()
            scores[candidates] += self.scoring.wishes(
                kind,
                candidates,
                soft_taints=soft,
                preferred=None if preferred is None else preferred.values,
            )
            best = scores.max()
        ties = np.flatnonzero(scores == best)
        return int(ties[0] if len(ties) == 1 else ties[np.argmin(self._table.ranks[ties])])

    def takes(self, pod: Read, needs: Verdict, node: str) -> int | None:
        """Return the slot of a node that can take the pod, however good it is."""
        slot = self._table.slots.get(node)
        if slot is None or self._local(pod.kind).scores[slot] == CLOSED:
            return None
        refused = any(bool(mask[slot]) for mask, _ in self._dynamic(pod, needs) if mask is not None)
        return None if refused else slot

    def forget(self, kind: PodClass) -> None:
        """Let go of what is remembered about a class of which there are no pods."""
        self._local_of.pop(kind, None)

    def could_help(self, pod: Read, slots: Ints) -> bool:
        """Tell whether changes of some nodes may have made room for a pod there."""
        if pod.only_node:
            slots = slots[slots == self._table.slots.get(pod.only_node, -1)]
        return bool((self._local(pod.kind).scores[slots] > CLOSED).any())

    def tolerates(self, pod: Read, slot: int) -> bool:
        """Tell whether a node's taints let a pod in."""
        return not self._local(pod.kind).tolerating.refuses(np.array([slot])).any()

    def _filters(self, pod: Read, needs: Verdict) -> Iterator[tuple[Bools | None, Reasons | str]]:
        """Hand out where each rule refuses the pod, in kube-scheduler's order, and why."""
        local = self._local(pod.kind)
        tolerating, every = local.tolerating, np.arange(len(self._table.facts))
        yield tolerating.closed, "node(s) were unschedulable"
        yield tolerating.codes > 0, lambda out: _taints(tolerating, out)
        yield ~local.selecting.mask, "node(s) didn't match Pod's node affinity/selector"
        yield local.short(every), lambda out: self._shortages(pod.kind, out)
        yield from self._dynamic(pod, needs)

    def _dynamic(self, pod: Read, needs: Verdict) -> Iterator[tuple[Bools | None, str]]:
        """Hand out where pods and volumes elsewhere refuse the pod, and why."""
        kind, spec = pod.kind, pod.kind.spec
        if pod.only_node:
            yield self._all_but(pod.only_node), "node(s) didn't match Pod's node affinity/selector"
        if spec.host_ports:
            ports = self.ports.refusals(spec.host_ports)
            yield ports, "node(s) didn't have free ports for the requested pod ports"
        yield from self._claims.refusals(needs)
        if not kind.is_lonely:
            local = self._local(kind)
            spread = self.neighbours.spread_refusals(
                kind, lambda: local.selecting.mask, lambda: local.tolerating.codes == 0
            )
            yield spread, "node(s) didn't match pod topology spread constraints"
            affinity = self.neighbours.affinity_refusals(kind)
            yield affinity, "node(s) didn't match pod affinity rules"
            avoiding = self.neighbours.avoidance_refusals(kind)
            yield avoiding, "node(s) didn't match pod anti-affinity rules"
        unwelcome = self.neighbours.unwelcome(kind)
        yield unwelcome, "node(s) didn't satisfy existing pods anti-affinity rules"

    def _all_but(self, name: str) -> Bools:
        others = np.ones(len(self._table.facts), dtype=np.bool_)
        slot = self._table.slots.get(name)
        if slot is not None:
            others[slot] = False
        return others

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

    def _shortages(self, kind: PodClass, out: Bools) -> list[tuple[str, int]]:
        found = []
        for name, amount in kind.requests:
            lacks = self._table.need(name).values - self._table.used[name].values < amount
            number = int((lacks & out).sum())
            if number:
                found.append(("Too many pods" if name == PODS else f"Insufficient {name}", number))
        return found

    def _local(self, kind: PodClass) -> Local:
        own = self._local_of.get(kind)
        if own is not None:
            return own
        spec = kind.spec
        key = (spec.node_selector, spec.node_terms, spec.tolerations, spec.requests)
        known = self._locals.get(key)
        if known is None:
            tolerating = self._tolerating.get(spec.tolerations)
            if tolerating is None:
                tolerating = Tolerating(self._table, spec.tolerations)
                self._tolerating[spec.tolerations] = tolerating
            selecting = self._selecting.get(key[:2])
            if selecting is None:
                selecting = self._selecting[key[:2]] = Selecting(self._table, *key[:2])
            known = Local(self._table, self.scoring, kind, selecting, tolerating)
            self._locals[key] = known
        self._local_of[kind] = known
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
