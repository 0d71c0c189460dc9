"""Consolidation of a recorded cluster to its end, in a copy of its snapshot.

The commands are those of the disruption controller: the same candidates, search, thresholds
and budgets. They are applied to the copy at once: pods go where a command places them, and
each replacement is launched as its cheapest choice. What only takes time in a cluster
(launches, drains, ``consolidateAfter``, budgets with a schedule) has passed before the next
pass. Drifted and expired nodes are not replaced.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from dovetail.core.disruption.budgets import UNLIMITED, get_allowed_disruptions
from dovetail.core.disruption.candidates import (
    Candidate,
    CandidateContext,
    DisruptionBlocked,
    DisruptionClass,
    StateNode,
    check_disruptable,
    get_node_price,
    is_empty,
)
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.consolidation.consolidate import consolidate
from dovetail.core.disruption.context import DisruptionContext, get_unconsolidatable_reason
from dovetail.core.instancetypes.launch_choices import NoLaunchChoices, find_launch_choices, launch_labels
from dovetail.core.provisioning import build_planned_claim
from dovetail.core.scheduling.solver import solve
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason, NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.node import Node, NodeObject
from dovetail.model.plan import ExistingPlacement, PlannedNode
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

MAX_PASSES: Final = 300
"""Passes after which consolidation ends in any case; 2,000 nodes need a tenth of it."""
_LARGE_BUDGET: Final = 32
"""Nodes of the largest command: a larger budget does not allow others, only more at once."""
_INITIALIZED: Final = {label_keys.REGISTERED: "true", label_keys.INITIALIZED: "true"}


class ManagedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that a NodePool manages: its objects, without pods."""

    claim: NodeClaim
    node: NodeObject


class FleetCopy:
    """Nodes and pods of a cluster, as the commands of consolidation change them."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        managed: Mapping[str, ManagedNode],
        context: CandidateContext,
        settings: SchedulingSettings,
    ) -> None:
        """Copy a snapshot, and launch nodes for its pending pods.

        Of its nodes, the ``managed`` ones may be removed, by name.
        """
        self._snapshot = replace(snapshot, nodes=(), pending_pods=())
        self._context = context
        self._settings = settings
        self._pools = {pool.name: pool for pool in snapshot.nodepools}
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._managed = {name: node for name, node in managed.items() if name in self._nodes}
        self._results: dict[str, tuple[Node, Candidate | DisruptionBlocked]] = {}
        """Name → node as it was checked, and the result: PodDisruptionBudgets do not change."""
        self._launched: dict[str, NodeObject] = {}
        self._launch_count = 0
        self._provision(snapshot)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes that exist now, with their pods."""
        return tuple(self._nodes.values())

    def price_launched(self) -> list[float]:
        """Return the price of each node that was launched and not removed, in USD per hour."""
        return [
            get_node_price(node, self._get_types(node.labels[label_keys.NODEPOOL]), self._nodes[name].pods)
            for name, node in self._launched.items()
        ]

    def _get_types(self, pool: str) -> Mapping[str, InstanceType]:
        return self._context.get_instance_types(self._pools[pool])

    def consolidate(self) -> int:
        """Run passes until one finds no command; return the number of the others."""
        for number in range(MAX_PASSES):
            commands = self._find_empty() or self._find_commands()
            if not commands:
                return number
            for command in commands:
                self._execute(command)
        return MAX_PASSES

    # -- Decide ----------------------------------------------------------------------------

    def _find_empty(self) -> Sequence[Command]:
        return [
            Command(candidates=(candidate,))
            for candidate in self._find_candidates()
            if is_empty(candidate.reschedulable_pods)
            and candidate.pool.replicas is None
            and candidate.pool.disruption.consolidate_after is not None
            and self._get_allowed(candidate.pool, DisruptionReason.EMPTY) > 0
        ]

    def _find_commands(self) -> Sequence[Command]:
        candidates = tuple(
            candidate
            for candidate in self._find_candidates()
            if get_unconsolidatable_reason(candidate) is None
        )
        pools = {candidate.pool.name: candidate.pool for candidate in candidates}
        allowed = {
            name: self._get_allowed(pool, DisruptionReason.UNDERUTILIZED) for name, pool in pools.items()
        }
        snapshot = replace(self._snapshot, nodes=self.nodes)
        context = DisruptionContext(snapshot=snapshot, candidates=candidates)
        return consolidate(context, allowed, scheduling=self._settings).commands

    def _get_allowed(self, pool: NodePool, reason: DisruptionReason) -> int:
        """Return the number of nodes that one pass may disrupt."""
        standing = [budget for budget in pool.disruption.budgets if budget.schedule is None]
        total = sum(managed.claim.pool == pool.name for managed in self._managed.values())
        allowed = get_allowed_disruptions(standing, reason, total=total, now=self._context.now).allowed
        return allowed if allowed < _LARGE_BUDGET else UNLIMITED

    def _find_candidates(self) -> list[Candidate]:
        results = map(self._check, self._managed)
        return [result for result in results if isinstance(result, Candidate)]

    def _check(self, name: str) -> Candidate | DisruptionBlocked:
        node = self._nodes[name]
        cached = self._results.get(name)
        if cached is not None and cached[0] is node:
            return cached[1]
        managed = self._managed[name]
        state = StateNode(
            provider_id=node.provider_id or name,
            claim=managed.claim,
            node=managed.node,
            pods=node.pods,
            pod_groups=node.pod_groups,
        )
        result = check_disruptable(state, self._context, DisruptionClass.GRACEFUL)
        self._results[name] = (node, result)
        return result

    # -- Execute ---------------------------------------------------------------------------

    def _provision(self, snapshot: ClusterSnapshot) -> None:
        """Place pending pods, and pods of nodes that are being deleted; these nodes end."""
        plan = solve(snapshot, self._settings)
        for node in snapshot.nodes:
            if node.deleting:
                self._remove(node.name)
        self._place(plan.existing)
        for planned in plan.nodes:
            self._launch(planned)

    def _execute(self, command: Command) -> None:
        for candidate in command.candidates:
            self._remove(candidate.name)
        self._place(command.placements)
        for planned in command.replacements:
            self._launch(planned)

    def _remove(self, name: str) -> None:
        del self._nodes[name]
        self._managed.pop(name, None)
        self._launched.pop(name, None)
        self._results.pop(name, None)

    def _place(self, placements: Iterable[ExistingPlacement]) -> None:
        for placement in placements:
            node = self._nodes[placement.node]
            self._nodes[node.name] = replace(node, pods=(*node.pods, *_bind(placement.pods, node.name)))

    def _launch(self, planned: PlannedNode) -> None:
        """Add the node of a NodeClaim, launched as its cheapest choice."""
        self._launch_count += 1
        name = f"{planned.nodepool}-new-{self._launch_count}"
        claim = build_planned_claim(planned, self._pools[planned.nodepool], name=name)
        choices = find_launch_choices(claim, self._snapshot.instance_types[planned.nodepool])
        if isinstance(choices, NoLaunchChoices):
            raise DovetailError(f"internal error: nodeclaim {name}: {choices.reason}; please report it")
        choice = choices[0]
        labels = FrozenDict(
            {**launch_labels(choice, claim), **claim.labels, **_INITIALIZED, label_keys.HOSTNAME: name}
        )
        claim = replace(
            claim, labels=labels, created=self._context.now, provider_id=name, node_name=name
        )  # Younger than a day: fleet replacement leaves it alone, as in a cluster.
        node = NodeObject(name=name, labels=labels, provider_id=name, taints=claim.taints)
        self._launched[name] = node
        self._managed[name] = ManagedNode(claim=claim, node=node)
        self._nodes[name] = Node(
            name=name,
            claim=name,
            provider_id=name,
            labels=labels,
            taints=claim.taints,
            capacity=choice.instance_type.capacity,
            allocatable=choice.instance_type.allocatable,
            pods=_bind(planned.pods, name),
        )


def _bind(pods: Iterable[Pod], node: str) -> tuple[Pod, ...]:
    return tuple(replace(pod, node_name=node, nominated_node_name="") for pod in pods)
