"""Command executor: taints candidates, then replaces or deletes them.

Nothing is kept in memory. The disrupted taint and the DisruptionReason
condition say that a command was started; annotations of replacement NodeClaims
say what they replace. After a crash, ``remove_stale_taints`` removes the taints
of commands that did not get further.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from dovetail.codec.karpenter.nodeclaims import encode_nodeclaim
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.disrupted_taint import DisruptedTaints
from dovetail.controllers.event_reasons import DISRUPTION_TERMINATING
from dovetail.controllers.nodeclaim_deletion import delete_nodeclaim, to_snake_case
from dovetail.controllers.runtime.manager import raise_first
from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.replacement import create_replacement
from dovetail.core.provisioning import build_planned_claim, build_template_claim
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import INSTANCE_TERMINATING
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason, NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.metrics import (
    DISRUPTION_DECISIONS,
    DISRUPTION_DECISIONS_BY_NODEPOOL,
    DISRUPTION_FAILED_VALIDATIONS,
    NODECLAIMS_CREATED,
    ConsolidationLabels,
    DecisionLabels,
    NodeClaimCreatedLabels,
    NodePoolDecisionLabels,
)
from dovetail.state.nodes.replacements import Replacements

T = TypeVar("T")


class DisruptionCause(msgspec.Struct, frozen=True):
    """Reason, type and decision of a command, as metrics report them."""

    reason: DisruptionReason
    consolidation_type: str = ""
    """``empty``, ``single`` or ``multi``; empty if the method does not consolidate."""
    decision: str = "delete"

    @property
    def labels(self) -> DecisionLabels:
        return DecisionLabels(
            decision=self.decision, reason=self.reason.lower(), consolidation_type=self.consolidation_type
        )


class CommandExecutor(ControllerBase):
    """Starts commands; ``DisruptionQueue`` waits for their replacements."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._assignments = context.assignments
        self._nominations = context.nominations
        self._replacements = Replacements(context.cache)
        self._random = context.random
        self._taints = DisruptedTaints(context)

    async def start(
        self, command: Command, cause: DisruptionCause, *, is_still_valid: Callable[[Candidate], bool]
    ) -> int:
        """Taint the candidates and disrupt those that are still valid.

        The taint stops new pods, so that ``is_still_valid`` cannot become false
        afterwards. Without replacements, single candidates may be dropped; with
        replacements, all candidates are disrupted or none. Returns the number of
        nodes that are being disrupted, at once or when replacements are ready.
        """
        replacement_count = len(command.replacements) + len(command.template_nodepools)
        self._log.info(
            "disrupting node(s)",
            command=f"{cause.reason.lower()}/{cause.decision}",
            decision=cause.decision,
            disrupted_node_count=len(command.candidates),
            replacement_node_count=replacement_count,
            pod_count=command.pod_count,
            disrupted_nodes=", ".join(candidate.node.name for candidate in command.candidates),
        )
        tainted = await _run_for_each(
            self._context,
            command.candidates,
            lambda candidate: self._taints.add(candidate.claim, candidate.node, cause.reason),
        )
        valid = [candidate for candidate in tainted if is_still_valid(candidate)]
        if len(valid) < len(tainted):
            self._metrics.inc(
                DISRUPTION_FAILED_VALIDATIONS,
                ConsolidationLabels(consolidation_type=cause.consolidation_type),
                by=len(tainted) - len(valid),
            )
        if not valid or (replacement_count and len(valid) < len(command.candidates)):
            return 0
        self._count_decision(valid, cause)
        self._assign_moving_pods(command, valid)
        if replacement_count:
            return len(valid) if await self._create_replacements(command, cause) else 0
        claims = [self._cache.claim(candidate.claim.name) or candidate.claim for candidate in valid]
        return len(await delete_nodeclaims(self._context, claims, cause))

    async def remove_stale_taints(self) -> None:
        """Remove taints without a deletion or replacement, left by a crash or an error."""
        for claim in self._taints.find_disrupted():
            if claim.deleting or is_true(claim.conditions, INSTANCE_TERMINATING):
                continue
            if self._replacements.is_replaced(claim):
                continue
            nodes = self._cache.nodes_of(claim.provider_id)
            if len(nodes) == 1 and not nodes[0].deleting:
                await self._taints.remove(claim)

    def _count_decision(self, candidates: Sequence[Candidate], cause: DisruptionCause) -> None:
        self._metrics.inc(DISRUPTION_DECISIONS, cause.labels)
        for pool in sorted({candidate.pool.name for candidate in candidates}):
            labels = NodePoolDecisionLabels(
                nodepool=pool,
                decision=cause.labels.decision,
                reason=cause.labels.reason,
                consolidation_type=cause.labels.consolidation_type,
            )
            self._metrics.inc(DISRUPTION_DECISIONS_BY_NODEPOOL, labels)

    def _assign_moving_pods(self, command: Command, candidates: Sequence[Candidate]) -> None:
        """Assign pods to their target nodes, so that nothing fills or disrupts those."""
        now = self._loop.now()
        moving = {pod.uid for candidate in candidates for pod in candidate.reschedulable_pods}
        for placement in command.placements:
            node = self._cache.node(placement.node)
            claims = self._cache.claims_of(node.provider_id) if node is not None else ()
            for claim in claims[:1]:
                pods = [pod for pod in placement.pods if pod.uid in moving]
                self._assignments.assign(claim.name, pods)
                self._nominations.nominate(claim.provider_id, now)

    async def _create_replacements(self, command: Command, cause: DisruptionCause) -> bool:
        """Create the replacement NodeClaims; return False if a NodePool is gone."""
        pool_names = [planned.nodepool for planned in command.replacements]
        pool_names += command.template_nodepools
        pools = [pool for name in pool_names if (pool := self._cache.pool(name)) is not None]
        if len(pools) < len(pool_names):
            return False
        names = [f"{pool_name}-{self._random.alphanumeric(5)}" for pool_name in pool_names]
        replaced = [candidate.claim for candidate in command.candidates]
        annotations = create_replacement(replaced, names).encode_annotations()
        claims = [
            _build_claim(command, number, pool, name, annotations)
            for number, (pool, name) in enumerate(zip(pools, names, strict=True))
        ]
        # Before the NodeClaims exist: their watch events must find the pods assigned, or the
        # provisioner would launch nodes for the same pods.
        for name, planned in zip(names, command.replacements, strict=False):
            self._assignments.assign(name, planned.pods)
        # If one fails, the disruption queue finds too few replacements and rolls back.
        raise_first(await self._loop.gather([self._create(claim, cause) for claim in claims]))
        return True

    async def _create(self, claim: NodeClaim, cause: DisruptionCause) -> None:
        await self._kube.create(NODE_CLAIMS, encode_nodeclaim(claim))
        self._log.info(
            "created nodeclaim",
            nodepool=claim.pool,
            nodeclaim=claim.name,
            requests=claim.requests.to_quantities(),
        )
        self._metrics.inc(
            NODECLAIMS_CREATED,
            NodeClaimCreatedLabels(
                reason=cause.reason.lower(),
                nodepool=claim.pool,
                min_values_relaxed=claim.annotations.get(label_keys.MIN_VALUES_RELAXED, "false"),
            ),
        )


def _build_claim(
    command: Command, number: int, pool: NodePool, name: str, annotations: dict[str, str]
) -> NodeClaim:
    """Return one NodeClaim of a command: planned ones first, then those from templates."""
    if number < len(command.replacements):
        claim = build_planned_claim(command.replacements[number], pool, name=name)
    else:
        claim = build_template_claim(pool, name=name)
    return msgspec.structs.replace(claim, annotations=claim.annotations.with_items(annotations))


async def delete_nodeclaims(
    context: ControllerContext, claims: Sequence[NodeClaim], cause: DisruptionCause
) -> list[NodeClaim]:
    """Delete NodeClaims concurrently and return those that are being deleted.

    Raises if all deletions fail; a single failure is only logged.
    """
    return await _run_for_each(context, claims, lambda claim: _delete(context, claim, cause))


async def _delete(context: ControllerContext, claim: NodeClaim, cause: DisruptionCause) -> None:
    pool = context.cache.pool(claim.pool) if cause.consolidation_type else None
    policy = "" if pool is None else to_snake_case(str(pool.disruption.policy))
    nodes = context.cache.nodes_of(claim.provider_id)
    if not await delete_nodeclaim(context, claim, cause.reason.lower(), consolidation_policy=policy):
        return
    for node in nodes:
        context.events.publish(node, DISRUPTION_TERMINATING, f"Disrupting Node: {cause.reason}")
    context.events.publish(claim, DISRUPTION_TERMINATING, f"Disrupting NodeClaim: {cause.reason}")


async def _run_for_each(
    context: ControllerContext, items: Sequence[T], action: Callable[[T], Awaitable[None]]
) -> list[T]:
    """Run an action for all items concurrently; return those that succeeded.

    Raises if it fails for all; a single failure is only logged.
    """
    results = await context.loop.gather([action(item) for item in items])
    errors = [result for result in results if isinstance(result, Exception)]
    if errors and len(errors) == len(items):
        raise errors[0]
    for error in errors:
        context.log.error("disrupting node", error=str(error))
    return [item for item, result in zip(items, results, strict=True) if not isinstance(result, Exception)]
