"""EC2 API operations: rate limits and injected errors."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from dovetail.simulator.ec2.errors import INTERNAL, Ec2Error


class Operation(StrEnum):
    """API operations that adapters call, by EC2's names."""

    CREATE_FLEET = "CreateFleet"
    DESCRIBE_INSTANCES = "DescribeInstances"
    DESCRIBE_NETWORK = "DescribeSubnets"
    """Stands for all calls that resolve a node class."""
    TERMINATE_INSTANCES = "TerminateInstances"


class Rate(msgspec.Struct, frozen=True):
    """Token bucket: rate per second, and burst."""

    per_second: float
    burst: float


_DESCRIBE_RATE: Final = Rate(20, 100)
RATES: Final[Mapping[Operation, Rate]] = {
    Operation.CREATE_FLEET: Rate(5, 50),
    Operation.TERMINATE_INSTANCES: Rate(5, 100),
    Operation.DESCRIBE_INSTANCES: _DESCRIBE_RATE,
    Operation.DESCRIBE_NETWORK: _DESCRIBE_RATE,
}
UNLIMITED: Final[Mapping[Operation, Rate]] = {}


class Throttle:
    """Token buckets of all operations."""

    def __init__(self, rates: Mapping[Operation, Rate]) -> None:
        self._rates = rates
        self._buckets: dict[Operation, tuple[float, datetime]] = {}

    def try_acquire(self, operation: Operation, now: datetime) -> bool:
        """Take a token; return False if there is none."""
        rate = self._rates.get(operation)
        if rate is None:
            return True
        tokens, since = self._buckets.get(operation, (rate.burst, now))
        tokens = min(rate.burst, tokens + rate.per_second * (now - since).total_seconds())
        admitted = tokens >= 1
        self._buckets[operation] = (tokens - admitted, now)
        return admitted


class InjectedError(msgspec.Struct, frozen=True, kw_only=True):
    """An error that calls to an operation return."""

    operation: Operation
    nth: int = 1
    """The first call that fails, counted from now on."""
    times: int = 1
    """Number of calls in a row that fail."""
    code: str = INTERNAL
    after_effect: bool = False
    """The call takes effect, and only its response is an error."""

    def to_exception(self) -> Ec2Error:
        return Ec2Error(self.code, f"{self.operation} failed by an injected error")


class ErrorInjector:
    """Injected errors that are still to be returned."""

    def __init__(self) -> None:
        self._pending: list[tuple[InjectedError, int]] = []
        """Each with the number of calls since it was injected."""

    def inject(self, injected: InjectedError) -> None:
        """Make a later call fail."""
        self._pending.append((injected, 0))

    def match_call(self, operation: Operation) -> InjectedError | None:
        """Count a call; return the error that it must fail with, if any."""
        matched: InjectedError | None = None
        pending = []
        for injected, calls in self._pending:
            if injected.operation == operation:
                calls += 1
                if matched is None and calls >= injected.nth:
                    matched = injected
            if calls < injected.nth + injected.times - 1:
                pending.append((injected, calls))
        self._pending = pending
        return matched
