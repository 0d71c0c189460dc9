"""Playback: consolidation of a cluster, played in a simulated copy to its end."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from dovetail.savings.analysis import SavingsInput
from dovetail.simulator.cluster import SimulatedCluster

LIMIT: Final = timedelta(hours=24)
"""Simulated time after which playback ends in any case."""
_STEP: Final = timedelta(minutes=10)
_QUIET_STEPS: Final = 4
"""Steps without a change of the bill that end playback: budgets and backoffs are shorter."""


def play_consolidation(source: SavingsInput, objects: Sequence[dict[str, Any]]) -> float:
    """Return the bill after the controllers have consolidated a copy, in USD per hour."""
    cluster = SimulatedCluster.from_snapshot(
        objects,
        now=source.now,
        catalog=source.catalog,
        prices=source.prices,
        settings=source.scheduling,
        region=source.region.name,
        missing=source.missing,
    )
    unmanaged = sum(record.price for record in cluster.unmanaged.values())
    price, quiet, played = cluster.ec2.billing.price_per_hour(), 0, timedelta()
    while quiet < _QUIET_STEPS and played < LIMIT:
        played += _STEP
        cluster.clock.run(until=source.now + played)
        current = cluster.ec2.billing.price_per_hour()
        quiet = quiet + 1 if abs(current - price) < 1e-9 else 0
        price = current
    return price + unmanaged
