"""How long things take in virtual EC2."""

from datetime import timedelta
from typing import Final

import msgspec


def _seconds(many: float) -> timedelta:
    return timedelta(seconds=many)


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """API calls take theirs half before and half after their effect."""

    create_fleet: timedelta = _seconds(0.8)
    describe: timedelta = _seconds(0.1)
    terminate: timedelta = _seconds(0.3)
    start: timedelta = _seconds(3)
    """From the launch until the instance runs, and costs."""
    boot: timedelta = _seconds(30)
    """From then until its kubelet starts."""
    boot_jitter: timedelta = _seconds(0)
    """At most so much more, by the dice."""
    shutdown: timedelta = _seconds(3)
    """From the order to terminate until the instance is gone."""

    @property
    def until_kubelet(self) -> timedelta:
        """What the cloud itself takes to bring up a node, jitter apart."""
        return self.start + self.boot


USUAL: Final = Latencies()
INSTANT_API: Final = Latencies(
    create_fleet=timedelta(), describe=timedelta(), terminate=timedelta()
)
"""Answers at once; machines still take their time to boot."""
