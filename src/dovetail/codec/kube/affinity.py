"""Decoders of node affinity, pod affinity and topology spread constraints."""

from collections.abc import Callable
from typing import TypedDict, TypeVar

from dovetail.codec.fields import Field
from dovetail.codec.kube.requirements import NODE_OPERATORS, decode_requirements, decode_selector
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import (
    NodeInclusionPolicy,
    NodeSelectorTerm,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
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


class Affinity(TypedDict, total=False):
    """Required and preferred terms of ``spec.affinity``: fields of ``PodSpec``."""

    node_terms: tuple[NodeSelectorTerm, ...]
    preferred_node_terms: tuple[PreferredSchedulingTerm, ...]
    affinity: tuple[PodAffinityTerm, ...]
    anti_affinity: tuple[PodAffinityTerm, ...]
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...]
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...]


def decode_affinity(field: Field, pod_labels: FrozenDict[str, str]) -> Affinity:
    """Decode ``spec.affinity``; matchLabelKeys are resolved with the labels of the pod."""
    if not field.value:
        return {}
    field.check_known_keys(("nodeAffinity", "podAffinity", "podAntiAffinity"))
    node, pod_affinity = field["nodeAffinity"], field["podAffinity"]
    anti_affinity = field["podAntiAffinity"]
    for section in (node, pod_affinity, anti_affinity):
        section.check_known_keys((_REQUIRED, _PREFERRED))

    def term(inner: Field) -> PodAffinityTerm:
        return _decode_pod_affinity_term(inner, pod_labels)

    return Affinity(
        node_terms=decode_node_selector(node[_REQUIRED]),
        preferred_node_terms=tuple(
            PreferredSchedulingTerm(weight, inner)
            for weight, inner in _decode_weighted(node[_PREFERRED], "preference", decode_node_selector_term)
        ),
        affinity=tuple(term(item) for item in pod_affinity[_REQUIRED].items()),
        anti_affinity=tuple(term(item) for item in anti_affinity[_REQUIRED].items()),
        preferred_affinity=_decode_weighted_terms(pod_affinity[_PREFERRED], term),
        preferred_anti_affinity=_decode_weighted_terms(anti_affinity[_PREFERRED], term),
    )


def decode_node_selector(field: Field) -> tuple[NodeSelectorTerm, ...]:
    """Decode a node selector: a list of terms, of which one must match."""
    if not field.value:
        return ()
    field.check_known_keys(("nodeSelectorTerms",))
    terms = field["nodeSelectorTerms"]
    if not terms.value:
        terms.add_error("needs at least one term")
    return tuple(decode_node_selector_term(item) for item in terms.items())


def decode_node_selector_term(field: Field) -> NodeSelectorTerm:
    """Decode one term; all of its expressions must match."""
    field.check_known_keys(("matchExpressions", "matchFields"))
    return NodeSelectorTerm(
        decode_requirements(field["matchExpressions"], NODE_OPERATORS),
        decode_requirements(field["matchFields"], NODE_OPERATORS),
    )


def _decode_weighted_terms(
    field: Field, read: Callable[[Field], PodAffinityTerm]
) -> tuple[WeightedPodAffinityTerm, ...]:
    pairs = _decode_weighted(field, "podAffinityTerm", read)
    return tuple(WeightedPodAffinityTerm(weight, term) for weight, term in pairs)


def _decode_weighted(field: Field, key: str, read: Callable[[Field], T]) -> list[tuple[int, T]]:
    weighted = []
    for item in field.items():
        item.check_known_keys(("weight", key))
        item["weight"].check_required()
        item[key].check_required()
        weight = item["weight"].integer(low=1, high=100)
        weighted.append((weight or 1, read(item[key])))
    return weighted


def _decode_pod_affinity_term(field: Field, pod_labels: FrozenDict[str, str]) -> PodAffinityTerm:
    field.check_known_keys(
        ("topologyKey labelSelector namespaces namespaceSelector matchLabelKeys mismatchLabelKeys").split()
    )
    field["topologyKey"].check_required()
    return PodAffinityTerm(
        field["topologyKey"].text(),
        _apply_match_label_keys(field, decode_selector(field["labelSelector"]), pod_labels),
        field["namespaces"].texts(),
        decode_selector(field["namespaceSelector"]),
    )


def _apply_match_label_keys(
    field: Field, chosen: LabelSelector | None, pod_labels: FrozenDict[str, str]
) -> LabelSelector | None:
    """Merge matchLabelKeys and mismatchLabelKeys into the selector, as the API server does."""
    if chosen is None:
        return None
    more = list(chosen.expressions)
    for name, operator in (("matchLabelKeys", Operator.IN), ("mismatchLabelKeys", Operator.NOT_IN)):
        for key in field[name].texts():
            if key in pod_labels:
                entry = RequirementSpec(key, operator, (pod_labels[key],))
                if entry not in more:  # The API server may have merged it already.
                    more.append(entry)
    return LabelSelector(chosen.match_labels, tuple(more))


def decode_topology_spread(field: Field) -> tuple[TopologySpreadConstraint, ...]:
    """Decode ``spec.topologySpreadConstraints``."""
    if not field.value:
        return ()
    read = tuple(_decode_spread_constraint(item) for item in field.items())
    used_keys: set[tuple[str, bool]] = set()
    for constraint, entry in zip(read, field.items(), strict=True):
        if (constraint.topology_key, constraint.required) in used_keys:
            entry["topologyKey"].add_error(
                f"duplicate {constraint.topology_key!r} with the same whenUnsatisfiable"
            )
        used_keys.add((constraint.topology_key, constraint.required))
    return read


def _decode_spread_constraint(field: Field) -> TopologySpreadConstraint:
    field.check_known_keys(_SPREAD_FIELDS)
    for name in ("topologyKey", "maxSkew", "whenUnsatisfiable"):
        field[name].check_required()
    action = field["whenUnsatisfiable"].choice(
        ("DoNotSchedule", "ScheduleAnyway"), "DoNotSchedule", "value of whenUnsatisfiable"
    )
    min_domains = field["minDomains"].integer(low=1)
    if min_domains is not None and action != "DoNotSchedule":
        field["minDomains"].add_error("needs whenUnsatisfiable: DoNotSchedule")
    return TopologySpreadConstraint(
        topology_key=field["topologyKey"].text(),
        max_skew=field["maxSkew"].integer(low=1) or 1,
        selector=decode_selector(field["labelSelector"]),
        required=action == "DoNotSchedule",
        min_domains=min_domains,
        match_label_keys=field["matchLabelKeys"].texts(),
        node_affinity_policy=_decode_inclusion_policy(field["nodeAffinityPolicy"], NodeInclusionPolicy.HONOR),
        node_taints_policy=_decode_inclusion_policy(field["nodeTaintsPolicy"], NodeInclusionPolicy.IGNORE),
    )


def _decode_inclusion_policy(field: Field, default: NodeInclusionPolicy) -> NodeInclusionPolicy:
    return NodeInclusionPolicy(field.choice(tuple(NodeInclusionPolicy), default, "policy"))
