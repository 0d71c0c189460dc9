"""Scheduling simulation: where the pods of removed nodes would be placed.

The cluster is compiled once and simulated many times. Pending pods are placed
first and stay placed, so that their room is taken. Each simulation then removes
nodes, places their pods on the remaining or on new nodes, and undoes all of it
unless the outcome is kept.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from dovetail.core.disruption.context import DisruptionContext
from dovetail.core.scheduling.placement.running_pods import RunningPods
from dovetail.core.scheduling.placement_order import split_invalid
from dovetail.core.scheduling.plan_builder import PlanBuilder
from dovetail.core.scheduling.plan_cost import is_better
from dovetail.core.scheduling.pods.default_spread import DefaultSpreads
from dovetail.core.scheduling.pods.equivalence import PodClass, classify, classify_groups, selector_keys
from dovetail.core.scheduling.pods.node_pods import get_node_pods
from dovetail.core.scheduling.pods.pending import find_pods_to_schedule, reschedulable_groups
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.trial import Trial
from dovetail.core.scheduling.unschedulable import UnschedulableExplainer
from dovetail.core.scheduling.work import complexity_reason, is_complex
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.pod_groups import EquivalenceKey, equivalence_key
from dovetail.model.kube.resources import CPU
from dovetail.model.node import Node
from dovetail.model.plan import ExistingPlacement, PlannedNode, UnschedulablePod, UnschedulableReason
from dovetail.model.settings import SchedulingSettings

PodsByClass = dict[int, Sequence[Pod]]
"""Index of an equivalence class → its pods."""


class SimulationOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Placement of the pods of removed nodes."""

    new_nodes: tuple[PlannedNode, ...] = ()
    """Nodes to launch."""
    placements: tuple[ExistingPlacement, ...] = ()
    unschedulable: tuple[UnschedulablePod, ...] = ()
    uninitialized_node: str = ""
    """An existing node that is needed but not initialized."""
    added_surplus: float = 0.0
    """USD per hour more of surplus credits on burstable nodes that receive pods."""

    @property
    def price(self) -> float:
        """USD per hour of the new nodes, and more for existing ones."""
        return sum(node.price for node in self.new_nodes) + self.added_surplus

    @property
    def cost(self) -> float:
        """USD per hour like ``price``, with node costs of the new nodes."""
        return sum(node.cost for node in self.new_nodes) + self.added_surplus

    @property
    def is_schedulable(self) -> bool:
        return not self.unschedulable and not self.uninitialized_node

    @property
    def blocked_reason(self) -> str:
        """Why the nodes cannot be removed, by the first unschedulable pod; empty: they can."""
        if self.unschedulable:
            first = self.unschedulable[0]
            reasons = "; ".join(
                f"{reason.nodepool}: {reason.message}" if reason.nodepool else reason.message
                for reason in first.reasons
            )
            return f"Pod {first.pod.key} cannot be scheduled: {reasons or 'no node takes it'}"
        if self.uninitialized_node:
            return f"Node {self.uninitialized_node} is needed and not initialized"
        return ""


class SchedulingSimulation:
    """Simulates the removal of candidates' nodes."""

    def __init__(
        self,
        context: DisruptionContext,
        settings: SchedulingSettings | None = None,
        node_order: Callable[[Node], Any] | None = None,
        *,
        node_names: Collection[str] | None = None,
    ) -> None:
        """Compile a context; only nodes of candidates, or ``node_names``, can be removed."""
        self.context = context
        snapshot, settings = context.snapshot, settings or SchedulingSettings()
        spreads = settings.default_spreads
        spec_of = DefaultSpreads(snapshot, spreads).spec_of if spreads else None
        if node_names is None:
            node_names = {candidate.name for candidate in context.candidates}
        get_groups = reschedulable_groups(snapshot)
        removable = {
            node.name: get_groups(node)
            for node in snapshot.nodes
            if node.name in node_names and not node.deleting
        }
        pending = find_pods_to_schedule(snapshot)
        running: dict[EquivalenceKey, list[Pod]] = {}
        for key, pods in chain.from_iterable(removable.values()):
            running.setdefault(key, []).extend(pods)
        one_of_each = (*pending, *(pods[0] for pods in running.values()))
        specs = {pod.spec if spec_of is None else spec_of(pod) for pod in one_of_each}
        specs.update(spec for node in snapshot.nodes for spec in get_node_pods(node).anti_affinity_specs)
        keys = selector_keys(specs)
        self._unschedulable: dict[int, UnschedulablePod] = {}
        pending_classes = self._split_schedulable(classify(pending, keys, spec_of), settings)
        running_classes, class_by_key = classify_groups(running, keys, spec_of)
        classes = pending_classes + self._split_schedulable(running_classes, settings)
        rescheduled = frozenset(pod.key for pod in pending if pod.node_name)
        self.disruption_costs = {node.name: node.disruption_cost for node in context.candidates}
        """Node → disruption cost of its candidate."""
        node_order = node_order or self._order_by_savings()
        self.problem = Problem(snapshot, settings, classes, rescheduled, node_order)
        self.trial = Trial(self.problem)
        self._plan_builder = PlanBuilder(self.problem)
        self.node_indexes = self.problem.nodes.index_by_name
        self._has_topology = any(True for _ in self.problem.topology.groups)
        self._explanations: dict[int, tuple[UnschedulableReason, ...]] = {}
        self._burstable_types = self._find_burstable_nodes()
        self.pods_by_node: dict[int, PodsByClass] = {}
        """Index of a node → pods to reschedule if it is removed."""
        index_by_class = {id(pod_class): index for index, pod_class in enumerate(classes)}
        class_indexes = {key: index_by_class.get(id(pod_class)) for key, pod_class in class_by_key.items()}
        self._unschedulable_by_node: dict[int, list[UnschedulablePod]] = {}
        for name, groups in removable.items():
            self._add_pods(self.node_indexes[name], groups, class_indexes)
        self._place_pending({index: list(pod_class.pods) for index, pod_class in enumerate(pending_classes)})
        excluded = sorted(context.excluded_targets & self.node_indexes.keys())
        self.trial.close([self.node_indexes[name] for name in excluded])

    def _split_schedulable(self, classes: list[PodClass], settings: SchedulingSettings) -> list[PodClass]:
        """Return the classes that can be scheduled at all; record the pods of others.

        Pods with complex specs are left out: they would be planned again in every simulation.
        Pending ones take no room, and nodes with running ones are kept.
        """
        simple: list[PodClass] = []
        complex_classes: list[PodClass] = []
        for pod_class in classes:
            (complex_classes if is_complex(pod_class.spec) else simple).append(pod_class)
        schedulable, unschedulable = split_invalid(simple, self.context.snapshot, settings)
        for pod_class in complex_classes:
            reasons = (complexity_reason(pod_class.spec),)
            unschedulable += [UnschedulablePod(pod, reasons) for pod in pod_class.pods]
        self._unschedulable.update((id(pod.pod), pod) for pod in unschedulable)
        return schedulable

    def _add_pods(
        self,
        node: int,
        groups: Iterable[tuple[EquivalenceKey, tuple[Pod, ...]]],
        class_indexes: Mapping[EquivalenceKey, int | None],
    ) -> None:
        by_class = self.pods_by_node.setdefault(node, {})
        for key, pods in groups:
            index = class_indexes[key]
            if index is None:
                unschedulable = self._unschedulable_by_node.setdefault(node, [])
                unschedulable += [self._unschedulable[id(pod)] for pod in pods]
            else:
                by_class[index] = (*by_class[index], *pods) if index in by_class else pods

    def _place_pending(self, pending: PodsByClass) -> None:
        """Place pending pods and keep the room that they take."""
        if not pending:
            return
        self.trial.place(pending, [], {}, fewest_nodes=True)
        for node, placed in self._get_placements(pending).items():
            if node < self.problem.nodes.existing_count:
                by_class = self.pods_by_node.setdefault(node, {})
                for index, pods in placed.items():
                    by_class[index] = (*by_class.get(index, ()), *pods)
        self.trial.commit()

    def _get_placements(self, pods: PodsByClass) -> dict[int, dict[int, list[Pod]]]:
        """Return node → class → pods, from the placement log."""
        index_by_class = {id(self.trial.classes[index]): index for index in pods}
        next_pod = dict.fromkeys(pods, 0)
        placements: dict[int, dict[int, list[Pod]]] = {}
        for compiled, nodes, counts in self.problem.placement.log:
            index = index_by_class[id(compiled.pod_class)]
            for node, count in zip(nodes, counts, strict=True):
                start = next_pod[index]
                placements.setdefault(node, {}).setdefault(index, []).extend(
                    pods[index][start : start + count]
                )
                next_pod[index] = start + count
        return placements

    def _order_by_savings(self) -> Callable[[Node], tuple[bool, float, str]]:
        """Return the order of targets: nodes that are most likely kept come first.

        Those are nodes that are no candidates, then those with the lowest savings ratio.
        """
        ratios = {
            candidate.name: candidate.cost / self.disruption_costs[candidate.name]
            for candidate in self.context.candidates
        }

        def rank(node: Node) -> tuple[bool, float, str]:
            return (not node.initialized, ratios.get(node.name, 0.0), node.name)

        return rank

    # -- Simulation --------------------------------------------------------------------

    def simulate_removal(self, names: Iterable[str], excluded: Iterable[str] = ()) -> SimulationOutcome:
        """Return the better outcome of both packings for the removal of these nodes.

        ``excluded`` nodes receive no pods.
        """
        removed = [self.node_indexes[name] for name in names]
        closed = self.get_indexes(excluded)
        best = self.simulate(removed, fewest_nodes=False, excluded=closed)
        if len(best.new_nodes) > 1:
            other = self.simulate(removed, fewest_nodes=True, excluded=closed)
            if other.is_schedulable > best.is_schedulable or (
                other.is_schedulable == best.is_schedulable and self._is_better(other, best)
            ):
                best = other
        return best

    def _is_better(self, outcome: SimulationOutcome, other: SimulationOutcome) -> bool:
        tolerance = self.problem.settings.fewer_nodes_tolerance
        return is_better(outcome.cost, len(outcome.new_nodes), other.cost, len(other.new_nodes), tolerance)

    def simulate(
        self,
        removed: Sequence[int],
        *,
        fewest_nodes: bool,
        excluded: Sequence[int] = (),
        keep_if: Callable[[SimulationOutcome], bool] = lambda _: False,
    ) -> SimulationOutcome:
        """Run the solver; an outcome that is kept is the state for later simulations.

        ``excluded`` nodes receive no pods in this simulation.
        """
        pods = self.get_pods(removed)
        running = self._count_running(removed)
        available = self.trial.close_for_now(excluded)
        previous = self.trial.place(pods, removed, running, fewest_nodes=fewest_nodes)
        outcome = self._build_outcome(removed)
        if keep_if(outcome):
            self.trial.commit()
        else:
            self.trial.undo(removed, running, previous)
        self.trial.reopen(excluded, available)
        return outcome

    def get_indexes(self, names: Iterable[str]) -> list[int]:
        """Return the indexes of those of the nodes that exist."""
        return [self.node_indexes[name] for name in sorted(names) if name in self.node_indexes]

    def get_pods(self, removed: Iterable[int]) -> PodsByClass:
        """Return the pods to reschedule if these nodes are removed."""
        by_class: dict[int, list[Pod]] = {}
        for node in removed:
            for index, pods in self.pods_by_node.get(node, {}).items():
                by_class.setdefault(index, []).extend(pods)
        return dict(by_class)

    def get_unschedulable(self, removed: Iterable[int]) -> list[UnschedulablePod]:
        """Return the pods of these nodes that no node can ever take."""
        return [pod for node in removed for pod in self._unschedulable_by_node.get(node, ())]

    def _count_running(self, removed: Sequence[int]) -> RunningPods:
        """Return how topology counts the pods of these nodes; empty without topology."""
        running: RunningPods = {}
        if not self._has_topology:
            return running
        for node in removed:
            name = self.problem.nodes.existing_nodes[node].name
            for pods in self.pods_by_node.get(node, {}).values():
                for pod in pods:
                    if not pod.deleting:
                        by_node = running.setdefault(equivalence_key(pod), {})
                        by_node[name] = by_node.get(name, 0) + 1
        return running

    def _build_outcome(self, removed: Sequence[int]) -> SimulationOutcome:
        unplaced = self.get_unschedulable(removed)
        for pod_class in self.problem.classes:
            if pod_class.unplaced:
                reasons = self.explain_class(pod_class)
                unplaced += [UnschedulablePod(pod, reasons) for pod in pod_class.pods[pod_class.placed :]]
        nodes, placements = self._plan_builder.build()
        unplaced += self._plan_builder.dropped
        return SimulationOutcome(
            new_nodes=nodes,
            placements=placements,
            unschedulable=tuple(unplaced),
            uninitialized_node=self._find_uninitialized(placements),
            added_surplus=sum(map(self._price_added_surplus, placements)) if self._burstable_types else 0.0,
        )

    @property
    def has_surplus_prices(self) -> bool:
        """True if pods may add to the price of an existing node."""
        return bool(self._burstable_types)

    def _find_burstable_nodes(self) -> dict[str, InstanceType]:
        """Return the types of existing nodes whose price depends on their pods, by node."""
        types = self.context.snapshot.instance_types
        burstable = {
            (pool, instance_type.name): instance_type
            for pool, pool_types in types.items()
            for instance_type in pool_types
            if instance_type.cpu_credits is not None and instance_type.cpu_credits.has_surplus
        }
        nodes = self.problem.nodes.existing_nodes
        keys = ((node.name, (node.pool, node.labels.get(label_keys.INSTANCE_TYPE, ""))) for node in nodes)
        return {name: burstable[key] for name, key in keys if key in burstable}

    def _price_added_surplus(self, placement: ExistingPlacement) -> float:
        """Return USD per hour more that a node costs with the pods that it receives."""
        instance_type = self._burstable_types.get(placement.node)
        if instance_type is None:
            return 0.0
        names, index = self.problem.resource_names, self.node_indexes[placement.node]
        nodes = self.problem.nodes
        running = sum(
            pod.spec.requests.get(CPU, 0) for pod in nodes.existing_nodes[index].pods if not pod.is_terminal
        )
        # Pods of this outcome, and of those that were kept before it.
        placed = int(nodes.used[names.index(CPU), index]) if CPU in names else 0
        added = sum(pod.spec.requests.get(CPU, 0) for pod in placement.pods)
        after = instance_type.price_surplus({CPU: running + placed})
        return after - instance_type.price_surplus({CPU: running + placed - added})

    def explain_class(self, pod_class: PodClass) -> tuple[UnschedulableReason, ...]:
        """Return why pods of a class cannot be scheduled; computed once per class."""
        reasons = self._explanations.get(id(pod_class))
        if reasons is None:
            reasons = UnschedulableExplainer(self.trial.placer).explain(pod_class)
            self._explanations[id(pod_class)] = reasons
        return reasons

    def _find_uninitialized(self, placements: Iterable[ExistingPlacement]) -> str:
        for placement in placements:
            if self.is_uninitialized(self.node_indexes[placement.node]):
                return placement.node
        return ""

    def is_uninitialized(self, node: int) -> bool:
        """Return True if a managed node is not initialized."""
        existing = self.problem.nodes.existing_nodes[node]
        return existing.is_managed and not existing.initialized
