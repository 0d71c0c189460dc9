"""Zones that the cloud has been told to stay away from."""

from collections.abc import Collection
from typing import Protocol


class ZonalShifts(Protocol):
    """Zonal shifts: somebody, or AWS itself, moves work out of an impaired zone."""

    async def away_from(self) -> Collection[str]:
        """Return the zones in which nothing is to be bought, or touched, now."""
