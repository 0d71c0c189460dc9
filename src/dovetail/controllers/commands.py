"""Carrying out a disruption: mark the nodes, look once more, delete their claims.

Nothing of this is remembered: the taint and the claim's DisruptionReason say
what was begun, and whoever finds them without a deletion takes them off again.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from dovetail.codec.claimpatches import status_patch
from dovetail.controllers.marking import put_mark, take_mark
from dovetail.core.conditions import cleared
from dovetail.core.disruption.budgets import Reason
from dovetail.core.disruption.candidates import Candidate
from dovetail.core.lifecycle import stated
from dovetail.model import labels as label_keys
from dovetail.model.conditions import TRUE, is_true
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.taints import DISRUPTED
from dovetail.ports.kube import Kube
from dovetail.ports.kubeerrors import NotFound
from dovetail.ports.loop import Loop
from dovetail.ports.resources import NODE_CLAIMS, NODES
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.mirror import Mirror

_WHY = "DisruptionReason"


class Commands:
    """Begins disruptions, and takes back those that came to nothing."""

    def __init__(
        self, *, mirror: Mirror, kube: Kube, loop: Loop, log: Log, events: Events, metrics: Metrics
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._loop = loop
        self._log = log
        self._events = events
        self._metrics = metrics

    async def delete(
        self,
        chosen: Sequence[Candidate],
        reason: Reason,
        *,
        label: str,
        still_wanted: Callable[[Candidate], bool],
    ) -> int:
        """Mark candidates and delete those that are wanted even then; return how many.

        ``label`` is the consolidation type of metrics. The mark keeps new pods
        away, so that what ``still_wanted`` sees behind it holds.
        """
        self._log.info(
            "disrupting node(s)",
            command=f"{reason.lower()}/delete",
            decision="delete",
            disrupted_node_count=len(chosen),
            replacement_node_count=0,
            pod_count=sum(len(one.reschedulable) for one in chosen),
            disrupted_nodes=", ".join(one.node.name for one in chosen),
        )
        marked = await self._each(chosen, lambda one: self._mark(one, reason))
        going = [one for one in marked if still_wanted(one)]
        if len(going) < len(marked):
            self._metrics.count(
                "karpenter_voluntary_disruption_failed_validations_total",
                len(marked) - len(going),
                consolidation_type=label,
            )
        deleted = await self._each(going, self._delete)
        for one in deleted:
            self._tell(one, reason, label)
        return len(deleted)

    async def take_back(self) -> None:
        """Take marks off machines that nobody is deleting: a crash or a failure left them."""
        for node in self._mirror.nodes():
            claims = self._mirror.claims_of(node.provider_id)
            if len(claims) != 1 or node.deleting or _is_leaving(claims[0]):
                continue
            if DISRUPTED in node.taints:
                await take_mark(node, kube=self._kube, log=self._log)
            if _WHY in claims[0].conditions:
                await self._write(claims[0], _without_reason(claims[0]))

    async def _each(
        self, ones: Sequence[Candidate], act: Callable[[Candidate], Awaitable[None]]
    ) -> list[Candidate]:
        """Do something to all at once; return those with whom it worked, if any did."""
        results = await self._loop.together([act(one) for one in ones])
        failures = [one for one in results if isinstance(one, Exception)]
        if failures and len(failures) == len(ones):
            raise failures[0]
        for error in failures:
            self._log.error("disrupting node", error=str(error))
        return [
            one
            for one, result in zip(ones, results, strict=True)
            if not isinstance(result, Exception)
        ]

    async def _mark(self, one: Candidate, reason: Reason) -> None:
        await put_mark(one.node, kube=self._kube, log=self._log)
        claim = self._mirror.claim(one.claim.name) or one.claim
        await self._write(claim, stated(claim, self._loop.now(), _WHY, TRUE, reason.value))

    async def _write(self, before: NodeClaim, after: NodeClaim) -> None:
        patch = status_patch(before, after)
        if patch:
            await self._kube.patch(NODE_CLAIMS, before.name, patch, subresource="status")

    async def _delete(self, one: Candidate) -> None:
        try:
            await self._kube.delete(NODE_CLAIMS, one.claim.name, uid=one.claim.uid)
        except NotFound:
            return  # Somebody was quicker; the goal is met.

    def _tell(self, one: Candidate, reason: Reason, label: str) -> None:
        for resource, name, uid in (
            (NODES, one.node.name, one.node.uid),
            (NODE_CLAIMS, one.claim.name, one.claim.uid),
        ):
            self._events.publish(
                resource,
                name,
                uid=uid,
                reason="DisruptionTerminating",
                message=f"Disrupting {resource.kind}: {reason}",
            )
        cause = reason.lower()
        self._metrics.count(
            "karpenter_voluntary_disruption_decisions_total",
            decision="delete",
            reason=cause,
            consolidation_type=label,
        )
        for name, count in (
            ("karpenter_nodeclaims_disrupted_total", 1),
            ("karpenter_pods_disruption_initiated_total", len(one.reschedulable)),
        ):
            self._metrics.count(
                name,
                count,
                reason=cause,
                nodepool=one.pool.name,
                capacity_type=one.node.labels.get(label_keys.CAPACITY_TYPE, ""),
                consolidation_policy=str(one.pool.disruption.policy),
                termination_mode=_mode(one.claim),
            )


def _without_reason(claim: NodeClaim) -> NodeClaim:
    return msgspec.structs.replace(claim, conditions=cleared(claim.conditions, _WHY))


def _is_leaving(claim: NodeClaim) -> bool:
    return claim.deleting or is_true(claim.conditions, "InstanceTerminating")


def _mode(claim: NodeClaim) -> str:
    grace = claim.termination_grace_period
    if grace is None:
        return "graceful"
    return "eventual" if grace else "forceful"
