"""Registration: finds the Node of a NodeClaim, and copies labels and taints to it."""

from datetime import timedelta
from typing import Final

import msgspec

from dovetail.codec.patches.nodes import registration_patch
from dovetail.controllers.context import ControllerBase, ControllerContext, HookResult
from dovetail.controllers.event_reasons import UNREGISTERED_TAINT_MISSING
from dovetail.controllers.pod.nomination import PodNominator
from dovetail.core.nodeclaim.lifecycle import (
    UnmetCondition,
    get_missing_taints,
    get_single_node,
    is_unregistered,
    lacks_unregistered_taint,
    refresh_condition,
    set_registered,
    set_unmet_condition,
)
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.taints import UNREGISTERED_TAINT
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODES

_PARTITION_POLL: Final = timedelta(seconds=1)


class RegistrationResult(msgspec.Struct, frozen=True):
    """NodeClaim after a registration attempt, and when to try again."""

    claim: NodeClaim
    requeue_after: timedelta | None = None
    error: DovetailError | None = None
    pending_hooks: tuple[str, ...] = ()


class PartitionHook:
    """``RegistrationHook`` that sets the label of the placement group partition.

    Pods may be spread by partition, so the label must be set before pods are
    bound. EC2 chooses the partition if the label is empty.
    """

    name = "placement-group-partition"

    def __init__(self, context: ControllerContext) -> None:
        self._cloud_provider = context.cloud_provider

    async def before_registration(self, claim: NodeClaim) -> HookResult:
        key = label_keys.PLACEMENT_GROUP_PARTITION
        if claim.labels.get(key) != "":
            return HookResult(claim)
        partition = (await self._cloud_provider.get(claim.provider_id)).placement_group_partition
        if not partition:
            return HookResult(claim, requeue_after=_PARTITION_POLL)
        labels = claim.labels.with_items({key: partition})
        return HookResult(msgspec.structs.replace(claim, labels=labels))


class Registrar(ControllerBase):
    """Registers the Node with the provider ID of a NodeClaim."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._hooks = (*context.registration_hooks, PartitionHook(context))
        self._nominator = PodNominator(context) if context.feature_gates.NominatedNodeName else None

    async def register(self, claim: NodeClaim) -> RegistrationResult:
        """Return the NodeClaim with the Registered condition; the caller writes it."""
        now = self._loop.now()
        if not is_unregistered(claim):
            return RegistrationResult(refresh_condition(claim, now, REGISTERED))
        node = get_single_node(self._cache.nodes_of(claim.provider_id))
        if isinstance(node, UnmetCondition):
            return RegistrationResult(set_unmet_condition(claim, now, REGISTERED, node))
        if lacks_unregistered_taint(node):
            self._report_missing_taint(claim, node)

        result = await self._run_hooks(claim)
        claim = result.claim
        if result.pending_hooks:
            await self._sync_node(node, claim, is_final=False)
            unmet = UnmetCondition("RegistrationHookPending", ", ".join(result.pending_hooks))
            return msgspec.structs.replace(result, claim=set_unmet_condition(claim, now, REGISTERED, unmet))
        if self._nominator is not None:
            # Before the taint is removed: no pod can be bound to the Node yet.
            await self._nominator.nominate_for(claim, node.name)
        await self._sync_node(node, claim, is_final=True)
        return RegistrationResult(set_registered(claim, node, now))

    async def _run_hooks(self, claim: NodeClaim) -> RegistrationResult:
        """Run all hooks concurrently and merge their labels and annotations."""
        results = await self._loop.gather([hook.before_registration(claim) for hook in self._hooks])
        pending: list[str] = []
        error: DovetailError | None = None
        delays: list[timedelta] = []
        for hook, result in zip(self._hooks, results, strict=True):
            if isinstance(result, DovetailError):
                pending.append(hook.name)
                error = error or result
            elif isinstance(result, Exception):
                raise result
            else:
                claim = msgspec.structs.replace(
                    claim,
                    labels=claim.labels.with_items(result.claim.labels),
                    annotations=claim.annotations.with_items(result.claim.annotations),
                )
                if result.requeue_after is not None:
                    pending.append(hook.name)
                    delays.append(result.requeue_after)
        return RegistrationResult(claim, min(delays, default=None), error, tuple(pending))

    async def _sync_node(self, node: NodeObject, claim: NodeClaim, *, is_final: bool) -> None:
        """Copy labels, taints and finalizer to the Node; finally, let pods in."""
        patch = registration_patch(
            await self._kube.get(NODES, node.name),
            claim,
            finalizer=label_keys.TERMINATION_FINALIZER,
            labels={label_keys.REGISTERED: "true"} if is_final else {},
            add=get_missing_taints(claim, node),
            drop=(UNREGISTERED_TAINT,) if is_final else (),
        )
        if patch:
            await self._kube.patch(NODES, node.name, patch)

    def _report_missing_taint(self, claim: NodeClaim, node: NodeObject) -> None:
        self._log.error("node is missing the unregistered taint", nodeclaim=claim.name, node=node.name)
        message = (
            f"Taint {UNREGISTERED_TAINT.key} is missing on the node; pods may be bound before registration"
        )
        self._events.publish(claim, UNREGISTERED_TAINT_MISSING, message, dedupe_key=(claim.name,))
