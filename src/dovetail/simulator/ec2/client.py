"""Calls to virtual EC2 as a process makes them: they take time, and may fail."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

from dovetail.ports.event_loop import Loop
from dovetail.simulator.ec2.account import VirtualEc2
from dovetail.simulator.ec2.errors import THROTTLED, Ec2Error
from dovetail.simulator.ec2.throttling import Operation

T = TypeVar("T")
_RETRIES: Final = (timedelta(seconds=1), timedelta(seconds=2))
"""How SDKs bear being throttled before they give up."""


class Ec2Client:
    """One process' connection; what the process started ends with its loop."""

    def __init__(self, ec2: VirtualEc2, *, loop: Loop) -> None:
        self._ec2 = ec2
        self._loop = loop
        times = ec2.latencies
        self._latencies = {
            Operation.CREATE_FLEET: times.create_fleet,
            Operation.DESCRIBE_INSTANCES: times.describe,
            Operation.DESCRIBE_NETWORK: times.describe,
            Operation.TERMINATE_INSTANCES: times.terminate,
        }

    async def call(self, operation: Operation, effect: Callable[[], T]) -> T:
        """Have an effect in the account; throttled calls are tried again a few times."""
        for pause in _RETRIES:
            try:
                return await self._call(operation, effect)
            except Ec2Error as error:
                if error.code != THROTTLED:
                    raise
            await self._loop.sleep(pause)
        return await self._call(operation, effect)

    async def _call(self, operation: Operation, effect: Callable[[], T]) -> T:
        """Half of the time passes on the way there, so a crash can fall on either side."""
        half = self._latencies[operation] / 2
        if half:
            await self._loop.sleep(half)
        fault = self._ec2.faults.of_call(operation)
        if not self._ec2.throttle.admits(operation, self._loop.now()):
            raise Ec2Error(THROTTLED, f"{operation}: too many requests")
        if fault is not None and not fault.after_effect:
            raise fault.error()
        result = effect()
        if half:
            await self._loop.sleep(half)
        if fault is not None:
            raise fault.error()
        return result
