"""Giving up wishes, one at a time, until a pod fits."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from dovetail.model.kube.pod import PodSpec
from dovetail.model.kube.requirements import ANYTHING, Requirements
from dovetail.model.kube.taints import TOLERATE_PREFERENCES
from dovetail.model.settings import Preferences


def relaxations(spec: PodSpec, preferences: Preferences, *, soft_taints: bool) -> Iterator[PodSpec]:
    """Yield ``spec`` with all its wishes, then weaker and weaker forms of it.

    At each step the first rule of ``_STEPS`` that has something to give up
    gives up one thing. With ``soft_taints`` the last form also tolerates
    PreferNoSchedule taints.
    """
    current = _heaviest_first(spec)
    if preferences is Preferences.IGNORE:
        current = _without_wishes(current)
    yield current
    while True:
        weaker = next((form for step in _STEPS if (form := step(current)) is not None), None)
        if weaker is None:
            break
        current = weaker
        yield current
    if soft_taints:
        yield replace(current, tolerations=(*current.tolerations, TOLERATE_PREFERENCES))


def _heaviest_first(spec: PodSpec) -> PodSpec:
    if not (spec.preferred_node_terms or spec.preferred_affinity or spec.preferred_anti_affinity):
        return spec
    return replace(
        spec,
        preferred_node_terms=tuple(sorted(spec.preferred_node_terms, key=lambda t: -t.weight)),
        preferred_affinity=tuple(sorted(spec.preferred_affinity, key=lambda t: -t.weight)),
        preferred_anti_affinity=tuple(
            sorted(spec.preferred_anti_affinity, key=lambda t: -t.weight)
        ),
    )


def _without_wishes(spec: PodSpec) -> PodSpec:
    return replace(
        spec,
        preferred_node_terms=(),
        preferred_affinity=(),
        preferred_anti_affinity=(),
        spreads=tuple(one for one in spec.spreads if one.required),
    )


def _drop_first_node_term(spec: PodSpec) -> PodSpec | None:
    # The terms are alternatives: the last one is a demand and stays.
    return replace(spec, node_terms=spec.node_terms[1:]) if len(spec.node_terms) > 1 else None


def _drop_affinity_wish(spec: PodSpec) -> PodSpec | None:
    wishes = spec.preferred_affinity
    return replace(spec, preferred_affinity=wishes[1:]) if wishes else None


def _drop_anti_affinity_wish(spec: PodSpec) -> PodSpec | None:
    wishes = spec.preferred_anti_affinity
    return replace(spec, preferred_anti_affinity=wishes[1:]) if wishes else None


def _drop_node_wish(spec: PodSpec) -> PodSpec | None:
    wishes = spec.preferred_node_terms
    return replace(spec, preferred_node_terms=wishes[1:]) if wishes else None


def _drop_spread_wish(spec: PodSpec) -> PodSpec | None:
    for index, one in enumerate(spec.spreads):
        if not one.required:
            return replace(spec, spreads=spec.spreads[:index] + spec.spreads[index + 1 :])
    return None


_STEPS: tuple[Callable[[PodSpec], PodSpec | None], ...] = (
    _drop_first_node_term,
    _drop_affinity_wish,
    _drop_anti_affinity_wish,
    _drop_node_wish,
    _drop_spread_wish,
)


def wanted_requirements(spec: PodSpec) -> Requirements:
    """Return what this form asks of node labels, its heaviest wish included."""
    if not (spec.node_selector or spec.node_terms or spec.preferred_node_terms):
        return ANYTHING
    term = spec.node_terms[0].expressions if spec.node_terms else ()
    more = spec.preferred_node_terms[0].term.expressions if spec.preferred_node_terms else ()
    asked = Requirements.of_labels(spec.node_selector)
    if not term and not more:
        return asked
    return asked.and_also(Requirements.of_specs((*term, *more)).values())
