"""How long things take on a simulated node."""

from datetime import timedelta

import msgspec

from dovetail.model.frozen import FrozenDict
from dovetail.ports.randomness import Chance


def _seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Every wait of a kubelet; ``jitter`` makes each longer by up to that fraction."""

    node_ready: timedelta = _seconds(5)
    """From registration until the network plugin runs."""
    devices: timedelta = _seconds(2)
    """From then until device plugins report extended resources."""
    image_pull: timedelta = _seconds(2)
    images: FrozenDict[str, timedelta] = FrozenDict()
    """Images that take another time to pull."""
    container_start: timedelta = _seconds(0.5)
    stop: timedelta = _seconds(1)
    """From the signal until a container has ended by itself."""
    jitter: float = 0.0

    def pull(self, image: str) -> timedelta:
        return self.images.get(image, self.image_pull)


class Waits:
    """Latencies as they turn out, one throw of the dice each."""

    def __init__(self, latencies: Latencies, chance: Chance | None) -> None:
        self.usual = latencies
        self._chance = chance

    def of(self, usual: timedelta) -> timedelta:
        """Return a wait of about the usual length."""
        if self._chance is None or not self.usual.jitter:
            return usual
        return usual * (1 + self.usual.jitter * self._chance.fraction())
