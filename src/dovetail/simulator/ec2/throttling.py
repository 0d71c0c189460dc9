"""The API operations of virtual EC2: how often they may be called, and when they fail."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from dovetail.simulator.ec2.errors import INTERNAL, Ec2Error


class Operation(StrEnum):
    """The calls that adapters make, by EC2's names."""

    CREATE_FLEET = "CreateFleet"
    DESCRIBE_INSTANCES = "DescribeInstances"
    DESCRIBE_NETWORK = "DescribeSubnets"
    """Stands for all that a node class is resolved with: subnets, groups, images, profiles."""
    TERMINATE_INSTANCES = "TerminateInstances"


class Rate(msgspec.Struct, frozen=True):
    """A token bucket: so many calls a second, and so many at once after a rest."""

    per_second: float
    burst: float


_READING: Final = Rate(20, 100)
RATES: Final[Mapping[Operation, Rate]] = {
    Operation.CREATE_FLEET: Rate(5, 50),
    Operation.TERMINATE_INSTANCES: Rate(5, 100),
    Operation.DESCRIBE_INSTANCES: _READING,
    Operation.DESCRIBE_NETWORK: _READING,
}
UNLIMITED: Final[Mapping[Operation, Rate]] = {}


class Throttle:
    """Says which calls are too many."""

    def __init__(self, rates: Mapping[Operation, Rate]) -> None:
        self._rates = rates
        self._left: dict[Operation, tuple[float, datetime]] = {}

    def admits(self, operation: Operation, now: datetime) -> bool:
        """Take a token; False when there is none."""
        rate = self._rates.get(operation)
        if rate is None:
            return True
        tokens, since = self._left.get(operation, (rate.burst, now))
        tokens = min(rate.burst, tokens + rate.per_second * (now - since).total_seconds())
        admitted = tokens >= 1
        self._left[operation] = (tokens - admitted, now)
        return admitted


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A failure by script."""

    operation: Operation
    nth: int = 1
    """Which call from now on is the first to fail."""
    times: int = 1
    """How many calls in a row fail."""
    code: str = INTERNAL
    after_effect: bool = False
    """What was asked for is done, and only the answer is an error."""

    def error(self) -> Ec2Error:
        return Ec2Error(self.code, f"{self.operation} was scripted to fail")


class Faults:
    """The failures still to come."""

    def __init__(self) -> None:
        self._coming: list[tuple[Fault, int]] = []
        """With the number of calls seen since it was scripted."""

    def script(self, fault: Fault) -> None:
        """Have some later call fail."""
        self._coming.append((fault, 0))

    def of_call(self, operation: Operation) -> Fault | None:
        """Count a call; return the fault that strikes it."""
        struck: Fault | None = None
        coming = []
        for fault, seen in self._coming:
            if fault.operation == operation:
                seen += 1
                if struck is None and seen >= fault.nth:
                    struck = fault
            if seen < fault.nth + fault.times - 1:
                coming.append((fault, seen))
        self._coming = coming
        return struck
