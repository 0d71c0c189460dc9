"""Is there an order in which these pods bind? A search with memory and a budget.

Where the budget ends before the search does, nothing is proven: then one order
after the other is tried, and who came too late in one comes earlier in the next.
Part of the checker: shares no code with the solver.
"""

from collections.abc import Sequence

from dovetail.model.kube.pod import Pod
from tests.support.neighbours import Neighbourhood

Arrivals = Sequence[tuple[Pod, str]]
"""Pods with the node each is to bind to."""
Stuck = tuple[Pod, str, str]
"""A pod, the node it cannot bind to, and why not."""

BUDGET = 3000
"""Bindings tried before the search gives up."""
ATTEMPTS = 100
"""Whole orders tried after that, before the best one seen is reported."""


def series(pod: Pod) -> tuple[object, ...]:
    """Pods of one series are the same to a scheduler."""
    return pod.namespace, pod.labels, pod.spec


class Search:
    """Depth first; alike pods for one host are one group with a count."""

    def __init__(self, arrivals: Arrivals, around: Neighbourhood) -> None:
        self._around = around
        groups: dict[tuple[object, ...], list[tuple[Pod, str]]] = {}
        for pod, host in arrivals:
            groups.setdefault((series(pod), host), []).append((pod, host))
        self._groups = list(groups.values())
        self._harm = [around.spreads_against(members[0][0]) for members in self._groups]
        self._harmless = [around.binds_harmlessly(members[0][0]) for members in self._groups]
        self._left = [len(members) for members in self._groups]
        self._dead: set[tuple[int, ...]] = set()
        self._budget = BUDGET
        self._best: list[Stuck] | None = None

    def stuck(self) -> list[Stuck]:
        """Return nobody when an order exists, else those left over in the best attempt."""
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
        taken = self._take_harmless()
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

    def _take_harmless(self) -> list[int]:
        """Bind everybody whose binding can only help others; no need to come back here."""
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
        refused: list[Stuck] = []
        for group, count in enumerate(self._left):
            if not count:
                continue
            objection = self._objection(group)
            if objection is None:
                pod, host = self._groups[group][0]
                # A series that may start now may not once somebody else of it runs.
                later = not self._around.starts_a_series(pod)
                strain = self._around.strain(pod, host)
                ready.append((later, self._harm[group], strain, group))
            else:
                refused += [(*one, objection) for one in self._groups[group][:count]]
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
        return self._around.objection(*self._groups[group][0])

    def _bind(self, group: int) -> None:
        self._left[group] -= 1
        self._around.add(*self._groups[group][0])

    def _unbind(self, group: int) -> None:
        self._left[group] += 1
        self._around.add(*self._groups[group][0], -1)
