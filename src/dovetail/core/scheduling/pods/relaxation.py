"""Relaxation: drop preferences one at a time until a pod fits."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from dovetail.model.kube.pod import PodSpec
from dovetail.model.kube.requirements import NO_REQUIREMENTS, Requirements
from dovetail.model.kube.taints import TOLERATE_PREFER_NO_SCHEDULE
from dovetail.model.settings import PreferencePolicy


def relax(spec: PodSpec, preferences: PreferencePolicy, *, soft_taints: bool) -> Iterator[PodSpec]:
    """Yield ``spec`` with all preferences, then specs with fewer and fewer.

    Each step drops one preference: the first that a function of ``_STEPS`` finds.
    The order is Karpenter's. With ``soft_taints`` the last spec also tolerates
    PreferNoSchedule taints.
    """
    if not _has_preferences(spec):
        yield spec
        if soft_taints:
            yield replace(spec, tolerations=(*spec.tolerations, TOLERATE_PREFER_NO_SCHEDULE))
        return
    current = _heaviest_first(spec)
    if preferences is PreferencePolicy.IGNORE:
        current = _drop_preferences(current)
    yield current
    while True:
        relaxed = next((relaxed_spec for step in _STEPS if (relaxed_spec := step(current)) is not None), None)
        if relaxed is None:
            break
        current = relaxed
        yield current
    if soft_taints:
        yield replace(current, tolerations=(*current.tolerations, TOLERATE_PREFER_NO_SCHEDULE))


def _has_preferences(spec: PodSpec) -> bool:
    """Return False if there is nothing to drop: most specs."""
    return bool(
        len(spec.node_terms) > 1
        or spec.preferred_node_terms
        or spec.preferred_affinity
        or spec.preferred_anti_affinity
        or (spec.spreads and not all(spread.required for spread in spec.spreads))
    )


def _heaviest_first(spec: PodSpec) -> PodSpec:
    if not (spec.preferred_node_terms or spec.preferred_affinity or spec.preferred_anti_affinity):
        return spec
    return replace(
        spec,
        preferred_node_terms=tuple(sorted(spec.preferred_node_terms, key=lambda t: -t.weight)),
        preferred_affinity=tuple(sorted(spec.preferred_affinity, key=lambda t: -t.weight)),
        preferred_anti_affinity=tuple(sorted(spec.preferred_anti_affinity, key=lambda t: -t.weight)),
    )


def _drop_preferences(spec: PodSpec) -> PodSpec:
    return replace(
        spec,
        preferred_node_terms=(),
        preferred_affinity=(),
        preferred_anti_affinity=(),
        spreads=tuple(spread for spread in spec.spreads if spread.required),
    )


def _drop_first_node_term(spec: PodSpec) -> PodSpec | None:
    # Required terms are alternatives. The last one is a requirement and stays.
    return replace(spec, node_terms=spec.node_terms[1:]) if len(spec.node_terms) > 1 else None


def _drop_preferred_affinity(spec: PodSpec) -> PodSpec | None:
    preferred = spec.preferred_affinity
    return replace(spec, preferred_affinity=preferred[1:]) if preferred else None


def _drop_preferred_anti_affinity(spec: PodSpec) -> PodSpec | None:
    preferred = spec.preferred_anti_affinity
    return replace(spec, preferred_anti_affinity=preferred[1:]) if preferred else None


def _drop_preferred_node_term(spec: PodSpec) -> PodSpec | None:
    preferred = spec.preferred_node_terms
    return replace(spec, preferred_node_terms=preferred[1:]) if preferred else None


def _drop_soft_spread(spec: PodSpec) -> PodSpec | None:
    for index, spread in enumerate(spec.spreads):
        if not spread.required:
            return replace(spec, spreads=spec.spreads[:index] + spec.spreads[index + 1 :])
    return None


_STEPS: tuple[Callable[[PodSpec], PodSpec | None], ...] = (
    _drop_first_node_term,
    _drop_preferred_affinity,
    _drop_preferred_anti_affinity,
    _drop_preferred_node_term,
    _drop_soft_spread,
)


def node_requirements(spec: PodSpec) -> Requirements:
    """Return the node requirements of a spec, with its heaviest preference."""
    if not (spec.node_selector or spec.node_terms or spec.preferred_node_terms):
        return NO_REQUIREMENTS
    term = spec.node_terms[0].expressions if spec.node_terms else ()
    preferred_term = spec.preferred_node_terms[0].term.expressions if spec.preferred_node_terms else ()
    requirements = Requirements.from_labels(spec.node_selector)
    if not term and not preferred_term:
        return requirements
    return requirements.intersection(Requirements.from_specs((*term, *preferred_term)).values())
