"""Node affinity, pod affinity and topology spread of a pod."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from dovetail.codec.fields import Field
from dovetail.codec.kube.requirements import NODE_OPERATORS, requirements, selector
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import (
    NodePolicy,
    NodeTerm,
    PodTerm,
    PreferredNodeTerm,
    PreferredPodTerm,
    Spread,
)
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector

T = TypeVar("T")

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SPREAD_FIELDS = (
    "topologyKey maxSkew whenUnsatisfiable labelSelector minDomains matchLabelKeys "
    "nodeAffinityPolicy nodeTaintsPolicy"
).split()


class Affinity(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's wishes and demands about where, and beside whom, it runs."""

    node_terms: tuple[NodeTerm, ...] = ()
    preferred_node_terms: tuple[PreferredNodeTerm, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_affinity: tuple[PreferredPodTerm, ...] = ()
    preferred_anti_affinity: tuple[PreferredPodTerm, ...] = ()


NO_AFFINITY = Affinity()


def affinity(field: Field, pod_labels: FrozenDict[str, str]) -> Affinity:
    """Read ``spec.affinity``; label-key matching is resolved with the pod's labels."""
    if not field.value:
        return NO_AFFINITY
    field.known_keys(("nodeAffinity", "podAffinity", "podAntiAffinity"))
    node, near, apart = field["nodeAffinity"], field["podAffinity"], field["podAntiAffinity"]
    for one in (node, near, apart):
        one.known_keys((_REQUIRED, _PREFERRED))

    def term(inner: Field) -> PodTerm:
        return _pod_term(inner, pod_labels)

    return Affinity(
        node_terms=node_terms(node[_REQUIRED]),
        preferred_node_terms=tuple(
            PreferredNodeTerm(weight, inner)
            for weight, inner in _weighted(node[_PREFERRED], "preference", node_term)
        ),
        affinity=tuple(term(one) for one in near[_REQUIRED].items()),
        anti_affinity=tuple(term(one) for one in apart[_REQUIRED].items()),
        preferred_affinity=_preferred(near[_PREFERRED], term),
        preferred_anti_affinity=_preferred(apart[_PREFERRED], term),
    )


def node_terms(field: Field) -> tuple[NodeTerm, ...]:
    """Read a node selector: a list of terms of which one must hold."""
    if not field.value:
        return ()
    field.known_keys(("nodeSelectorTerms",))
    terms = field["nodeSelectorTerms"]
    if not terms.value:
        terms.mistake("needs at least one term")
    return tuple(node_term(one) for one in terms.items())


def node_term(field: Field) -> NodeTerm:
    """Read one term, of which every expression must hold."""
    field.known_keys(("matchExpressions", "matchFields"))
    return NodeTerm(
        requirements(field["matchExpressions"], NODE_OPERATORS),
        requirements(field["matchFields"], NODE_OPERATORS),
    )


def _preferred(field: Field, read: Callable[[Field], PodTerm]) -> tuple[PreferredPodTerm, ...]:
    pairs = _weighted(field, "podAffinityTerm", read)
    return tuple(PreferredPodTerm(weight, term) for weight, term in pairs)


def _weighted(field: Field, key: str, read: Callable[[Field], T]) -> list[tuple[int, T]]:
    found = []
    for one in field.items():
        one.known_keys(("weight", key))
        one["weight"].required()
        one[key].required()
        weight = one["weight"].whole(low=1, high=100)
        found.append((weight or 1, read(one[key])))
    return found


def _pod_term(field: Field, pod_labels: FrozenDict[str, str]) -> PodTerm:
    field.known_keys(
        (
            "topologyKey labelSelector namespaces namespaceSelector matchLabelKeys "
            "mismatchLabelKeys"
        ).split()
    )
    field["topologyKey"].required()
    return PodTerm(
        field["topologyKey"].text(),
        _narrowed(field, selector(field["labelSelector"]), pod_labels),
        field["namespaces"].texts(),
        selector(field["namespaceSelector"]),
    )


def _narrowed(
    field: Field, chosen: LabelSelector | None, pod_labels: FrozenDict[str, str]
) -> LabelSelector | None:
    """Write label-key matching into the selector, as the API server does."""
    if chosen is None:
        return None
    more = list(chosen.expressions)
    for name, operator in (
        ("matchLabelKeys", Operator.IN),
        ("mismatchLabelKeys", Operator.NOT_IN),
    ):
        for key in field[name].texts():
            if key in pod_labels:
                entry = RequirementSpec(key, operator, (pod_labels[key],))
                if entry not in more:  # The API server has written it there already.
                    more.append(entry)
    return LabelSelector(chosen.match_labels, tuple(more))


def spreads(field: Field) -> tuple[Spread, ...]:
    """Read ``spec.topologySpreadConstraints``."""
    if not field.value:
        return ()
    read = tuple(_spread(one) for one in field.items())
    seen: set[tuple[str, bool]] = set()
    for one, entry in zip(read, field.items(), strict=True):
        if (one.topology_key, one.required) in seen:
            entry["topologyKey"].mistake(
                f"{one.topology_key!r} is there twice with one whenUnsatisfiable"
            )
        seen.add((one.topology_key, one.required))
    return read


def _spread(field: Field) -> Spread:
    field.known_keys(_SPREAD_FIELDS)
    for name in ("topologyKey", "maxSkew", "whenUnsatisfiable"):
        field[name].required()
    wish = field["whenUnsatisfiable"].choice(
        ("DoNotSchedule", "ScheduleAnyway"), "DoNotSchedule", "answer to whenUnsatisfiable"
    )
    least = field["minDomains"].whole(low=1)
    if least is not None and wish != "DoNotSchedule":
        field["minDomains"].mistake("goes with whenUnsatisfiable: DoNotSchedule only")
    return Spread(
        topology_key=field["topologyKey"].text(),
        max_skew=field["maxSkew"].whole(low=1) or 1,
        selector=selector(field["labelSelector"]),
        required=wish == "DoNotSchedule",
        min_domains=least,
        match_label_keys=field["matchLabelKeys"].texts(),
        node_affinity_policy=_policy(field["nodeAffinityPolicy"], NodePolicy.HONOR),
        node_taints_policy=_policy(field["nodeTaintsPolicy"], NodePolicy.IGNORE),
    )


def _policy(field: Field, default: NodePolicy) -> NodePolicy:
    return NodePolicy(field.choice(tuple(NodePolicy), default, "policy"))
