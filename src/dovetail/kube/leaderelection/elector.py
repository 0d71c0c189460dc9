"""Leader elector: acquires, renews and releases a Lease, and fences writes."""

import asyncio
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.kube.leaderelection.lease import (
    DEFAULT_TIMING,
    RELEASED_DURATION,
    LeaseAction,
    LeaseCandidate,
    LeaseLostError,
    LeaseRecord,
    LeaseTiming,
    NotLeaderError,
)
from dovetail.ports.api_resources import LEASES
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.kube_client import KubeClient, Object
from dovetail.ports.kube_errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from dovetail.ports.randomness import RandomSource
from dovetail.ports.telemetry import Log

IDENTITY_MARK: Final = "_dovetail-"
"""Part of every identity: distinguishes our own lease from Karpenter's."""
_ATTEMPT_FRACTION: Final = 0.5
"""Timeout of an attempt, as a fraction of the renew deadline: leaves time for another."""
_RELEASE_TIMEOUT: Final = 1.0
"""Seconds."""


class LeaseRef(msgspec.Struct, frozen=True):
    """Name and namespace of a Lease."""

    name: str
    namespace: str


class LeaseNamespaceError(DovetailError):
    """The namespace of the Lease does not exist."""


class LeaderElector:
    """Takes part in the election for one Lease.

    Its own connection must not be fenced: it writes before it leads.
    """

    def __init__(
        self,
        kube: KubeClient,
        lease: LeaseRef,
        *,
        identity: str,
        clock: Callable[[], float],
        loop: EventLoop,
        random: RandomSource,
        log: Log,
        timing: LeaseTiming = DEFAULT_TIMING,
    ) -> None:
        self._kube = kube
        self._lease = lease
        self._clock = clock
        self._loop = loop
        self._random = random
        self._log = log
        self._timing = timing
        self._candidate = LeaseCandidate(identity, timing)
        self._logged_leader = ""

    def is_leader(self) -> bool:
        """Return True if no other replica can be the leader now."""
        return self._candidate.is_leader(now=self._clock())

    def fence(self) -> None:
        """Raise ``NotLeaderError`` if another replica may be the leader."""
        if not self.is_leader():
            raise NotLeaderError("another replica may be the leader; this one does not write any more")

    async def acquire(self) -> None:
        """Return when we are the leader; raise errors that a retry does not solve."""
        while not self.is_leader():
            try:
                async with asyncio.timeout(self._timing.renew_deadline * _ATTEMPT_FRACTION):
                    await self._read()
                    self._log_leader()
                    await self._step()
            except (Forbidden, Invalid, LeaseNamespaceError):
                raise
            except (DovetailError, TimeoutError) as error:
                self._log.info("cannot reach the lease", lease=self._lease_name, error=_describe(error))
            if not self.is_leader():
                await self._wait()
        self._log.info("became the leader", lease=self._lease_name, identity=self._candidate.identity)

    async def renew(self) -> LeaseLostError:
        """Renew until the lease is lost; return the reason."""
        last_error = ""
        while True:
            await self._wait()
            if self._candidate.has_lost(now=self._clock()):
                return LeaseLostError(f"lost the lease {self._lease_name}: {self._loss_reason()}{last_error}")
            last_error = ""
            try:
                async with asyncio.timeout(self._timing.renew_deadline * _ATTEMPT_FRACTION):
                    await self._step()
            except (DovetailError, TimeoutError) as error:
                last_error = f": {_describe(error)}"
                self._log.info("cannot renew the lease", lease=self._lease_name, error=_describe(error))

    async def release(self) -> None:
        """Stop leading, and release the lease so that other replicas need not wait."""
        was_leader = self.is_leader()
        self._candidate.resign()
        observed = self._candidate.observed
        if not was_leader or observed is None:
            return
        spec = {
            "holderIdentity": "",
            "leaseDurationSeconds": RELEASED_DURATION,
            "renewTime": self._timestamp(),
        }
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT):
                await self._patch(observed.resource_version, spec)
        except (DovetailError, TimeoutError) as error:
            self._log.info("cannot release the lease", lease=self._lease_name, error=_describe(error))
        else:
            self._log.info("released the lease", lease=self._lease_name)

    def _loss_reason(self) -> str:
        observed = self._candidate.observed
        if observed is None:
            return "it was deleted"
        if observed.holder != self._candidate.identity:
            return "another replica acquired it"
        return "it could not be renewed in time"

    @property
    def _lease_name(self) -> str:
        return f"{self._lease.namespace}/{self._lease.name}"

    async def _step(self) -> None:
        """Take the next step; read the lease again if our observation was stale."""
        started = self._clock()
        action = self._candidate.next_action(now=started)
        if action is LeaseAction.WAIT:
            return
        try:
            written = await self._write(action)
        except (AlreadyExists, Conflict, NotFound) as error:
            if action is LeaseAction.CREATE and isinstance(error, NotFound):
                raise LeaseNamespaceError(
                    f"there is no namespace {self._lease.namespace!r} for the lease {self._lease.name}"
                ) from error
            # Another replica was faster, or a response to us was lost.
            await self._read()
            return
        self._candidate.record_write(_decode_record(written), started=started, now=self._clock())

    async def _read(self) -> None:
        try:
            lease = await self._kube.get(LEASES, self._lease.name, self._lease.namespace)
        except NotFound:
            self._candidate.observe(None, now=self._clock())
        else:
            self._candidate.observe(_decode_record(lease), now=self._clock())

    async def _write(self, action: LeaseAction) -> Object:
        now, observed = self._timestamp(), self._candidate.observed
        spec: Object = {
            "holderIdentity": self._candidate.identity,
            "leaseDurationSeconds": round(self._timing.lease_duration),
            "renewTime": now,
        }
        if observed is None:
            spec |= {"acquireTime": now, "leaseTransitions": 0}
            lease = {"metadata": {"name": self._lease.name}, "spec": spec}
            return await self._kube.create(LEASES, lease, self._lease.namespace)
        if action is LeaseAction.ACQUIRE:
            spec |= {"acquireTime": now, "leaseTransitions": observed.transitions + 1}
        return await self._patch(observed.resource_version, spec)

    async def _patch(self, revision: str, spec: Object) -> Object:
        patch = {"metadata": {"resourceVersion": revision}, "spec": spec}
        return await self._kube.patch(LEASES, self._lease.name, patch, self._lease.namespace)

    async def _wait(self) -> None:
        seconds = self._timing.retry_period * (1 + self._timing.jitter * self._random.random())
        await self._loop.sleep(timedelta(seconds=seconds))

    def _log_leader(self) -> None:
        observed = self._candidate.observed
        holder = observed.holder if observed is not None else ""
        if holder and holder not in (self._logged_leader, self._candidate.identity):
            self._logged_leader = holder
            self._log.info("another replica is the leader; standing by", leader=holder)

    def _timestamp(self) -> str:
        return self._loop.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _decode_record(lease: Object) -> LeaseRecord:
    spec = lease.get("spec") or {}
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        duration=float(spec.get("leaseDurationSeconds") or 0),
        transitions=int(spec.get("leaseTransitions") or 0),
        resource_version=lease["metadata"]["resourceVersion"],
    )


def _describe(error: Exception) -> str:
    return str(error) or "timeout"
