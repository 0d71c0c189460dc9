"""Validation: evaluate consolidation commands again, shortly before they start."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dovetail.core.disruption.command import Command
from dovetail.core.disruption.context import DisruptionContext
from dovetail.core.disruption.method import ValidationFailure, ValidationResult
from dovetail.core.disruption.simulation import SchedulingSimulation, SimulationOutcome
from dovetail.model.plan import PlannedNode
from dovetail.model.settings import SchedulingSettings

_FLEET_TOLERANCE: Final = 0.01
"""Relative difference between the prices of two fleets that the solver may find."""


def validate_commands(
    commands: Sequence[Command],
    context: DisruptionContext,
    allowed_disruptions: Mapping[str, int],
    scheduling: SchedulingSettings,
) -> ValidationResult:
    """Validate commands in their order on a new context."""
    validator = CommandValidator(context, allowed_disruptions, scheduling, commands=commands)
    valid: list[Command] = []
    failures: list[tuple[Command, ValidationFailure]] = []
    for command in commands:
        failure = validator.validate(command)
        if failure is None:
            valid.append(command)
        else:
            failures.append((command, failure))
    return ValidationResult(tuple(valid), tuple(failures))


class CommandValidator:
    """Validates commands one by one; each valid one changes the state for the next."""

    def __init__(
        self,
        context: DisruptionContext,
        allowed_disruptions: Mapping[str, int],
        scheduling: SchedulingSettings | None = None,
        *,
        commands: Iterable[Command] | None = None,
    ) -> None:
        """Compile a context; faster if all ``commands`` to validate are given."""
        self._allowed_disruptions = dict(allowed_disruptions)
        candidates = {candidate.name for candidate in context.candidates}
        names = None
        if commands is not None:
            names = candidates & {candidate.name for command in commands for candidate in command.candidates}
        self._simulation = SchedulingSimulation(context, scheduling, node_names=names)
        self._node_names = candidates & set(self._simulation.node_indexes)

    def validate(self, command: Command) -> ValidationFailure | None:
        """Return why a command is no longer valid; None: it is, and is applied."""
        for candidate in command.candidates:
            if candidate.name not in self._node_names:
                return ValidationFailure("churn", f"Node {candidate.name} may not be disrupted any more")
        pools = [candidate.pool.name for candidate in command.candidates]
        for pool in sorted(set(pools)):
            if pools.count(pool) > self._allowed_disruptions.get(pool, 0):
                return ValidationFailure("budget", f"NodePool {pool!r} has no budget left for it")
        problem = self._simulate(command)
        if problem:
            return ValidationFailure("scheduling", problem)
        self._node_names -= {candidate.name for candidate in command.candidates}
        for pool in pools:
            self._allowed_disruptions[pool] -= 1
        return None

    def _simulate(self, command: Command) -> str:
        """Return how the simulation differs from the command; empty: it does not."""
        removed = [self._simulation.node_indexes[candidate.name] for candidate in command.candidates]
        excluded = self._simulation.get_indexes(command.excluded_targets)
        problem = self._find_full_target(command, removed)
        if problem:
            return problem
        # The command may come from either packing.
        for fewest_nodes in (True, False):
            problem = ""

            def is_equal(outcome: SimulationOutcome) -> bool:
                nonlocal problem
                problem = _compare(command, outcome)
                return not problem

            self._simulation.simulate(removed, fewest_nodes=fewest_nodes, excluded=excluded, keep_if=is_equal)
            if not problem:
                break
        return problem

    def _find_full_target(self, command: Command, removed: Sequence[int]) -> str:
        """Return which target of a fleet's pods has no room any more; empty: none.

        A command with up to one replacement is compared with its simulation instead.
        """
        if len(command.replacements) < 2:
            return ""
        simulation = self._simulation
        nodes, trial = simulation.problem.nodes, simulation.trial
        requests = {
            pod.uid: trial.placer.compile_class(trial.classes[index], 0).requests
            for index, pods in simulation.get_pods(removed).items()
            for pod in pods
        }
        for placement in command.placements:
            target = simulation.node_indexes.get(placement.node)
            if target is None:
                return f"Node {placement.node} is gone, which was to receive pods"
            free = nodes.available[:, target] - nodes.used[:, target]
            needed = sum(requests[pod.uid] for pod in placement.pods if pod.uid in requests)
            if (needed > free).any():
                return f"Node {placement.node} has no room any more for the pods that it was to receive"
        return ""


def _compare(command: Command, outcome: SimulationOutcome) -> str:
    """Return in what a simulation is worse than the command; empty: in nothing.

    Nodes of a fleet depend on each other and on every target, so that a small change in
    the cluster leads to another fleet. One of the same price shows that the command is
    still worth it; its own nodes still hold the pods that they were planned for.
    """
    if outcome.blocked_reason:
        return outcome.blocked_reason
    if len(command.replacements) > 1 and outcome.new_nodes:
        if outcome.price <= command.replacement_price * (1 + _FLEET_TOLERANCE):
            return ""
        return f"new nodes cost {outcome.price:.4f} USD per hour now, not {command.replacement_price:.4f}"
    if len(outcome.new_nodes) != len(command.replacements):
        return f"{len(outcome.new_nodes)} new nodes are needed now, not {len(command.replacements)}"
    if not _can_launch(outcome.new_nodes, command.replacements):
        return "other instance types are needed now"
    return ""


def _can_launch(new_nodes: Sequence[PlannedNode], planned: Sequence[PlannedNode]) -> bool:
    """Return True if each planned node may still be launched as any of its types."""
    options = [
        (node.nodepool, {instance_type.name for instance_type in node.instance_types})
        for node in sorted(new_nodes, key=lambda node: node.price)
    ]
    for node in sorted(planned, key=lambda node: node.price):
        planned_names = {instance_type.name for instance_type in node.instance_types}
        for index, (pool, names) in enumerate(options):
            if pool == node.nodepool and planned_names <= names:
                del options[index]
                break
        else:
            return False
    return True
