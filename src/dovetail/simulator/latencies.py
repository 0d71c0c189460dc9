"""Latencies of simulated EC2 and of simulated kubelets."""

from datetime import timedelta
from typing import Final

import msgspec

from dovetail.model.frozen import FrozenDict
from dovetail.ports.randomness import RandomSource


def _seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


class CloudLatencies(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies of EC2; API calls spend half of theirs before and half after the effect."""

    create_fleet: timedelta = _seconds(0.8)
    describe: timedelta = _seconds(0.1)
    terminate: timedelta = _seconds(0.3)
    start: timedelta = _seconds(3)
    """From the launch until the instance runs and is billed."""
    boot: timedelta = _seconds(30)
    """From then until its kubelet starts."""
    boot_jitter: timedelta = _seconds(0)
    """Maximum random addition to ``boot``."""
    shutdown: timedelta = _seconds(3)
    """From TerminateInstances until the instance has terminated."""


DEFAULT_CLOUD_LATENCIES: Final = CloudLatencies()
INSTANT_API: Final = CloudLatencies(create_fleet=timedelta(), describe=timedelta(), terminate=timedelta())
"""API calls take no time; instances still take time to boot."""


class KubeletLatencies(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies of a kubelet; ``jitter`` lengthens each by up to that fraction."""

    node_ready: timedelta = _seconds(5)
    """From registration until the network plugin runs."""
    devices: timedelta = _seconds(2)
    """From then until device plugins report extended resources."""
    image_pull: timedelta = _seconds(2)
    images: FrozenDict[str, timedelta] = FrozenDict()
    """Image → time to pull, where it differs from ``image_pull``."""
    container_start: timedelta = _seconds(0.5)
    starts: FrozenDict[str, timedelta] = FrozenDict()
    """Image → time to start its container, where it differs from ``container_start``."""
    stop: timedelta = _seconds(1)
    """From SIGTERM until a container has exited by itself."""
    jitter: float = 0.0


DEFAULT_KUBELET_LATENCIES: Final = KubeletLatencies()


class LatencySampler:
    """Latencies of kubelets with random jitter."""

    def __init__(self, latencies: KubeletLatencies, random: RandomSource | None) -> None:
        self.latencies = latencies
        self._random = random

    def sample(self, default: timedelta) -> timedelta:
        """Return a latency with jitter added."""
        if self._random is None or not self.latencies.jitter:
            return default
        return default * (1 + self.latencies.jitter * self._random.random())
