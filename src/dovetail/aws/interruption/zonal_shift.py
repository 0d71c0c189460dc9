"""ARC zonal shift: zones that the cluster is being moved out of."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from dovetail.aws.errors import AwsError
from dovetail.aws.session import Aws
from dovetail.errors import DovetailError
from dovetail.ports.event_loop import Clock


class ArcZonalShifts:
    """``ports.cloudprovider.ZonalShifts`` by GetManagedResource; remembers the last answer.

    ``zones`` is zone → zone id: shifts speak of ids, everything else of names.
    """

    def __init__(
        self, aws: Aws, *, cluster_arn: str, zones: Callable[[], Mapping[str, str]], clock: Clock
    ) -> None:
        self._aws = aws
        self._arn = cluster_arn
        self._zones = zones
        self._clock = clock
        self._shifted: frozenset[str] = frozenset()

    async def begin(self) -> None:
        """Ask for the first time; raises when the cluster is not registered there."""
        try:
            await self.away_from()
        except AwsError as error:
            raise DovetailError(
                f"zonal shifts of {self._arn} cannot be looked up: {error}; enable zonal shift"
                " for the cluster, or leave --enable-zonal-shift out"
            ) from error

    def is_shifted(self, zone: str) -> bool:
        """Tell whether a zone was to be left alone when somebody last asked."""
        return zone in self._shifted

    async def away_from(self) -> frozenset[str]:
        client = self._aws.client("arc-zonal-shift")
        told = await self._aws.call(
            "GetManagedResource", lambda: client.get_managed_resource(resourceIdentifier=self._arn)
        )
        ids = set(shifted_ids(told, now=self._clock.now()))
        self._shifted = frozenset(zone for zone, one in self._zones().items() if one in ids)
        return self._shifted


def shifted_ids(told: Mapping[str, Any], *, now: datetime) -> Iterable[str]:
    """Return the ids of zones that are shifted away from, by hand or by AWS itself.

    A shift that has expired, or gives way to another, does not count.
    """
    for one in told.get("zonalShifts", ()):
        ends = one.get("expiryTime")
        if one.get("appliedStatus") == "APPLIED" and (ends is None or ends > now):
            yield one["awayFrom"]
    for one in told.get("autoshifts", ()):
        if one.get("appliedStatus") == "APPLIED":
            yield one["awayFrom"]
