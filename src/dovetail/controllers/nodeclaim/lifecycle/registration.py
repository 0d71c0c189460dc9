"""Registration: the claim's node is found and becomes one of ours."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import msgspec

from dovetail.codec.patches.nodes import adoption_patch
from dovetail.core.nodeclaim.lifecycle import (
    REGISTERED,
    Unmet,
    awaits_registration,
    lost_taint,
    refreshed,
    registered,
    taints_to_add,
    the_node,
    unmet,
)
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.taints import UNREGISTERED
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Events, Log
from dovetail.state.cluster.cache import Mirror


class Answer(msgspec.Struct, frozen=True):
    """What a hook says: the claim with what it knows now, or to come back later."""

    claim: NodeClaim
    again_in: timedelta | None = None
    """None: nothing holds registration back."""


class Hook(Protocol):
    """Something of the cloud's that must be known before pods may come."""

    name: str

    async def before_registration(self, claim: NodeClaim) -> Answer: ...


class Nominates(Protocol):
    """Tells pods of their node before anybody else may come to it."""

    async def before_pods_come(self, claim: NodeClaim, node: str) -> None: ...


class Registered(msgspec.Struct, frozen=True):
    """How far registration came."""

    claim: NodeClaim
    again_in: timedelta | None = None
    error: DovetailError | None = None


class Registrar:
    """Finds nodes by provider id and hands them what their claims say."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        kube: Kube,
        loop: Loop,
        log: Log,
        events: Events,
        hooks: Sequence[Hook] = (),
        nominating: Nominates | None = None,
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._loop = loop
        self._log = log
        self._events = events
        self._hooks = hooks
        self._nominating = nominating

    async def register(self, claim: NodeClaim) -> Registered:
        """Return the claim after looking for its node; nothing is written to the claim."""
        now = self._loop.now()
        if not awaits_registration(claim):
            return Registered(refreshed(claim, now, REGISTERED))
        node = the_node(self._mirror.nodes_of(claim.provider_id))
        if isinstance(node, Unmet):
            return Registered(unmet(claim, now, REGISTERED, node))
        if lost_taint(node):
            self._tell_of_lost_taint(claim, node)

        asked = await self._ask_hooks(claim)
        claim = asked.claim
        if asked.pending:
            await self._adopt(node, claim, finished=False)
            why = Unmet("RegistrationHookPending", ", ".join(asked.pending))
            held = unmet(claim, now, REGISTERED, why)
            return Registered(held, again_in=asked.again_in, error=asked.error)
        if self._nominating is not None:
            await self._nominating.before_pods_come(claim, node.name)
        await self._adopt(node, claim, finished=True)
        return Registered(registered(claim, node, now))

    async def _ask_hooks(self, claim: NodeClaim) -> "_Asked":
        answers = await self._loop.together(
            [hook.before_registration(claim) for hook in self._hooks]
        )
        pending: list[str] = []
        error: DovetailError | None = None
        waits: list[timedelta] = []
        for hook, answer in zip(self._hooks, answers, strict=True):
            if isinstance(answer, DovetailError):
                pending.append(hook.name)
                error = error or answer
            elif isinstance(answer, Exception):
                raise answer
            else:
                claim = msgspec.structs.replace(
                    claim,
                    labels=claim.labels.with_items(answer.claim.labels),
                    annotations=claim.annotations.with_items(answer.claim.annotations),
                )
                if answer.again_in is not None:
                    pending.append(hook.name)
                    waits.append(answer.again_in)
        return _Asked(claim, tuple(pending), min(waits, default=None), error)

    async def _adopt(self, node: NodeObject, claim: NodeClaim, *, finished: bool) -> None:
        patch = adoption_patch(
            await self._kube.get(NODES, node.name),
            claim,
            finalizer=label_keys.TERMINATION_FINALIZER,
            labels={label_keys.REGISTERED: "true"} if finished else {},
            add=taints_to_add(claim, node),
            drop=(UNREGISTERED,) if finished else (),
        )
        if patch:
            await self._kube.patch(NODES, node.name, patch)

    def _tell_of_lost_taint(self, claim: NodeClaim, node: NodeObject) -> None:
        self._log.error(
            "node is missing the unregistered taint", nodeclaim=claim.name, node=node.name
        )
        self._events.publish(
            NODE_CLAIMS,
            claim.name,
            uid=claim.uid,
            reason="UnregisteredTaintMissing",
            message=f"Taint {UNREGISTERED.key} is missing on the node; pods may come too early",
            warning=True,
            same=(claim.name,),
        )


class _Asked(msgspec.Struct, frozen=True):
    """What all hooks together say."""

    claim: NodeClaim
    pending: tuple[str, ...]
    again_in: timedelta | None
    error: DovetailError | None
