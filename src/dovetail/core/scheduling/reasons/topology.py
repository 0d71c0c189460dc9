"""Topology rules that rule a pod out, and their description."""

from collections import Counter
from copy import copy

import numpy as np

from dovetail.core.scheduling.constraints.compiled_class import CompiledClass
from dovetail.core.scheduling.constraints.topology import RuleKind, TopologyRule
from dovetail.core.scheduling.domains import DomainAssignment, DomainTuple
from dovetail.core.scheduling.placer import Placer
from dovetail.model.kube.taints import Toleration
from dovetail.model.plan import Constraint

_CONSTRAINTS = {
    RuleKind.SPREAD: Constraint.TOPOLOGY_SPREAD,
    RuleKind.AFFINITY: Constraint.POD_AFFINITY,
    RuleKind.ANTI_AFFINITY: Constraint.POD_ANTI_AFFINITY,
}
_TOLERATE_EVERYTHING = (Toleration(operator="Exists"),)


def find_violated_rule(placer: Placer, compiled: CompiledClass) -> TopologyRule | None:
    """Return the rule that rules a class out, if nothing else does."""
    domain_tuples = placer.domain_tuples(compiled) if compiled.topology_keys else []
    return _find_domain_rule(compiled, domain_tuples) or _find_hostname_rule(compiled)


def find_rule_against_new_nodes(placer: Placer, compiled: CompiledClass, pool: int) -> TopologyRule | None:
    """Return a rule that no new node of a NodePool meets, its taints tolerated.

    On an empty node, neither spread nor anti-affinity by hostname is violated.
    """
    for own in compiled.hostname_rules:
        is_affinity = own.rule.kind is RuleKind.AFFINITY
        is_first = own.selects_self and not own.rule.group.node_counts.any()
        if is_affinity and not is_first and not _has_room_beside(placer, compiled, own.rule, pool):
            return own.rule
    if not compiled.topology_keys:
        return None
    space = placer.problem.space
    requirements = space.constraints[compiled.constraint].requirements
    tolerant = copy(compiled)
    tolerant.constraint = space.intern_constraint(requirements, _TOLERATE_EVERYTHING)
    domain_tuples = placer.domain_tuples_of_pool(tolerant, pool)
    assignment = DomainAssignment(tolerant, domain_tuples)
    if any(assignment.violated_rule(domains) is None for domains in domain_tuples):
        return None
    return _find_domain_rule(tolerant, domain_tuples)


def _has_room_beside(placer: Placer, compiled: CompiledClass, rule: TopologyRule, pool: int) -> bool:
    """Return True if a node of a NodePool has pods that a rule selects, and room for one more."""
    nodes, space = placer.problem.nodes, placer.problem.space
    name = placer.problem.tables[pool].pool.name
    for index in np.flatnonzero(rule.group.node_counts).tolist():
        if index >= nodes.existing_count:
            # A new node can still become a larger one.
            if space.states[int(nodes.claim_state[index])].pool == pool:
                return True
        elif nodes.existing_nodes[index].pool == name:
            free = nodes.available[:, index] - nodes.used[:, index]
            if (compiled.requests <= free).all():
                return True
    return False


def _find_domain_rule(compiled: CompiledClass, domain_tuples: list[DomainTuple]) -> TopologyRule | None:
    """Return the rule that rules out most domains; the first of them if several do."""
    assignment = DomainAssignment(compiled, domain_tuples)
    violations = Counter(
        rule for domains in domain_tuples if (rule := assignment.violated_rule(domains)) is not None
    )
    if compiled.topology_keys and not domain_tuples:
        return compiled.domain_rules[0].rule if compiled.domain_rules else None
    return max(violations, key=lambda rule: violations[rule]) if violations else None


def _find_hostname_rule(compiled: CompiledClass) -> TopologyRule | None:
    order = {RuleKind.AFFINITY: 0, RuleKind.ANTI_AFFINITY: 1, RuleKind.SPREAD: 2}
    own_rules = sorted(compiled.hostname_rules, key=lambda own: order[own.rule.kind])
    if own_rules:
        return own_rules[0].rule
    inverse = compiled.inverse_hostname_rules
    return next((rule for rule in inverse if rule.kind is RuleKind.ANTI_AFFINITY), None)


def describe_violation(rule: TopologyRule, compiled: CompiledClass) -> tuple[Constraint, str]:
    """Return the constraint that a rule is, and what it demands."""
    is_inverse = rule not in compiled.rules
    return _CONSTRAINTS[rule.kind], ("rule of other pods: " if is_inverse else "") + _describe_rule(rule)


def _describe_rule(rule: TopologyRule) -> str:
    group = rule.group
    selector = "nothing" if group.selector is None else _describe_selector(group.selector)
    counts = ", ".join(f"{domain}: {n}" for domain, n in sorted(group.counts.items())[:6])
    where = f" ({counts})" if counts and not group.is_hostname else ""
    if rule.kind is RuleKind.SPREAD:
        return f"maximum skew {rule.max_skew} over {group.key} of pods with {selector}{where}"
    if rule.kind is RuleKind.AFFINITY:
        return f"must share {group.key} with pods with {selector}; none run where it fits{where}"
    return f"must not share {group.key} with pods with {selector}{where}"


def _describe_selector(selector: object) -> str:
    labels = getattr(selector, "match_labels", {})
    expressions = getattr(selector, "expressions", ())
    parts = [f"{key}={value}" for key, value in sorted(labels.items())]
    parts += [f"{e.key} {e.operator} {list(e.values)}" for e in expressions]
    return ", ".join(parts) or "any labels"
