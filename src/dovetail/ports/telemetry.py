"""Telling people and machines what was done: logs, metrics, Events."""

from datetime import timedelta
from typing import Any, Final, Protocol

from dovetail.ports.api_resources import Resource

DEDUPE = timedelta(minutes=2)


class Log(Protocol):
    """One line for each change made to the world; the message is constant, values are fields."""

    def debug(self, message: str, **fields: Any) -> None: ...

    def info(self, message: str, **fields: Any) -> None: ...

    def error(self, message: str, **fields: Any) -> None: ...


class Metrics(Protocol):
    """Counters and the like, by Karpenter's names where the thing is the same."""

    def count(self, name: str, by: float = 1, /, **labels: str) -> None: ...

    def observe(self, name: str, value: float, /, **labels: str) -> None: ...

    def gauge(self, name: str, value: float, /, **labels: str) -> None: ...


class _Untold:
    """``Metrics`` that nobody asks for."""

    def count(self, name: str, by: float = 1, /, **labels: str) -> None:
        """Leave it uncounted."""

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Leave it unobserved."""

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        """Leave it unmeasured."""


UNTOLD: Final[Metrics] = _Untold()


class Events(Protocol):
    """Kubernetes Events, which users read with ``kubectl describe``.

    Publishing never fails and never waits: an Event lost is no harm.
    """

    def publish(
        self,
        resource: Resource,
        name: str,
        *,
        reason: str,
        message: str,
        namespace: str = "",
        uid: str = "",
        warning: bool = False,
        same: tuple[str, ...] = (),
        dedupe: timedelta = DEDUPE,
    ) -> None:
        """Tell something about an object, once per ``dedupe`` for the same reason.

        ``same`` says what makes two tellings one (by default the object and the message).
        """
