"""Importer of kube-state-metrics through Prometheus' HTTP API.

The series say how many replicas workloads had, what their pods requested and when tasks
started and ended. They do not have affinity, spread, tolerations or NodePools.
"""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from dovetail import __version__
from dovetail.errors import DovetailError
from dovetail.record.importers.metrics import METRICS, Metric, SeriesMerger
from dovetail.record.importers.workload_series import build_events
from dovetail.trace.model import Event, Header

_MAX_POINTS: Final = 10_000
"""Points per series and request; Prometheus rejects more than 11,000."""
_TIMEOUT: Final = 120.0
"""Seconds for one request."""
ASSUMPTIONS: Final = (
    "pods have requests only: kube-state-metrics has no affinity, spread, tolerations, volumes or budgets",
    "NodePools are not in the trace; a replay needs a file with some",
    "the requests of a workload are those of its first pod in the range",
)


class _Result(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct, rename="camel"):
    result: list[_Result]


class _Response(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""


class PrometheusImport(msgspec.Struct, frozen=True, kw_only=True):
    """Where and what to read."""

    url: str
    start: datetime
    end: datetime
    step: int
    """Seconds between two points."""
    selector: str = ""
    """Further label matchers, such as ``cluster="prod"``."""
    token: str = ""

    def read(self) -> tuple[Header, Iterator[Event]]:
        """Read all series; raise ``DovetailError`` if there are none or the server fails."""
        mergers = asyncio.run(self._read_all())
        read = {use: merger.merge() for use, merger in mergers.items()}
        if not read["deployments"] and not read["statefulsets"] and not read["starts"]:
            raise DovetailError(
                f"{self.url} has no series of kube-state-metrics between {self.start:%Y-%m-%dT%H:%MZ} and "
                f"{self.end:%Y-%m-%dT%H:%MZ}; check the range and --selector"
            )
        clusters = sorted(set[str]().union(*(merger.clusters for merger in mergers.values())))
        if len(clusters) > 1:
            raise DovetailError(
                f"{self.url} has series of the clusters {', '.join(clusters)}; choose one with "
                f"--selector 'cluster=\"{clusters[0]}\"'"
            )
        last = max(series.samples[-1].at for merged in read.values() for series in merged)
        header = Header(
            written_by=f"dovetail trace import prometheus {__version__}",
            start=self.start,
            assumptions=(*ASSUMPTIONS, *self._describe(mergers, last)),
        )
        # Without samples of anything, nothing is known: objects that end with the last one were not deleted.
        end = min(self.end.timestamp(), last)
        events = build_events(read, start=self.start.timestamp(), end=end, step=self.step)
        return header, events

    def _describe(self, mergers: Mapping[str, SeriesMerger], last: float) -> Iterator[str]:
        """Yield what the series do not have, as sentences."""
        yield f"times have a resolution of {self.step} s"
        replaced = sorted(set[str]().union(*(merger.replaced for merger in mergers.values())))
        if replaced:
            labels = ", ".join(f"exported_{name}" for name in replaced)
            yield f"Prometheus scrapes kube-state-metrics without honor_labels; {labels} were read instead"
        if self.end.timestamp() - last >= 2 * self.step:
            yield f"Prometheus has no samples after {datetime.fromtimestamp(last, UTC):%Y-%m-%dT%H:%M:%SZ}"
        for use, merger in mergers.items():
            if merger.is_empty:
                yield f"Prometheus has no series of {METRICS[use].name}"

    async def _read_all(self) -> dict[str, SeriesMerger]:
        if not _is_http(self.url):
            raise DovetailError(f"{self.url} is not the URL of a Prometheus, such as http://127.0.0.1:9090")
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
        async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
            return {use: await self._read(session, metric) for use, metric in METRICS.items()}

    async def _read(self, session: aiohttp.ClientSession, metric: Metric) -> SeriesMerger:
        """Read a metric over the whole range, in parts that Prometheus accepts."""
        merger = SeriesMerger(metric)
        begin, end = self.start.timestamp(), self.end.timestamp()
        while begin <= end:
            until = min(end, begin + self.step * _MAX_POINTS)
            for result in await self._query(session, metric.name, begin, until):
                merger.add(result.metric, result.values)
            begin = until + self.step
        return merger

    async def _query(
        self, session: aiohttp.ClientSession, metric: str, begin: float, until: float
    ) -> list[_Result]:
        form = {
            "query": f"{metric}{{{self.selector}}}" if self.selector else metric,
            "start": f"{begin:.3f}",
            "end": f"{until:.3f}",
            "step": str(self.step),
        }
        address = f"{self.url.rstrip('/')}/api/v1/query_range"
        try:
            async with session.post(address, data=form) as response:
                body = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise DovetailError(f"{self.url} does not answer: {error or type(error).__name__}") from error
        try:
            decoded = msgspec.json.decode(body, type=_Response)
        except msgspec.MsgspecError as error:
            raise DovetailError(
                f"{address} is not the API of a Prometheus (HTTP {response.status}): {body[:80]!r}"
            ) from error
        if decoded.status != "success" or decoded.data is None:
            raise DovetailError(f"{self.url}: {metric}: {decoded.error or f'HTTP {response.status}'}")
        return decoded.data.result


def _is_http(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False


def to_utc(time: datetime) -> datetime:
    """Return a time in UTC, in whole seconds."""
    return time.astimezone(UTC).replace(microsecond=0)
