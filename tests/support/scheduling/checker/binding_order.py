"""Search for an order in which all pods bind, with a cache and a budget.

If the budget ends first, nothing is proven: then whole orders are tried, and pods
that were stuck in one come earlier in the next.
Part of the checker: shares no code with the solver.
"""

from collections.abc import Sequence

from dovetail.model.kube.pod import Pod
from tests.support.scheduling.checker.inter_pod import InterPodRules

Arrivals = Sequence[tuple[Pod, str]]
"""Pods with their nodes."""
StuckPod = tuple[Pod, str, str]
"""A pod, its node, and the violated rule."""

BUDGET = 3000
"""Maximum number of bindings that the search tries."""
ATTEMPTS = 100
"""Number of whole orders tried after that."""


def equivalence_class(pod: Pod) -> tuple[object, ...]:
    """Return a key that is equal for pods that are identical to a scheduler."""
    return pod.namespace, pod.labels, pod.spec


class BindingSearch:
    """Depth-first search; identical pods of one node are one group with a count."""

    def __init__(self, arrivals: Arrivals, inter_pod: InterPodRules) -> None:
        self._around = inter_pod
        groups: dict[tuple[object, ...], list[tuple[Pod, str]]] = {}
        for pod, node in arrivals:
            groups.setdefault((equivalence_class(pod), node), []).append((pod, node))
        self._groups = list(groups.values())
        self._harm = [inter_pod.count_foreign_spreads(members[0][0]) for members in self._groups]
        self._harmless = [inter_pod.is_harmless(members[0][0]) for members in self._groups]
        self._left = [len(members) for members in self._groups]
        self._dead: set[tuple[int, ...]] = set()
        self._budget = BUDGET
        self._best: list[StuckPod] | None = None

    def find_stuck_pods(self) -> list[StuckPod]:
        """Return no pods if an order exists, else those left over in the best attempt."""
        if self._descend():
            return []
        proven = self._budget > 0
        return (self._best or []) if proven or not self._heed_complaints() else []

    def _heed_complaints(self) -> bool:
        """Bind in orders in which those go first who were left over before."""
        urgency = [0] * len(self._groups)
        for _ in range(ATTEMPTS):
            order = sorted(range(len(urgency)), key=lambda group: -urgency[group])
            bound = self._bind_first_of(order)
            if not any(self._left):
                return True
            urgency = [old + left for old, left in zip(urgency, self._left, strict=True)]
            for group in bound:
                self._unbind(group)
        return False

    def _bind_first_of(self, order: Sequence[int]) -> list[int]:
        """Bind the first in order that can be bound, again and again; return who was."""
        bound: list[int] = []
        while True:
            able = (g for g in order if self._left[g] and self._objection(g) is None)
            group = next(able, None)
            if group is None:
                return bound
            self._bind(group)
            bound.append(group)

    def _descend(self) -> bool:
        taken = self._bind_harmless()
        state = tuple(self._left)
        done = not any(state)
        if not done and state not in self._dead and self._budget > 0:
            done = self._branch()
            if not done:
                self._dead.add(state)
        if not done:
            for group in reversed(taken):
                self._unbind(group)
        return done

    def _bind_harmless(self) -> list[int]:
        """Bind all pods whose binding can only help others; this needs no backtracking."""
        taken: list[int] = []
        progress = True
        while progress:
            progress = False
            for group, harmless in enumerate(self._harmless):
                while harmless and self._left[group] and self._objection(group) is None:
                    self._bind(group)
                    taken.append(group)
                    progress = True
        return taken

    def _branch(self) -> bool:
        ready: list[tuple[bool, int, int, int]] = []
        refused: list[StuckPod] = []
        for group, count in enumerate(self._left):
            if not count:
                continue
            violation = self._objection(group)
            if violation is None:
                pod, node = self._groups[group][0]
                # A class that may start now may not once another of its pods runs.
                later = not self._around.starts_a_class(pod)
                excess_skew = self._around.excess_skew(pod, node)
                ready.append((later, self._harm[group], excess_skew, group))
            else:
                refused += [(*member, violation) for member in self._groups[group][:count]]
        if not ready and (self._best is None or len(refused) < len(self._best)):
            self._best = refused
        for *_, group in sorted(ready):
            self._budget -= 1
            self._bind(group)
            if self._descend():
                return True
            self._unbind(group)
        return False

    def _objection(self, group: int) -> str | None:
        return self._around.violation(*self._groups[group][0])

    def _bind(self, group: int) -> None:
        self._left[group] -= 1
        self._around.add(*self._groups[group][0])

    def _unbind(self, group: int) -> None:
        self._left[group] += 1
        self._around.add(*self._groups[group][0], -1)
