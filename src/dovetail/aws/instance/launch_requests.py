"""Launch requests, recorded on NodeClaims for the next process.

Before CreateFleet, its client token is written to an annotation of every claim::

    dovetail.sh/launch-request: 2026-01-01T09:00:00Z/3f9a01…

A process that is killed leaves requests behind that EC2 may still carry out, and
instances that DescribeInstances does not show yet. The next process uses the recorded
token for the same claims. EC2 then launches for the first request with that token only,
whichever arrives first:

- It has no request with the token: this one launches.
- It has an equal request: its response is repeated.
- It has another request, because prices or batches changed: an error. The instances are
  found by tag. If they are not within ``SETTLED_AFTER``, there are none: a new token.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.codec.quantities import encode_time
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.labels import LAUNCH_REQUEST_ANNOTATION

SETTLED_AFTER: Final = timedelta(minutes=2)
"""After this time, EC2 has carried out a request and shows all of its instances."""
_MAX_ANSWERED: Final = 20_000

RecordRequest = Callable[[Sequence[NodeClaim], str], Awaitable[None]]
"""Writes the annotation to all claims; raises ``DovetailError`` if it cannot."""


class LaunchRequest(msgspec.Struct, frozen=True):
    """The last request for a claim, as the annotation records it."""

    at: datetime
    client_token: str


def decode_launch_request(claim: NodeClaim) -> LaunchRequest | None:
    """Return the recorded request of a claim; None if there is none, or it is invalid."""
    time, _, token = claim.annotations.get(LAUNCH_REQUEST_ANNOTATION, "").partition("/")
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        return None
    return LaunchRequest(at, token) if token and at.tzinfo is not None else None


def encode_launch_request(request: LaunchRequest) -> str:
    """Return the value of the annotation."""
    return f"{encode_time(request.at)}/{request.client_token}"


class LaunchRequests:
    """Recorded requests, and which of them EC2 has answered to this process."""

    def __init__(self, record: RecordRequest) -> None:
        self._record = record
        self._answered: dict[str, None] = {}
        """Client tokens, oldest first: they launch nothing any more."""

    def open_request(self, claims: Iterable[NodeClaim]) -> LaunchRequest | None:
        """Return the request that all claims have in common, unless it was answered."""
        requests = {decode_launch_request(claim) for claim in claims}
        request = requests.pop()
        if requests or request is None or request.client_token in self._answered:
            return None
        return request

    def open_token(self, claim: NodeClaim) -> str:
        """Return the client token of a claim's open request; or empty."""
        request = self.open_request([claim])
        return "" if request is None else request.client_token

    async def record(self, claims: Sequence[NodeClaim], request: LaunchRequest) -> None:
        """Record a request on its claims, before it is sent."""
        await self._record(claims, encode_launch_request(request))

    def mark_answered(self, client_token: str) -> None:
        """Record that EC2 has answered a request, or that it has launched nothing."""
        self._answered[client_token] = None
        if len(self._answered) > _MAX_ANSWERED:
            del self._answered[next(iter(self._answered))]


async def record_nothing(_: Sequence[NodeClaim], __: str) -> None:
    """Do nothing: requests do not survive this process."""
