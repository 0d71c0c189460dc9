"""Consolidation evaluator: savings of removing nodes, after the commands so far."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from dovetail.core.disruption.candidates import NO_OFFERING_PRICE, Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.consolidation.balanced import PoolTotals, meets_balanced_policy
from dovetail.core.disruption.consolidation.batch_estimate import BatchEstimator
from dovetail.core.disruption.consolidation.estimate import INFINITE_PRICE, Estimate, Estimator
from dovetail.core.disruption.consolidation.eviction_price import EvictionPrices
from dovetail.core.disruption.consolidation.replacement_price import (
    SPOT_TO_SPOT_DISABLED,
    OfferingPriceCache,
    PricedReplacements,
    narrow_replacements,
)
from dovetail.core.disruption.simulation import SchedulingSimulation, SimulationOutcome
from dovetail.core.scheduling.plan_cost import is_better
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import ExistingPlacement, PlannedNode
from dovetail.model.settings import ConsolidationSettings

_TOLERANCE: Final = 1e-9
"""USD per hour by which a saving may miss a threshold."""


class Evaluation(NamedTuple):
    """Saving of removing nodes, or the reason to keep them."""

    saving: float = 0.0
    """USD per hour, with node costs; an upper bound if a node has to be launched."""
    code: str = ""
    """Code of the keep reason; empty: the nodes can be removed."""
    message: str = ""
    estimate: Estimate | None = None
    """Placement of the pods, if it is exact and no node has to be launched."""
    is_upper_bound: bool = False
    """From an inexact estimate: a simulation must confirm the saving."""


class ConsolidationEvaluator:
    """Evaluates candidates in the cluster as it is after the commands applied so far."""

    def __init__(
        self,
        simulation: SchedulingSimulation,
        settings: ConsolidationSettings,
        totals: Mapping[str, PoolTotals],
        *,
        eviction_prices: EvictionPrices | None = None,
        allow_existing_types: bool = False,
    ) -> None:
        """With ``allow_existing_types``, several replacements may have types of removed nodes."""
        self._eviction_prices = eviction_prices
        self._simulation = simulation
        self._allow_existing_types = allow_existing_types
        self._settings = settings
        self._totals = totals
        self._offering_prices = OfferingPriceCache()
        self.estimator = Estimator(simulation)
        self.min_saving_per_cost = settings.min_saving_per_pod
        self.version = 0
        """Increases with every command; evaluations of older versions are stale."""

    def estimate_all_savings(self, candidates: Iterable[Candidate]) -> dict[str, Evaluation]:
        """Return ``estimate_savings`` of every candidate, most of them in one batch."""
        by_index = {self._simulation.node_indexes[candidate.name]: candidate for candidate in candidates}
        evaluations = self._estimate_batch(by_index, with_spreads=False)
        limited = {
            node: candidate
            for node, candidate in by_index.items()
            if self._may_be_limited(node, evaluations[candidate.name])
        }
        return evaluations | self._estimate_batch(limited, with_spreads=True)

    def _estimate_batch(
        self, candidates: Mapping[int, Candidate], *, with_spreads: bool
    ) -> dict[str, Evaluation]:
        bounded = [node for node in candidates if self.estimator.is_bound([node])]
        estimates = BatchEstimator(self.estimator, bounded, with_spreads=with_spreads).estimate_all()
        return {
            candidate.name: self._evaluate_estimate(candidate, node, estimates[node])
            if node in estimates
            else self._estimate_alone(candidate, node, with_spreads=with_spreads)
            for node, candidate in candidates.items()
        }

    def estimate_savings(self, candidate: Candidate) -> Evaluation:
        """Return an upper bound of the saving of removing one node.

        In a well filled cluster an estimate rejects nearly every candidate, which
        saves its simulation. Spreads are respected only if it does not: that takes longer.
        """
        node = self._simulation.node_indexes[candidate.name]
        evaluation = self._estimate_alone(candidate, node, with_spreads=False)
        if self._may_be_limited(node, evaluation):
            return self._estimate_alone(candidate, node, with_spreads=True)
        return evaluation

    def _estimate_alone(self, candidate: Candidate, node: int, *, with_spreads: bool) -> Evaluation:
        if not self.estimator.is_bound([node]):
            return self.simulate_savings(candidate)
        estimate = self.estimator.estimate([node], with_spreads=with_spreads)
        return self._evaluate_estimate(candidate, node, estimate)

    def _may_be_limited(self, node: int, evaluation: Evaluation) -> bool:
        """Return True if spreads may prevent what an estimate without them allows."""
        return not evaluation.code and evaluation.is_upper_bound and self.estimator.has_spreads(node)

    def _evaluate_estimate(self, candidate: Candidate, node: int, estimate: Estimate) -> Evaluation:
        # Estimates do not price the CPU credits of nodes that receive pods.
        is_exact = not self._simulation.has_surplus_prices and self.estimator.is_exact(
            [node], needs_new_node=estimate.price > 0
        )
        if estimate.uninitialized_node >= 0:
            uninitialized = self._simulation.problem.nodes.existing_nodes[estimate.uninitialized_node]
            return self._reject_uninitialized(uninitialized.name)
        if estimate.price == 0.0:
            exact = estimate if is_exact else None
            accepted = Evaluation(candidate.cost, estimate=exact, is_upper_bound=not is_exact)
            return self._check_thresholds([candidate], candidate.price, accepted)
        if estimate.unplaceable_shape >= 0:
            return Evaluation(code="no-place", message=self._get_blocked_reason([node]))
        if estimate.price == INFINITE_PRICE and not is_exact:
            return self.simulate_savings(candidate)
        rejection = self._reject_price(candidate, estimate)
        if rejection is not None:
            return rejection
        price_saving = candidate.price - estimate.price
        saving = price_saving + candidate.node_cost - estimate.node_cost
        accepted = Evaluation(saving, is_upper_bound=not is_exact)
        return self._check_thresholds([candidate], price_saving, accepted)

    def _reject_price(self, candidate: Candidate, estimate: Estimate) -> Evaluation | None:
        """Return why the price alone rules out the estimated replacement, or None."""
        if candidate.price <= 0:
            return Evaluation(code="no-price", message=NO_OFFERING_PRICE)
        if estimate.price == INFINITE_PRICE:
            message = "its pods would need more than one new node"
            return Evaluation(code="not-cheaper", message=message)
        if estimate.price >= candidate.price:
            message = (
                f"the cheapest new node for its pods, {estimate.instance_type}, costs "
                f"{estimate.price:.4f} USD per hour; it costs {candidate.price:.4f}"
            )
            return Evaluation(code="not-cheaper", message=message)
        if estimate.may_be_spot and self.is_spot_to_spot_disabled([candidate]):
            return Evaluation(code="spot-to-spot", message=SPOT_TO_SPOT_DISABLED)
        return None

    def simulate_savings(self, candidate: Candidate) -> Evaluation:
        """Return the saving by scheduling simulation: some ten times slower."""
        return self.simulate_set([candidate], fewest_nodes=True)

    def _get_blocked_reason(self, removed: list[int]) -> str:
        return self._simulation.simulate(removed, fewest_nodes=True).blocked_reason

    @staticmethod
    def _reject_uninitialized(name: str) -> Evaluation:
        message = f"its pods would go to Node {name}, which is not initialized"
        return Evaluation(code="not-ready", message=message)

    # -- Apply commands --------------------------------------------------------------------

    def apply(self, candidates: Sequence[Candidate], evaluation: Evaluation) -> Command | Evaluation:
        """Apply the removal of nodes; if it is rejected after all, return why."""
        if evaluation.estimate is not None:
            (candidate,) = candidates
            return self._apply_estimate(candidate, evaluation.estimate)
        return self.apply_simulated(candidates, fewest_nodes=True)

    def apply_simulated(
        self,
        candidates: Sequence[Candidate],
        *,
        fewest_nodes: bool,
        excluded_targets: frozenset[str] = frozenset(),
    ) -> Command | Evaluation:
        """Apply the removal of nodes together, by scheduling simulation.

        ``excluded_targets`` are nodes that receive none of their pods.
        """
        results: list[Command | Evaluation] = []

        def keep_if(outcome: SimulationOutcome) -> bool:
            command, evaluation = self._evaluate_outcome(candidates, outcome)
            results.append(evaluation if command is None else command)
            return command is not None

        excluded = self._simulation.get_indexes(excluded_targets)
        removed = self._get_indexes(candidates)
        self._simulation.simulate(removed, fewest_nodes=fewest_nodes, excluded=excluded, keep_if=keep_if)
        (result,) = results
        if isinstance(result, Command):
            result = replace(result, excluded_targets=excluded_targets)
            self._finish_command()
        return result

    def _get_indexes(self, candidates: Sequence[Candidate]) -> list[int]:
        return [self._simulation.node_indexes[candidate.name] for candidate in candidates]

    def is_spot_to_spot_disabled(self, candidates: Sequence[Candidate]) -> bool:
        """Return True if all nodes are spot and must not be replaced by spot nodes."""
        return not self._settings.spot_to_spot and all(
            candidate.node.labels.get(label_keys.CAPACITY_TYPE) == label_keys.SPOT for candidate in candidates
        )

    def simulate_set(self, candidates: Sequence[Candidate], *, fewest_nodes: bool) -> Evaluation:
        """Return the saving of removing nodes together, by scheduling simulation."""
        result = self.simulate_command(candidates, fewest_nodes=fewest_nodes)
        return Evaluation(result.saving) if isinstance(result, Command) else result

    def simulate_command(
        self,
        candidates: Sequence[Candidate],
        *,
        fewest_nodes: bool,
        excluded_targets: frozenset[str] = frozenset(),
    ) -> Command | Evaluation:
        """Return the command that removes nodes together, or why they are kept; change nothing."""
        excluded = self._simulation.get_indexes(excluded_targets)
        removed = self._get_indexes(candidates)
        outcome = self._simulation.simulate(removed, fewest_nodes=fewest_nodes, excluded=excluded)
        command, evaluation = self._evaluate_outcome(candidates, outcome)
        return evaluation if command is None else replace(command, excluded_targets=excluded_targets)

    def _apply_estimate(self, candidate: Candidate, estimate: Estimate) -> Command:
        """Apply an exact estimate without a new node: no simulation is needed."""
        simulation, removed = self._simulation, self._simulation.node_indexes[candidate.name]
        pods_by_shape: dict[int, list[Pod]] = {}
        for pod_class, pods in sorted(simulation.pods_by_node.get(removed, {}).items()):
            pods_by_shape.setdefault(self.estimator.shape_of_class[pod_class], []).extend(pods)
        unplaced = {shape: iter(pods) for shape, pods in pods_by_shape.items()}
        pods_by_target: dict[str, list[Pod]] = {}
        nodes = simulation.problem.nodes
        for shape, target, count in estimate.placements:
            nodes.used[:, target] += self.estimator.requests[shape] * count
            pods = pods_by_target.setdefault(nodes.existing_nodes[target].name, [])
            pods += [next(unplaced[shape]) for _ in range(count)]
        simulation.trial.close([removed])
        placements = tuple(ExistingPlacement(name, pods) for name, pods in pods_by_target.items())
        command = Command(candidates=(candidate,), placements=placements, saving=candidate.cost)
        self._finish_command()
        return command

    def _finish_command(self) -> None:
        self.version += 1
        self.estimator.refresh()

    # -- Evaluate outcomes -----------------------------------------------------------------

    def _evaluate_outcome(
        self, candidates: Sequence[Candidate], outcome: SimulationOutcome
    ) -> tuple[Command | None, Evaluation]:
        if outcome.unschedulable:
            return None, Evaluation(code="no-place", message=outcome.blocked_reason)
        if outcome.uninitialized_node:
            return None, self._reject_uninitialized(outcome.uninitialized_node)
        replacements = PricedReplacements()
        price = sum(candidate.price for candidate in candidates)
        if outcome.new_nodes:
            limit = self._settings.max_replacements
            if limit is not None and len(outcome.new_nodes) > limit:
                message = f"its pods would need {len(outcome.new_nodes)} new nodes"
                return None, Evaluation(code="not-cheaper", message=message)
            # Narrowing is expensive and can only reduce the saving: check thresholds first.
            bound = self._evaluate_saving(candidates, outcome.new_nodes, outcome.added_surplus)
            if outcome.price < price and bound.code:
                return None, bound
            replacements = narrow_replacements(
                outcome.new_nodes,
                candidates,
                self._settings,
                self._offering_prices,
                added_surplus=outcome.added_surplus,
                allow_existing_types=self._allow_existing_types,
            )
            if replacements.code:
                return None, Evaluation(code=replacements.code, message=replacements.message)
        evaluation = self._evaluate_saving(candidates, replacements.nodes, outcome.added_surplus)
        if evaluation.code:
            return None, evaluation
        command = Command(
            candidates=tuple(candidates),
            replacements=replacements.nodes,
            placements=outcome.placements,
            saving=evaluation.saving,
        )
        return command, evaluation

    def _evaluate_saving(
        self, candidates: Sequence[Candidate], replacements: Sequence[PlannedNode], added_surplus: float
    ) -> Evaluation:
        """Return the saving of these replacements, or why it is not enough.

        ``added_surplus`` is what existing nodes cost more, in USD per hour.
        """
        price = sum(candidate.price for candidate in candidates)
        cost = sum(candidate.cost for candidate in candidates)
        new_cost = sum(node.cost for node in replacements) + added_surplus
        saving, more_nodes = cost - new_cost, len(replacements) - len(candidates)
        tolerance = self._simulation.problem.settings.fewer_nodes_tolerance
        if more_nodes > 0 and price > 0 and saving > 0:
            # Provisioning might have chosen these nodes because they are fewer: do not undo that.
            if is_better(cost, len(candidates), new_cost, len(replacements), tolerance):
                nodes = "1 more node" if more_nodes == 1 else f"{more_nodes} more nodes"
                message = f"it would save {saving:.4f} USD per hour, too little for {nodes}"
                return Evaluation(code="more-nodes", message=message)
        price_saving = price - sum(node.price for node in replacements) - added_surplus
        return self._check_thresholds(candidates, price_saving, Evaluation(saving))

    def get_eviction_price(self, nodes: Iterable[Candidate]) -> float:
        """Return what the removal of nodes must save for their pods, in USD per hour."""
        prices = self._eviction_prices
        return sum(map(prices.get_price, nodes)) if prices is not None else 0.0

    def _check_thresholds(
        self, nodes: Sequence[Candidate], price_saving: float, result: Evaluation
    ) -> Evaluation:
        """Return ``result`` if its saving meets all thresholds, else why not.

        The policy Balanced compares prices of instances, as in Karpenter.
        """
        saving = result.saving
        disruption_cost = sum(self._simulation.disruption_costs[node.name] for node in nodes)
        settings = self._settings
        if saving <= 0 and any(node.price > 0 for node in nodes):
            return Evaluation(code="not-cheaper", message="it would save nothing")
        threshold = max(
            settings.min_saving, settings.min_saving_per_pod * disruption_cost, self.get_eviction_price(nodes)
        )
        has_prices = all(node.price > 0 for node in nodes)
        # A node of unknown price costs something, so its removal saves something.
        if saving < threshold - _TOLERANCE and (has_prices or settings.min_saving > 0):
            message = f"it would save {saving:.4f} USD per hour; moving its pods must save {threshold:.4f}"
            return Evaluation(code="below-threshold", message=message)
        if not meets_balanced_policy(nodes, price_saving, self._totals, settings.balanced_k):
            message = f"it would save {saving:.4f} USD per hour, too little for the policy Balanced"
            return Evaluation(code="balanced", message=message)
        return result
