"""Placer: place one class, preference by preference and domain by domain."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import INFEASIBLE
from dovetail.core.scheduling.constraints.compiled_class import CompiledClass
from dovetail.core.scheduling.constraints.topology import EVERY_NODE, TopologyGroup
from dovetail.core.scheduling.deferred import DeferredPods
from dovetail.core.scheduling.domains import NO_LABEL, DomainAssignment, DomainTuple
from dovetail.core.scheduling.placement.state import PlacementLog
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.core.scheduling.pods.volumes import NO_VOLUMES
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.work import WorkLimitExceededError
from dovetail.model import labels as label_keys
from dovetail.model.kube.requirements import Requirement, Requirements

_NODES_PER_STEP = 2048
"""Nodes on which one hostname rule is checked in one step."""
_MAX_DOMAIN_TUPLES = 4096
"""Domain tuples of a class; each is compared with all its rules for every pod."""
_MAX_DOMAINS = 16_384
"""Domains in all tuples of a class: with many topology keys, there are fewer tuples."""


class Placer:
    """Places classes and keeps the counts of topology groups up to date.

    ``defer`` also defers pods with topology keys. They are counted in their domain
    at once and get their node later, so limits may break the count (``has_shortfall``).
    """

    def __init__(self, problem: Problem, *, defer: bool) -> None:
        self.problem = problem
        self.deferred = DeferredPods(problem)
        self.defer_all = defer
        self.has_shortfall = False
        """Deferred pods that were already counted in a domain got no node."""
        self.too_complex: set[int] = set()
        """Ids of classes that were given up: they need more steps than their limit."""
        self.postponed: set[int] = set()
        """Ids of classes with pods that were not considered in time."""
        self._considered: set[int] = set()
        self._compiled_classes: dict[tuple[int, int], CompiledClass] = {}
        self._fitting_pools: dict[int, frozenset[int]] = {}
        self._feasible: dict[int, bool] = {}
        self._constraint_cache: dict[tuple[int, tuple[str, ...], DomainTuple], list[int]] = {}
        self._label_values: dict[str, set[str]] = {}
        self._domain_tuple_cache: dict[tuple[int, int, tuple[Requirements, ...]], list[DomainTuple]] = {}
        self._interned_tuples: dict[tuple[DomainTuple, ...], list[DomainTuple]] = {}
        self._smallest_nodes: dict[tuple[int, int], tuple[int, list[float]] | None] = {}
        self._is_unlimited = all(each.is_unlimited for each in problem.placement.limit_headrooms)
        self._has_room: dict[tuple[int, tuple[str, ...], int, int], bool] = {}

    def compile_class(self, pod_class: PodClass, level: int) -> CompiledClass:
        """Return a class compiled with its ``level``-th relaxed spec; cached."""
        key = (id(pod_class), level)
        compiled = self._compiled_classes.get(key)
        if compiled is None:
            spec = self.problem.relaxed_specs[id(pod_class)][level]
            compiled = self._compiled_classes[key] = self.problem.compile_class(pod_class, spec)
        return compiled

    def place(self, pod_class: PodClass) -> int:
        """Place unplaced pods, dropping preferences only for those that need it.

        Return the number of pods placed. Pods that are placed before the class exceeds
        its limit of steps keep their nodes.
        """
        before = pod_class.placed
        self._considered.add(id(pod_class))
        if id(pod_class) in self.too_complex or self._fits_no_node(pod_class):
            return 0
        try:
            with self.problem.work.limit_class():
                for level in range(len(self.problem.relaxed_specs[id(pod_class)])):
                    if not pod_class.unplaced:
                        break
                    self._place_level(self.compile_class(pod_class, level), pod_class)
        except WorkLimitExceededError:
            self.too_complex.add(id(pod_class))
        return pod_class.placed - before

    def postpone(self, pod_class: PodClass) -> None:
        """Leave a class that was not considered yet to the next pass."""
        if id(pod_class) not in self._considered:
            self.postponed.add(id(pod_class))

    def _fits_no_node(self, pod_class: PodClass) -> bool:
        """Return True if labels and taints exclude every node, even without preferences.

        A class with many preferences would otherwise be tried once for each of them. With
        several node affinity terms, the last spec is not the one that fits most nodes.
        """
        specs = self.problem.relaxed_specs[id(pod_class)]
        if len(specs) == 1 or len(pod_class.spec.node_terms) > 1:
            return False
        compiled = self.compile_class(pod_class, len(specs) - 1)
        return not self._is_domain_feasible(compiled, ())

    def fitting_pools(self, pod_class: PodClass) -> frozenset[int]:
        """Return the NodePools (indexes) whose limits allow a new node for a pod; cached.

        Preferences do not count. The first call decides: limits are used up later.
        """
        pools = self._fitting_pools.get(id(pod_class))
        if pools is None:
            space, placement = self.problem.space, self.problem.placement
            last_level = len(self.problem.relaxed_specs[id(pod_class)]) - 1
            compiled = self.compile_class(pod_class, last_level)
            constraints = self._constraints(compiled, ())
            states = {space.narrow(root, constraint) for constraint in constraints for root in space.roots}
            fitting = set()
            for state in states - {INFEASIBLE}:
                pool = space.states[state].pool
                rows = placement.limit_headrooms[pool].allowed_rows()
                if (rows & (placement.pods_per_empty_claim(compiled, state) >= 1)).any():
                    fitting.add(pool)
            pools = self._fitting_pools[id(pod_class)] = frozenset(fitting)
        return pools

    def _place_level(self, compiled: CompiledClass, pod_class: PodClass) -> None:
        """Place unplaced pods of one relaxed spec, divided over domains."""
        if not compiled.topology_keys:
            pod_class.placed += self._place_in_domain(compiled, (), pod_class.unplaced)
            return
        assignment = DomainAssignment(compiled, self.domain_tuples(compiled), self.problem.work)
        tuples, count = assignment.domain_tuples, pod_class.unplaced
        assignment.conservative = not self._has_room_for_all(compiled, tuples, count)
        while pod_class.unplaced:
            shares = assignment.assign(pod_class.unplaced)
            if not shares:
                break
            for domains, share in shares:
                newly_placed = self._place_in_domain(compiled, domains, share)
                pod_class.placed += newly_placed
                if newly_placed < share:
                    # No more room here: assign the rest again, without this domain.
                    assignment.full.add(domains)
                    break

    def domain_tuples(self, compiled: CompiledClass) -> list[DomainTuple]:
        """Return the feasible domain tuples, cheapest new node first; ties by name."""
        cache_key = (compiled.constraint, id(compiled.topology), tuple(compiled.volume_topologies))
        domain_tuples = self._domain_tuple_cache.get(cache_key)
        if domain_tuples is None:
            most = min(_MAX_DOMAIN_TUPLES, _MAX_DOMAINS // len(compiled.topology_keys) ** 2 + 1)
            domain_tuples = list(islice(self._feasible_tuples(compiled), most))
            domain_tuples.sort(key=lambda domains: (self._cheapest_price(compiled, domains), domains))
            domain_tuples = self._interned_tuples.setdefault(tuple(domain_tuples), domain_tuples)
            self._domain_tuple_cache[cache_key] = domain_tuples
        return domain_tuples

    def domain_tuples_of_pool(self, compiled: CompiledClass, pool: int) -> list[DomainTuple]:
        """Return the domain tuples that new nodes of a NodePool can be in, by its index."""
        space = self.problem.space
        return [
            domains
            for domains in self.domain_tuples(compiled)
            if any(
                space.narrow(space.roots[pool], constraint) != INFEASIBLE
                for constraint in self._constraints(compiled, domains)
            )
        ]

    def _feasible_tuples(self, compiled: CompiledClass) -> Iterator[DomainTuple]:
        """Yield the domain tuples that some node can be in, in the order of their names.

        Key by key: domains of further keys are not tried for what is infeasible already.
        All combinations of a few keys with hundreds of instance types are billions.
        """
        candidates = [self._candidate_domains(compiled, key) for key in compiled.topology_keys]
        if not all(candidates):
            return
        stack: list[tuple[DomainTuple, Iterator[str]]] = [((), iter(candidates[0]))]
        while stack:
            first_domains, remaining = stack[-1]
            domain = next(remaining, None)
            if domain is None:
                stack.pop()
                continue
            domains = (*first_domains, domain)
            if not self._is_domain_feasible(compiled, domains):
                continue
            if len(domains) == len(candidates):
                yield domains
            else:
                stack.append((domains, iter(candidates[len(domains)])))

    def _cheapest_price(self, compiled: CompiledClass, domains: DomainTuple) -> float:
        """Return the price of the cheapest new node in a domain tuple."""
        space = self.problem.space
        constraints = self._constraints(compiled, domains)
        states = [space.narrow(root, constraint) for constraint in constraints for root in space.roots]
        return min([space.lowest_cost(state) for state in states or [INFEASIBLE]])

    def _has_room_for_all(self, compiled: CompiledClass, tuples: list[DomainTuple], count: int) -> bool:
        """Return True if limits surely allow new nodes for all pods in each domain tuple."""
        if not self._is_unlimited or compiled.volume_topologies is not NO_VOLUMES.topologies:
            return all(self._has_room_for(compiled, domains, count) for domains in tuples)
        if compiled.has_hostname_affinity or compiled.port_bits:
            return not tuples
        # Without limits the number of pods does not matter, and domain tuples are interned.
        key = (compiled.constraint, compiled.topology_keys, id(tuples), compiled.requests_id)
        has_room = self._has_room.get(key)
        if has_room is None:
            has_room = all(self._has_room_for(compiled, domains, count) for domains in tuples)
            self._has_room[key] = has_room
        return has_room

    def _has_room_for(self, compiled: CompiledClass, domains: DomainTuple, count: int) -> bool:
        """Return True if limits surely allow new nodes for all pods in a domain tuple.

        Each pod is assumed to need a node of its own, of the smallest type.
        """
        if compiled.has_hostname_affinity or compiled.port_bits:
            return False
        for constraint in self._constraints(compiled, domains):
            key = (constraint, compiled.requests_id)
            if key not in self._smallest_nodes:
                self._smallest_nodes[key] = self._find_smallest_node(compiled, constraint)
            smallest = self._smallest_nodes[key]
            if smallest is not None:
                pool, capacity = smallest
                return self.problem.placement.limit_headrooms[pool].covers(capacity, count)
        return False

    def _find_smallest_node(self, compiled: CompiledClass, constraint: int) -> tuple[int, list[float]] | None:
        """Return (pool, capacity) of the smallest node for a pod; None if uncertain."""
        space, placement = self.problem.space, self.problem.placement
        for root in space.roots:
            state = space.narrow(root, constraint)
            if state != INFEASIBLE:  # Reserved slots are limited.
                state = placement.reservations.exclude_reserved(state)
            if state == INFEASIBLE:
                continue
            pool = space.states[state].pool
            if placement.min_values[pool].required or not placement.fits_empty_claim(compiled, state):
                continue
            if placement.limit_headrooms[pool].is_unlimited:
                return pool, []
            fitting = np.flatnonzero(placement.pods_per_empty_claim(compiled, state) >= 1)
            capacity = placement.limit_headrooms[pool].capacity[fitting]
            smallest: list[float] = capacity[int(np.argmin(capacity.sum(axis=1)))].tolist()
            return pool, smallest
        return None

    def _candidate_domains(self, compiled: CompiledClass, key: str) -> list[str]:
        """Return the domains of a key that a class may be placed in, by name."""
        values: set[str] = set()
        for group in self._groups_on(compiled, key):
            values |= set(group.counts)
        if key not in compiled.own_keys:
            # Groups of other classes may count some domains only; this class may use all.
            values |= self._all_values(key)
        requirement = self.problem.space.constraints[compiled.constraint].requirements.get(key)
        allowed = sorted(value for value in values if requirement is None or requirement.has(value))
        if key in compiled.own_keys:
            return allowed
        # Only groups of other classes count it here: a node without the label is fine too.
        may_be_absent = key not in label_keys.WELL_KNOWN or not allowed
        return [NO_LABEL, *allowed] if may_be_absent else allowed

    def _all_values(self, key: str) -> set[str]:
        """Return all values that a label has on existing nodes or could have on new ones."""
        values = self._label_values.get(key)
        if values is None:
            values = {value for table in self.problem.tables for value in table.label_values(key)}
            for labels, _ in self.problem.nodes.profiles:
                if key in labels:
                    values |= labels[key].values
            self._label_values[key] = values
        return values

    @staticmethod
    def _groups_on(compiled: CompiledClass, key: str) -> Iterable[TopologyGroup]:
        """Return the topology groups of a class on one key."""
        groups = chain((own.rule.group for own in compiled.domain_rules), compiled.domain_groups)
        return (group for group in groups if group.key == key)

    def _constraints(self, compiled: CompiledClass, domains: DomainTuple) -> list[int]:
        """Return one node constraint per volume topology, for nodes in a domain tuple."""
        if compiled.volume_topologies is not NO_VOLUMES.topologies:
            return self._build_constraints(compiled, domains)
        key = (compiled.constraint, compiled.topology_keys, domains)
        constraints = self._constraint_cache.get(key)
        if constraints is None:
            constraints = self._constraint_cache[key] = self._build_constraints(compiled, domains)
        return constraints

    def _build_constraints(self, compiled: CompiledClass, domains: DomainTuple) -> list[int]:
        extend, constraint = self.problem.space.extend_constraint, compiled.constraint
        self.problem.work.charge(1 + len(domains) // 4)
        if domains:
            in_domains = Requirements.from_requirements(
                Requirement.one_of(key, domain) if domain else Requirement.does_not_exist(key)
                for key, domain in zip(compiled.topology_keys, domains, strict=False)
            )
            constraint = extend(constraint, in_domains)
        return [extend(constraint, of_volumes) for of_volumes in compiled.volume_topologies]

    def _is_domain_feasible(self, compiled: CompiledClass, domains: DomainTuple) -> bool:
        return any(self._is_feasible(constraint) for constraint in self._constraints(compiled, domains))

    def _is_feasible(self, constraint: int) -> bool:
        """Return True if a new claim or an existing node can meet a constraint."""
        feasible = self._feasible.get(constraint)
        if feasible is None:
            space = self.problem.space
            required = space.constraints[constraint]
            pools, profiles = sum(required.tolerates_pool), len(self.problem.nodes.profiles)
            self.problem.work.charge((pools + profiles) * (4 + len(required.requirements)) // 16)
            feasible = any(space.narrow(root, constraint) != INFEASIBLE for root in space.roots) or bool(
                self.problem.nodes.nodes_matching(constraint).any()
            )
            self._feasible[constraint] = feasible
        return feasible

    def _place_in_domain(self, compiled: CompiledClass, domains: DomainTuple, count: int) -> int:
        """Place or defer up to ``count`` pods in a domain tuple; return how many."""
        packer = self.problem.packer
        rules = len(compiled.hostname_rules) + len(compiled.inverse_hostname_rules)
        self.problem.work.charge(4 + rules * (1 + self.problem.nodes.count // _NODES_PER_STEP) // 2)
        placed = 0
        for constraint in self._constraints(compiled, domains):
            log_start, can_defer = len(packer.placement.log), self._can_defer(compiled)
            placed += packer.place(compiled, constraint, count - placed, open_new=not can_defer)
            self._count_placed(compiled, domains, packer.placement.log[log_start:])
            if can_defer and placed < count:
                placed += self._defer(compiled, domains, constraint, count - placed)
            if placed >= count:
                break
        return placed

    def _can_defer(self, compiled: CompiledClass) -> bool:
        """Return True if pods may be deferred to the fleet search."""
        fewest = self.problem.placement.fewest_nodes
        return compiled.is_independent and not fewest and (self.defer_all or not compiled.topology_keys)

    def _defer(self, compiled: CompiledClass, domains: DomainTuple, constraint: int, count: int) -> int:
        """Defer pods to the fleet search, or place them now if that is impossible."""
        state = self.deferred.try_defer(compiled, constraint, domains, count)
        if state is not None:
            self._count_pods(compiled, domains, count, state=state)
            return count
        packer = self.problem.packer
        log_start = len(packer.placement.log)
        placed = packer.upsize_or_open(compiled, constraint, count)
        self._count_placed(compiled, domains, packer.placement.log[log_start:])
        return placed

    def open_fleets(self) -> None:
        """Run the fleet searches; take pods without a node out of all counts again."""
        for batch, pods, is_postponed in self.deferred.open_fleets():
            self._count_pods(batch.compiled, batch.domains, -pods, state=batch.states[0])
            batch.compiled.pod_class.placed -= pods
            if is_postponed:
                self.postponed.add(id(batch.compiled.pod_class))
            self.has_shortfall |= bool(batch.compiled.topology_keys)

    # -- counting ---------------------------------------------------------------------

    def _count_placed(self, compiled: CompiledClass, domains: DomainTuple, log: PlacementLog) -> None:
        """Count the pods of new log entries in their domains."""
        if not log or not (compiled.domain_groups or compiled.domain_rules):
            return
        if compiled.counts_every_node:
            self._count_pods(compiled, domains, sum([sum(counts) for _, _, counts in log]))
            return
        for _, indexes, counts in log:
            for index, count in zip(indexes, counts, strict=True):
                self._count_pods(compiled, domains, count, index=index)

    def _count_pods(
        self,
        compiled: CompiledClass,
        domains: DomainTuple,
        count: int,
        *,
        index: int | None = None,
        state: int | None = None,
    ) -> None:
        """Add ``count`` (may be negative) pods in a domain tuple to all groups and rules."""
        domain_by_key = dict(zip(compiled.topology_keys, domains, strict=True))
        for group in compiled.domain_groups:
            domain = domain_by_key.get(group.key)
            if domain and self._is_counted(group, index, state):
                group.counts[domain] = group.counts.get(domain, 0) + count
        for rule, _ in compiled.domain_rules:
            domain = domain_by_key.get(rule.group.key)
            if domain:
                rule.owners[domain] = rule.owners.get(domain, 0) + count

    def _is_counted(self, group: TopologyGroup, index: int | None, state: int | None) -> bool:
        """Return True if a group counts pods on this node or claim."""
        if group.node_filter == EVERY_NODE:
            return True
        problem = self.problem
        if index is not None and index < problem.nodes.existing_count:
            labels, taints = problem.nodes.profiles[int(problem.nodes.profile_index[index])]
            return group.node_filter.matches(labels, taints, new=False)
        if state is None:
            state = int(problem.nodes.claim_state[index]) if index is not None else INFEASIBLE
        if state == INFEASIBLE:
            return True
        claim_state = problem.space.states[state]
        taints = problem.tables[claim_state.pool].pool.template.taints
        return group.node_filter.matches(claim_state.requirements, taints, new=True)
