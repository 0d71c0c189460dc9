"""Faults of a soak, and the clock that stops while one is under way."""

from collections import Counter
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import TypeVar

from dovetail.ports.kube_client import KubeClient
from dovetail.ports.kube_errors import (
    ApiError,
    Conflict,
    InternalError,
    Timeout,
    TooManyRequests,
    Unavailable,
)
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.environment import SeededRandomSource
from tests.support.kube.forwarding_client import READS, ForwardingKubeClient, Request

T = TypeVar("T")
BACKGROUND = 0.002
"""Share of the requests to the API server that fail at any time."""
_BEFORE_EFFECT: tuple[type[ApiError], ...] = (Unavailable, InternalError, Timeout, TooManyRequests)
_LOST_RESPONSES = 0.3
"""Share of the failed writes that took effect."""


class ApiErrorInjector:
    """Share of failing requests, and what has failed so far."""

    def __init__(self, random: SeededRandomSource) -> None:
        self.random = random
        self.share = BACKGROUND
        self.injected: Counter[str] = Counter()


class FaultyKubeClient(ForwardingKubeClient):
    """KubeClient of the controllers; some requests fail before or after their effect."""

    def __init__(self, kube: KubeClient, injector: ApiErrorInjector) -> None:
        super().__init__(kube)
        self._api_errors = injector

    async def forward(self, request: Request, response: Awaitable[T]) -> T:
        injector = self._api_errors
        if injector.random.random() >= injector.share:
            return await response
        is_write = request.verb not in READS
        if is_write and injector.random.random() < _LOST_RESPONSES:
            injector.injected["response lost"] += 1
            await response
            raise Unavailable("the response was lost")
        errors = (*_BEFORE_EFFECT, Conflict) if request.verb == "patch" else _BEFORE_EFFECT
        error = errors[int(injector.random.random() * len(errors))]
        injector.injected[error.reason] += 1
        getattr(response, "close", lambda: None)()
        raise error(f"injected into {request.verb} {request.resource.plural}")


class UndisturbedTime:
    """Time without disturbances: it stands still while one is under way.

    Bounds on recovery are measured in it, so that a fault neither excuses what happens
    later nor counts against the controllers.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._elapsed = timedelta()
        self._since = clock.now()
        self._disturbed_until = clock.now()

    def disturb(self, duration: timedelta) -> None:
        """Stop for a duration from now on; overlapping disturbances count once."""
        self.elapsed()
        self._disturbed_until = max(self._disturbed_until, self._clock.now() + duration)

    def elapsed(self) -> timedelta:
        """Return the undisturbed time since the beginning."""
        now = self._clock.now()
        self._elapsed += max(timedelta(), now - max(self._since, min(self._disturbed_until, now)))
        self._since = now
        return self._elapsed

    def now(self) -> datetime:
        return self._clock.now()
