"""Takes away nodes that are not needed, or not what they should be, within budgets.

Nobody looks round every few seconds: a pass is made when a machine becomes
empty, ripe or drifts, when budgets may have room again, and at the moment at
which the next machine will be ripe. What needs a look at the whole cluster is
looked at as often as its pace allows.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.controllers.disruption.candidates import AT_A_STRETCH, LOOK_AGAIN, Found, Survey
from dovetail.controllers.disruption.events import Announcements
from dovetail.controllers.disruption.executor import Commands
from dovetail.controllers.disruption.triggers import Idleness
from dovetail.controllers.nodeclaim_deletion import Why
from dovetail.controllers.runtime.manager import SINGLETON, Registration, Requeue
from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Move
from dovetail.core.disruption.consolidation.method import confirm
from dovetail.core.disruption.method import Decision, Method, Question
from dovetail.core.disruption.registry import METHODS
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from dovetail.ports.cloudprovider import Cloud
from dovetail.ports.event_loop import Loop
from dovetail.ports.executor import Offload
from dovetail.ports.kube_client import Kube
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.capacitybuffers import Buffers
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.nodes.keep_reasons import Stays
from dovetail.state.nodes.nominations import Nominations
from dovetail.state.pods.assignments import Promises

NAME: Final = "disruption"

_UNSYNCED: Final = Requeue(timedelta(seconds=1))
_AT_ONCE: Final = Requeue(timedelta())
_CONSOLIDATION: Final = ConsolidationSettings()
_SCHEDULING: Final = SchedulingSettings()


class _Turn(msgspec.Struct, frozen=True):
    """What came of one method's turn."""

    acted: bool = False
    due: datetime | None = None
    """When it wants another."""


class _Proposal(msgspec.Struct, frozen=True):
    """Moves that are to be looked at again, and when."""

    moves: tuple[Move, ...]
    at: datetime


class Disruption:
    """One pass at a time over the machines that methods want."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        promises: Promises,
        nominations: Nominations,
        stays: Stays,
        kube: Kube,
        cloud: Cloud,
        loop: Loop,
        offload: Offload,
        chance: Chance,
        log: Log,
        events: Events,
        metrics: Metrics,
        settings: SchedulingSettings = _SCHEDULING,
        consolidation: ConsolidationSettings = _CONSOLIDATION,
        buffers: Buffers | None = None,
    ) -> None:
        self._buffers = buffers or Buffers()
        self._mirror = mirror
        self._stays = stays
        self._loop = loop
        self._offload = offload
        self._log = log
        self._metrics = metrics
        self._settings = settings
        self._consolidation = consolidation
        self._announcements = Announcements(events)
        self._idleness = Idleness(mirror=mirror, clock=loop, buffers=self._buffers)
        self._survey = Survey(
            mirror=mirror,
            promises=promises,
            nominations=nominations,
            cloud=cloud,
            loop=loop,
            buffers=self._buffers,
            idleness=self._idleness,
            stays=stays,
            announcements=self._announcements,
            log=log,
            metrics=metrics,
        )
        self._commands = Commands(
            mirror=mirror,
            promises=promises,
            nominations=nominations,
            kube=kube,
            loop=loop,
            chance=chance,
            log=log,
            events=events,
            metrics=metrics,
        )
        self._proposals: dict[str, _Proposal] = {}
        """By the reason of the method that made them."""

    def registration(self) -> Registration:
        """Have it told of all by which a node becomes, or stays, fit to go."""
        return Registration(
            name=NAME,
            controller=self,
            watches=(
                (NODE_CLAIMS, self._idleness.on_claim),
                (PODS, self._idleness.on_pod),
                (NODES, self._of_node),
                (NODE_POOLS, self._idleness.on_pool),
            ),
            sources=(lambda ask: self._buffers.on_freed(lambda: ask(SINGLETON)),),
            at_start=(SINGLETON,),
            workers=1,
        )

    def _of_node(self, change: Change) -> Iterable[str]:
        if change.new is None:
            self._stays.forget(change.either.name)
        return self._idleness.on_node(change)

    async def reconcile(self, _: str) -> Requeue | None:
        """Make a pass; tell when the next is due."""
        if not self._mirror.synced():
            return _UNSYNCED
        await self._commands.take_back()
        self._idleness.short = frozenset()
        dues: list[datetime] = []
        for method in METHODS:
            turn = await self._turn(method)
            if turn.acted:
                return _AT_ONCE
            if turn.due is not None:
                dues.append(turn.due)
        return Requeue(min(dues) - self._loop.now()) if dues else None

    async def _turn(self, method: Method) -> _Turn:
        """Give a method its turn: whom it wants, what budgets allow, what it decides."""
        now = self._loop.now()
        proposal = self._proposals.get(method.reason)
        if proposal is not None and now < proposal.at:
            return _Turn(due=proposal.at)
        pace = self._idleness.paces[method.reason] if method.looks_at_all else None
        if pace is not None and proposal is None and now < pace.due(now):
            return _Turn(due=pace.due(now))
        if pace is not None and proposal is None:
            pace.looks()
        found = await self._survey.look_round(method, now)
        if proposal is not None:
            return await self._confirm(method, found)
        if not found.candidates:
            if pace is not None:
                pace.looked(now, nodes=0, found=False, again=found.due)
            return _Turn(due=found.due)
        return await self._decide(method, found)

    async def _decide(self, method: Method, found: Found) -> _Turn:
        now = self._loop.now()
        room = self._survey.rooms(found.candidates, method, now)
        self._is_short(one for one in found.candidates if not room[one.pool.name])
        question = Question(
            candidates=found.candidates,
            room=room,
            spare=self._survey.spare(found.candidates),
            settings=self._consolidation,
            scheduling=self._settings,
        )
        decision = Decision()
        if any(room.values()):
            decision = await self._answer(method, question, found.ripe)
        elif method.looks_at_all:
            self._idleness.paces[method.reason].touch()
        self._is_short(decision.over_budget)
        self._stays.note(decision.stays)
        if method.settle:
            return await self._propose(method, found, decision)
        self._announcements.held(found.candidates, decision.stays)
        acted = await self._begin(method, decision.moves)
        return _Turn(acted, _earlier(found.due, now + LOOK_AGAIN))

    async def _answer(self, method: Method, question: Question, ripe: datetime | None) -> Decision:
        """Have a method decide; with the whole cluster before it that takes a while."""
        if not method.looks_at_all:
            return method.decide(question)
        pace, now = self._idleness.paces[method.reason], self._loop.now()
        view = self._survey.view(question.candidates, now)
        asked = msgspec.structs.replace(question, view=view)
        decision = await self._offload.run(lambda: method.decide(asked))
        then = self._loop.now()
        self._metrics.observe(
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
            (then - now).total_seconds(),
            reason=method.reason.lower(),
            consolidation_type="" if not method.settle else "multi",
        )
        pace.looked(
            then,
            nodes=len(view.snapshot.nodes),
            found=bool(decision.moves),
            again=then if decision.over_budget else ripe,
        )
        return decision

    async def _propose(self, method: Method, found: Found, decision: Decision) -> _Turn:
        """Wait before anything is done: a cluster in motion changes its mind."""
        known = {one.node.name: one for one in found.candidates}
        for first in range(0, len(decision.stays), AT_A_STRETCH):
            self._announcements.stays(known, decision.stays[first : first + AT_A_STRETCH])
            await self._loop.sleep(timedelta())
        now = self._loop.now()
        if not decision.moves:
            due = max(self._idleness.paces[method.reason].due(now), now + LOOK_AGAIN)
            return _Turn(due=_earlier(found.due, due))
        for move in decision.moves:
            self._announcements.proposed(move)
        proposal = _Proposal(decision.moves, now + method.settle)
        self._proposals[method.reason] = proposal
        return _Turn(due=proposal.at)

    async def _confirm(self, method: Method, found: Found) -> _Turn:
        """Act on what was proposed, as far as it still holds."""
        now = self._loop.now()
        moves = self._proposals.pop(method.reason).moves
        room = self._survey.rooms(found.candidates, method, now)
        view = self._survey.view(found.candidates, now)
        holding, objections = await self._offload.run(
            lambda: confirm(moves, view, room, self._settings)
        )
        for move, objection in objections:
            self._announcements.rejected(move, objection.code, objection.because)
            if objection.code != "scheduling":
                self._metrics.count(
                    "karpenter_voluntary_disruption_failed_validations_total",
                    len(move.removed),
                    consolidation_type=method.label(move),
                )
        acted = await self._begin(method, holding)
        return _Turn(acted, _earlier(found.due, self._idleness.paces[method.reason].due(now)))

    async def _begin(self, method: Method, moves: tuple[Move, ...]) -> bool:
        """Begin moves; tell whether anything came of it."""
        moves = self._within_budgets(method, moves)
        if not moves:
            return False

        def still_wanted(one: Candidate) -> bool:
            return self._survey.is_still_wanted(one, method, self._loop.now())

        results = await self._loop.together(
            [
                self._commands.begin(move, _why(method, move), still_wanted=still_wanted)
                for move in moves
            ]
        )
        going = [one for one in results if not isinstance(one, Exception)]
        errors = [one for one in results if isinstance(one, Exception)]
        if errors and not any(going):
            raise errors[0]
        for error in errors:
            self._log.error("disrupting node", error=str(error))
        for move in moves:
            for one in move.removed:
                self._stays.forget(one.node.name)
        if errors or not all(going):
            await self._commands.take_back()
        return any(going)

    def _within_budgets(self, method: Method, moves: tuple[Move, ...]) -> tuple[Move, ...]:
        """Return the moves that budgets allow even now: thinking takes time."""
        removed = [one for move in moves for one in move.removed]
        room = self._survey.rooms(removed, method, self._loop.now())
        allowed: list[Move] = []
        for move in moves:
            for one in move.removed:
                room[one.pool.name] -= 1
            if min(room[one.pool.name] for one in move.removed) >= 0:
                allowed.append(move)
                continue
            for one in move.removed:
                room[one.pool.name] += 1
        return tuple(allowed)

    def _is_short(self, held_back: Iterable[Candidate]) -> None:
        """Remember whose budget is used up: when one of theirs has gone, it is looked again."""
        self._idleness.short |= {one.pool.name for one in held_back}


def _why(method: Method, move: Move) -> Why:
    buys = bool(move.replacements or move.from_template)
    return Why(method.reason, method.label(move), "replace" if buys else "delete")


def _earlier(one: datetime | None, other: datetime) -> datetime:
    return other if one is None else min(one, other)
