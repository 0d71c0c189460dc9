"""Work: how much of it pods cause, counted in steps.

Users choose the sizes of pods and NodePools, and some of them multiply: spread
constraints by domains, node affinity terms by NodePools. Two measures keep a few
pods from delaying all others:

- ``spec_complexity`` is computed from a spec alone. Pods above ``MAX_COMPLEXITY``
  are *isolated*: each class of them is planned on its own, after all other pods.
- ``WorkCounter`` counts steps while classes are placed, and stops a class at its limit.

Steps do not depend on the clock or the computer: equal snapshots give equal plans.
Only ``should_stop`` may read a clock. It ends a pass between two classes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final
from weakref import WeakKeyDictionary

from dovetail.errors import DovetailError
from dovetail.model.kube.pod import NodeSelectorTerm, PodSpec
from dovetail.model.plan import Constraint, UnschedulableReason
from dovetail.model.settings import CLASS_STEPS

ShouldStop = Callable[[], bool]
"""Returns True once the pass has used up its time."""

MAX_COMPLEXITY: Final = 4000
"""``spec_complexity`` up to which pods are planned together with others.

Usual specs have less than 100. 60 topology rules or 60 alternatives are above.
"""
_VALUES_PER_STEP: Final = 8
"""Label values that cost as much as one expression."""

NOT_RETRIED: Final[Mapping[str, int]] = MappingProxyType({})


class WorkLimitExceededError(DovetailError):
    """A class of pods needs more steps than its limit."""


def never_stop() -> bool:
    """``ShouldStop`` of plans that have all the time they need."""
    return False


class WorkCounter:
    """Counts the steps of one plan."""

    def __init__(
        self,
        should_stop: ShouldStop = never_stop,
        *,
        retried: Mapping[str, int] = NOT_RETRIED,
        class_steps: int = CLASS_STEPS,
    ) -> None:
        self.should_stop = should_stop
        self.class_steps = class_steps
        self.retried = retried
        """UID of a pod that got no node → number of its latest pass."""
        self.steps = 0
        self._limit: int | None = None

    def charge(self, steps: int) -> None:
        """Count steps; raise WorkLimitExceededError if those of a class exceed its limit."""
        self.steps += steps
        if self._limit is not None and self.steps > self._limit:
            raise WorkLimitExceededError

    @contextmanager
    def limit_class(self) -> Iterator[None]:
        """Limit the steps of the block; a block within another has the limit of the outer one."""
        if self._limit is not None:
            yield
            return
        self._limit = self.steps + self.class_steps
        try:
            yield
        finally:
            self._limit = None


def is_complex(spec: PodSpec) -> bool:
    """Return True if pods with this spec are planned on their own, after all others."""
    result = _complex_specs.get(spec)
    if result is None:
        result = _complex_specs[spec] = spec_complexity(spec) > MAX_COMPLEXITY
    return result


_complex_specs: Final[WeakKeyDictionary[PodSpec, bool]] = WeakKeyDictionary()
"""Specs in use → whether they are complex: every plan and every pass asks for all of them."""


def spec_complexity(spec: PodSpec) -> int:
    """Return how much work a spec causes, per NodePool and domain.

    - every relaxed spec states the topology rules again: one per node affinity term
      and preference;
    - every topology rule is compared with the others;
    - every spread constraint counts the nodes that the node affinity allows.
    """
    rules = (
        len(spec.spreads)
        + len(spec.affinity)
        + len(spec.anti_affinity)
        + len(spec.preferred_affinity)
        + len(spec.preferred_anti_affinity)
    )
    preferences = (
        len(spec.preferred_affinity)
        + len(spec.preferred_anti_affinity)
        + len(spec.preferred_node_terms)
        + sum(not spread.required for spread in spec.spreads)
    )
    relaxed_specs = max(1, len(spec.node_terms)) + preferences
    alternatives = sum(map(_term_size, spec.node_terms))
    preferred = sum(_term_size(preference.term) for preference in spec.preferred_node_terms)
    return (
        relaxed_specs * (1 + rules)
        + rules * rules
        + (1 + len(spec.spreads)) * alternatives
        + preferred
        + 2 * len(spec.tolerations)
        + len(spec.host_ports)
    )


def _term_size(term: NodeSelectorTerm) -> int:
    values = sum(len(expression.values) for expression in term.expressions)
    return len(term.expressions) + values // _VALUES_PER_STEP


def complexity_reason(spec: PodSpec) -> UnschedulableReason:
    """Return the reason of pods that need too many steps, with the sizes to reduce."""
    sizes = {
        "topology spread constraints": len(spec.spreads),
        "pod affinity terms": len(spec.affinity) + len(spec.preferred_affinity),
        "pod anti-affinity terms": len(spec.anti_affinity) + len(spec.preferred_anti_affinity),
        "node affinity terms": len(spec.node_terms) + len(spec.preferred_node_terms),
        "tolerations": len(spec.tolerations),
        "host ports": len(spec.host_ports),
        "volumes": len(spec.volumes),
    }
    largest = sorted((name for name in sizes if sizes[name]), key=lambda name: -sizes[name])[:3]
    shown = ", ".join(f"{sizes[name]} {name}" for name in largest)
    message = (
        f"its constraints{f' ({shown})' if shown else ''}, with those of running pods, are too complex "
        "to plan; fewer or smaller ones would allow it"
    )
    return UnschedulableReason("", Constraint.COMPLEXITY, message)
