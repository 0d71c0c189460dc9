"""Domain assignment: divide a class over topology domains, before nodes.

A *domain tuple* has one value for each topology key of the class: usually just a
zone. With one spread constraint the division has a closed form: fill the domains
with the fewest pods first, like water. Otherwise pods are assigned one at a time.
"""

from dovetail.core.scheduling.constraints.compiled_class import CompiledClass, OwnRule
from dovetail.core.scheduling.constraints.topology import RuleKind, TopologyGroup, TopologyRule
from dovetail.core.scheduling.work import WorkCounter

# One domain per entry of ``CompiledClass.topology_keys``, in that order.
DomainTuple = tuple[str, ...]
NO_LABEL = ""
"""In place of a domain: the node does not have the label."""


class DomainAssignment:
    """Assigns the pods of one class to its domain tuples."""

    def __init__(
        self, compiled: CompiledClass, domain_tuples: list[DomainTuple], work: WorkCounter | None = None
    ) -> None:
        self._compiled = compiled
        self._work = work or WorkCounter()
        self._position = {key: index for index, key in enumerate(compiled.topology_keys)}
        self.domain_tuples = domain_tuples
        """In order of preference: of equally full ones, the first is used first."""
        self.full: set[DomainTuple] = set()
        """Domain tuples that turned out to have no room."""
        self._is_allowed: dict[str, dict[str, bool]] = {}
        """Topology key → domain → True if the required node terms allow it."""
        self.conservative = False
        """A domain may turn out to be full: assign conservatively.

        Only as many pods as keep every skew even if no other domain takes any.
        """

    def assign(self, count: int) -> list[tuple[DomainTuple, int]]:
        """Return (domain tuple, pods) for up to ``count`` pods; fewer if rules forbid more."""
        shares = self._assign(count)
        if not self.conservative:
            return shares
        return [(domains, min(share, self._conservative_share(domains))) for domains, share in shares]

    def _conservative_share(self, domains: DomainTuple) -> int:
        """Return how many pods a domain tuple may take while no other takes any.

        At least 1: the rules allow one pod now, or the tuple were not a candidate.
        """
        share = 1 << 40
        for rule, selects_self in self._compiled.domain_rules:
            if rule.kind is RuleKind.SPREAD and selects_self:
                count_here = rule.group.counts.get(domains[self._position[rule.group.key]], 0)
                share = min(share, self.min_count(rule) + rule.max_skew - count_here)
        return max(1, share)

    def _assign(self, count: int) -> list[tuple[DomainTuple, int]]:
        self._charge_rules(len(self.domain_tuples))
        not_full = [domains for domains in self.domain_tuples if domains not in self.full]
        domain_tuples = not_full
        if self._compiled.domain_rules or self._compiled.inverse_domain_rules:
            domain_tuples = [domains for domains in not_full if self._allowed(domains)]
        if not domain_tuples:
            return []
        # A node without the label is in no domain, so it violates nothing.
        unlabelled = [domains for domains in domain_tuples if NO_LABEL in domains]
        if unlabelled and len(self._compiled.topology_keys) == 1:
            return [(unlabelled[0], count)]
        domain_tuples = unlabelled or domain_tuples
        # The first pod of an affinity group decides the domain for all others.
        starts_affinity = self._starts_affinity()
        if starts_affinity:
            domain_tuples = domain_tuples[:1]
        own_spreads, once_each = self._compiled.own_spreads, self._compiled.once_per_domain
        groups = {id(own.rule.group) for own in own_spreads}
        if len(self._compiled.topology_keys) == 1 and len(groups) <= 1 and not once_each:
            group = own_spreads[0].rule.group if own_spreads else self._shared_group()
            if group is None:
                # No group counts these pods: the first allowed domain takes all of them.
                return [(min(domain_tuples, key=self._pods_in), count)]
            if own_spreads and not unlabelled and not self.conservative and not starts_affinity:
                # Domains that are too full for one pod now take their share of many.
                domain_tuples = [domains for domains in not_full if self._allowed_later(domains)]
            rules = [own.rule for own in own_spreads]
            return self._assign_by_water_filling(domain_tuples, group, rules, count)
        return self._assign_one_by_one(domain_tuples, own_spreads, count, once_each=once_each)

    def _pods_in(self, domains: DomainTuple) -> int:
        """Return the pods that the rules of the class count in a domain tuple."""
        rules = [own.rule for own in self._compiled.domain_rules]
        return sum(r.group.counts.get(domains[self._position[r.group.key]], 0) for r in rules)

    def _shared_group(self) -> TopologyGroup | None:
        """Return a group that counts these pods, preferably for a spread constraint.

        The class has no spread of its own. Levelling by the group of another class
        keeps the skew of that class.
        """
        groups = self._compiled.domain_groups
        for group in groups:
            if any(rule.kind is RuleKind.SPREAD for rule in group.rules):
                return group
        return groups[0] if groups else None

    def _allowed(self, domains: DomainTuple) -> bool:
        return self.violated_rule(domains) is None

    def _allowed_later(self, domains: DomainTuple) -> bool:
        """Return True if a domain tuple is allowed once its own spreads have levelled it."""
        return self._find_violated(domains, skip_own_spreads=True) is None

    def violated_rule(self, domains: DomainTuple) -> TopologyRule | None:
        """Return the first rule that one more pod would violate, or None."""
        return self._find_violated(domains, skip_own_spreads=False)

    def _find_violated(self, domains: DomainTuple, *, skip_own_spreads: bool) -> TopologyRule | None:
        for own in self._compiled.domain_rules:
            domain = domains[self._position[own.rule.group.key]]
            if skip_own_spreads and own.rule.kind is RuleKind.SPREAD and own.selects_self:
                if domain not in own.rule.group.counts:
                    return own.rule
            elif not self._allows(own, domain):
                return own.rule
        for rule in self._compiled.inverse_domain_rules:
            if rule.owners.get(domains[self._position[rule.group.key]], 0) > 0:
                return rule
        return None

    def _allows(self, own: OwnRule, domain: str) -> bool:
        """Return True if a rule of the class allows one more pod in a domain."""
        rule = own.rule
        count_here = rule.group.counts.get(domain, 0)
        if rule.kind is RuleKind.ANTI_AFFINITY:
            return count_here == 0
        if rule.kind is RuleKind.AFFINITY:
            return count_here > 0 or self._may_be_first(own)
        if domain not in rule.group.counts:
            return False
        return count_here + own.selects_self - self.min_count(rule) <= rule.max_skew

    def _may_be_first(self, own: OwnRule) -> bool:
        """Return True if the pod matches its own term and no matching pod runs anywhere.

        kube-scheduler makes the same exception for the first pod of a group. It counts
        over all required terms: a matching pod on a node that lacks the label of one
        term ends the exception for every term.
        """
        if not own.selects_self:
            return False
        groups = [own.rule.group] if own.rule.soft else self._compiled.affinity_groups
        return not any(any(group.counts.values()) or group.node_counts.any() for group in groups)

    def _starts_affinity(self) -> bool:
        rules = self._compiled.domain_rules if self._compiled.has_domain_affinity else ()
        return any(own.rule.kind is RuleKind.AFFINITY and self._may_be_first(own) for own in rules)

    def min_count(self, rule: TopologyRule) -> int:
        """Return the count from which skew is measured; 0 with fewer than minDomains."""
        eligible = self.eligible_domains(rule)
        if len(eligible) < rule.min_domains:
            return 0
        return min((rule.group.counts[d] for d in eligible), default=0)

    def eligible_domains(self, rule: TopologyRule) -> list[str]:
        """Return the domains that a spread counts: those that the class may be in."""
        counts = rule.group.counts
        if not rule.honors_affinity:
            return list(counts)
        required_terms = self._compiled.required_terms
        if not required_terms:
            return list(counts)
        key = rule.group.key
        is_allowed = self._is_allowed.setdefault(key, {})
        for domain in counts:
            if domain not in is_allowed:
                is_allowed[domain] = any(term.get_or_exists(key).has(domain) for term in required_terms)
        return [domain for domain in counts if is_allowed[domain]]

    def _assign_by_water_filling(
        self, domain_tuples: list[DomainTuple], group: TopologyGroup, rules: list[TopologyRule], count: int
    ) -> list[tuple[DomainTuple, int]]:
        """Level the counts of one group, as far as every skew allows."""
        domains = [domain_tuple[0] for domain_tuple in domain_tuples]
        level = _water_fill({d: group.counts.get(d, 0) for d in domains}, count)
        for rule in rules:
            # Domains that cannot take pods keep their counts and limit all others.
            fixed_counts = [group.counts[d] for d in self.eligible_domains(rule) if d not in level]
            if len(self.eligible_domains(rule)) < rule.min_domains:
                fixed_counts.append(0)
            if fixed_counts:
                ceiling = min(fixed_counts) + rule.max_skew
                level = {d: max(0, min(k, ceiling - group.counts[d])) for d, k in level.items()}
        return [((domain,), share) for domain, share in level.items() if share > 0]

    def _assign_one_by_one(
        self, domain_tuples: list[DomainTuple], spreads: list[OwnRule], count: int, *, once_each: bool
    ) -> list[tuple[DomainTuple, int]]:
        """Assign pods one at a time: several spreads, several keys, or anti-affinity."""
        groups = {id(group): group for group in self._compiled.domain_groups if group.key in self._position}
        saved_counts = {number: dict(group.counts) for number, group in groups.items()}
        assigned: dict[DomainTuple, int] = {}
        try:
            for _ in range(min(count, len(domain_tuples)) if once_each else count):
                self._charge_rules(len(domain_tuples))
                allowed_tuples = [domains for domains in domain_tuples if self._allowed(domains)]
                if not allowed_tuples:
                    break
                best = min(allowed_tuples, key=lambda domains: self._load(domains, spreads))
                assigned[best] = assigned.get(best, 0) + 1
                for group in groups.values():
                    domain = best[self._position[group.key]]
                    if domain != NO_LABEL:
                        group.counts[domain] = group.counts.get(domain, 0) + 1
        finally:
            # Counts change for good when the pods are placed.
            for number, group in groups.items():
                group.counts = saved_counts[number]
        return sorted(assigned.items())

    def _charge_rules(self, domain_tuples: int) -> None:
        """Count the steps to compare domain tuples with all rules."""
        compiled = self._compiled
        rules = len(compiled.domain_rules) + len(compiled.inverse_domain_rules)
        self._work.charge(domain_tuples * (4 + rules) // 32)

    def _load(self, domains: DomainTuple, spreads: list[OwnRule]) -> tuple[int, ...]:
        """Return the sort key of a domain tuple: fewest pods first."""
        groups = [own.rule.group for own in spreads]
        counts = [group.counts.get(domains[self._position[group.key]], 0) for group in groups]
        # Spreads of other classes come second: they count these pods, but do not bind them.
        other_counts = sum(
            group.counts.get(domains[self._position[group.key]], 0)
            for group in self._compiled.domain_groups
            if group.key in self._position and any(r.kind is RuleKind.SPREAD for r in group.rules)
        )
        return (sum(counts), *counts, other_counts)


def _water_fill(counts: dict[str, int], count: int) -> dict[str, int]:
    """Distribute ``count`` pods so that the lowest counts are raised evenly.

    Return domain → pods added. Of equal domains, the first given comes first.
    """
    order = sorted(counts, key=counts.__getitem__)
    level = counts[order[0]]
    # Raise the ``levels`` lowest domains together up to the next higher count.
    for levels in range(1, len(order) + 1):
        last = levels == len(order)
        room = 0 if last else (counts[order[levels]] - level) * levels
        if last or count <= room:
            each, extra = divmod(count, levels)
            return {
                domain: level + each + (position < extra) - counts[domain]
                for position, domain in enumerate(order[:levels])
            }
        count -= room
        level = counts[order[levels]]
    return {}
