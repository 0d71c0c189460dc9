"""Takes, keeps and gives up a Lease, and guards what only its holder may do."""

import asyncio
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.kube.leaderelection.lease import (
    GIVEN_UP,
    USUAL,
    Candidate,
    LeaseLost,
    Move,
    NotLeading,
    Record,
    Timing,
)
from dovetail.ports.api_resources import LEASES
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube, Object
from dovetail.ports.kube_errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import Log

OURS: Final = "_dovetail-"
"""In every identity, so that our own lease is not taken for Karpenter's."""
_SHARE: Final = 0.5
"""Of the deadline, for one try: a server that hangs must leave time for another."""
_LAST_WORD: Final = 1.0
"""Seconds for giving the lease up."""


class Place(msgspec.Struct, frozen=True):
    """Which Lease."""

    name: str
    namespace: str


class NoPlace(DovetailError):
    """There cannot be a Lease where it should be."""


class Elector:
    """Keeps one Lease; needs a connection that no guard of ours stands before."""

    def __init__(
        self,
        kube: Kube,
        place: Place,
        *,
        me: str,
        clock: Callable[[], float],
        loop: Loop,
        chance: Chance,
        log: Log,
        timing: Timing = USUAL,
    ) -> None:
        self._kube = kube
        self._place = place
        self._clock = clock
        self._loop = loop
        self._chance = chance
        self._log = log
        self._timing = timing
        self._candidate = Candidate(me, timing)
        self._told_of = ""

    def leads(self) -> bool:
        """Tell whether nobody else can be leading now."""
        return self._candidate.leads(now=self._clock())

    def guard(self) -> None:
        """Raise ``NotLeading`` unless nobody else can be leading now."""
        if not self.leads():
            raise NotLeading("another replica may be leading; this one writes nothing more")

    async def win(self) -> None:
        """Come back as the leader, however long that takes; raises when it never can be."""
        while not self.leads():
            try:
                async with asyncio.timeout(self._timing.renew_deadline * _SHARE):
                    await self._read()
                    self._tell_who_leads()
                    await self._step()
            except (Forbidden, Invalid, NoPlace):
                raise
            except (DovetailError, TimeoutError) as error:
                self._log.info("cannot reach the lease", lease=self._shown, error=_why(error))
            if not self.leads():
                await self._wait()
        self._log.info("became the leader", lease=self._shown, identity=self._candidate.me)

    async def keep(self) -> LeaseLost:
        """Renew for as long as that succeeds; come back with what went wrong then."""
        complaint = ""
        while True:
            await self._wait()
            if self._candidate.has_lost(now=self._clock()):
                return LeaseLost(f"lost the lease {self._shown}: {self._how_lost()}{complaint}")
            complaint = ""
            try:
                async with asyncio.timeout(self._timing.renew_deadline * _SHARE):
                    await self._step()
            except (DovetailError, TimeoutError) as error:
                complaint = f": {_why(error)}"
                self._log.info("cannot renew the lease", lease=self._shown, error=_why(error))

    async def give_up(self) -> None:
        """Lead no more, and let the others know; they need not wait then."""
        led = self.leads()
        self._candidate.resign()
        seen = self._candidate.seen
        if not led or seen is None:
            return
        spec = {"holderIdentity": "", "leaseDurationSeconds": GIVEN_UP, "renewTime": self._moment()}
        try:
            async with asyncio.timeout(_LAST_WORD):
                await self._patch(seen.revision, spec)
        except (DovetailError, TimeoutError) as error:
            self._log.info("the lease was not given up", lease=self._shown, error=_why(error))
        else:
            self._log.info("gave up the lease", lease=self._shown)

    def _how_lost(self) -> str:
        seen = self._candidate.seen
        if seen is None:
            return "somebody has deleted it"
        if seen.holder != self._candidate.me:
            return "somebody else has taken it"
        return "it could not be renewed in time"

    @property
    def _shown(self) -> str:
        return f"{self._place.namespace}/{self._place.name}"

    async def _step(self) -> None:
        """Do what the lease as last seen asks for; when that was too old, read it again."""
        began = self._clock()
        move = self._candidate.move(now=began)
        if move is Move.WAIT:
            return
        try:
            answer = await self._write(move)
        except (AlreadyExists, Conflict, NotFound) as error:
            if move is Move.CREATE and isinstance(error, NotFound):
                what = f"there is no namespace {self._place.namespace!r} for the lease"
                raise NoPlace(f"{what} {self._place.name}") from error
            # Somebody was quicker, or an answer to us got lost.
            await self._read()
            return
        self._candidate.wrote(_record(answer), began=began, now=self._clock())

    async def _read(self) -> None:
        try:
            found = await self._kube.get(LEASES, self._place.name, self._place.namespace)
        except NotFound:
            self._candidate.saw(None, now=self._clock())
        else:
            self._candidate.saw(_record(found), now=self._clock())

    async def _write(self, move: Move) -> Object:
        now, seen = self._moment(), self._candidate.seen
        spec: Object = {
            "holderIdentity": self._candidate.me,
            "leaseDurationSeconds": round(self._timing.duration),
            "renewTime": now,
        }
        if seen is None:
            spec |= {"acquireTime": now, "leaseTransitions": 0}
            lease = {"metadata": {"name": self._place.name}, "spec": spec}
            return await self._kube.create(LEASES, lease, self._place.namespace)
        if move is Move.TAKE:
            spec |= {"acquireTime": now, "leaseTransitions": seen.transitions + 1}
        return await self._patch(seen.revision, spec)

    async def _patch(self, revision: str, spec: Object) -> Object:
        patch = {"metadata": {"resourceVersion": revision}, "spec": spec}
        return await self._kube.patch(LEASES, self._place.name, patch, self._place.namespace)

    async def _wait(self) -> None:
        seconds = self._timing.retry * (1 + self._timing.jitter * self._chance.fraction())
        await self._loop.sleep(timedelta(seconds=seconds))

    def _tell_who_leads(self) -> None:
        seen = self._candidate.seen
        holder = seen.holder if seen is not None else ""
        if holder and holder not in (self._told_of, self._candidate.me):
            self._told_of = holder
            self._log.info("another replica leads; standing by", leader=holder)

    def _moment(self) -> str:
        return self._loop.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _record(lease: Object) -> Record:
    spec = lease.get("spec") or {}
    return Record(
        holder=str(spec.get("holderIdentity") or ""),
        duration=float(spec.get("leaseDurationSeconds") or 0),
        transitions=int(spec.get("leaseTransitions") or 0),
        revision=lease["metadata"]["resourceVersion"],
    )


def _why(error: Exception) -> str:
    return str(error) or "it takes too long"
