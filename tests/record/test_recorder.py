"""A recorder that loses its API server records a gap and what changed meanwhile."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dovetail.errors import DovetailError
from dovetail.ports.api_resources import DEPLOYMENTS, NAMESPACES
from dovetail.record.output import Rotation, TraceOutput
from dovetail.record.recorder import Recorder
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.trace.model import Delete, End, Gap, Header, Scale
from dovetail.trace.reader import load_trace
from dovetail.trace.writer import TraceWriter
from tests.kube.api_server import served, until
from tests.record.objects import deployment
from tests.simulator.rest.rest_server import NOON
from tests.support.telemetry import RecordedLog


def written(path: Path) -> list[object]:
    return list(load_trace(path).events)


@pytest.mark.slow
def test_an_outage_with_a_compaction_becomes_a_gap_and_the_differences(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"

    async def record() -> None:
        async with served() as server:
            server.api.create(NAMESPACES, {"metadata": {"name": "shop"}})
            for name in ("web", "api"):
                spec = deployment(name)["spec"]
                server.api.create(DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec}, "shop")
            recorder = Recorder(server.access, TraceOutput(path, Rotation()), log=RecordedLog())
            stop = asyncio.Event()
            await recorder.start()
            running = asyncio.ensure_future(recorder.run(stop))
            await server.stop()
            server.api.delete(DEPLOYMENTS, "api", "shop")
            server.api.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 9}}, PatchType.MERGE, "shop")
            # The watches cannot be resumed: every kind is listed again.
            server.api.compact()
            await asyncio.sleep(14)
            await server.start()
            await until(lambda: any(isinstance(event, Gap) for event in written(path)), timeout=60)
            stop.set()
            await running
            await recorder.close()

    asyncio.run(record())

    events = load_trace(path).events
    assert [event.seconds >= 10 for event in events if isinstance(event, Gap)] == [True]
    assert [(event.name, event.replicas) for event in events if isinstance(event, Scale)] == [("web", 9)]
    assert [event.name for event in events if isinstance(event, Delete)] == ["api"]


@pytest.mark.slow
def test_a_recorder_that_is_stopped_in_an_outage_writes_the_gap_first(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"
    short = timedelta(seconds=1)

    async def record() -> None:
        async with served() as server:
            recorder = Recorder(
                server.access, TraceOutput(path, Rotation()), log=RecordedLog(), min_gap=short
            )
            stop = asyncio.Event()
            await recorder.start()
            running = asyncio.ensure_future(recorder.run(stop))
            await server.stop()
            await asyncio.sleep(7)
            stop.set()
            await running
            await recorder.close()

    asyncio.run(record())

    trace = load_trace(path)
    (gap,) = [event for event in trace.events if isinstance(event, Gap)]
    assert gap.seconds == pytest.approx(7, abs=2)
    assert trace.notes == ()


def test_the_trace_of_another_cluster_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"

    async def record(created: datetime) -> None:
        async with served(ApiServer(now=lambda: created)) as server:
            recorder = Recorder(server.access, TraceOutput(path, Rotation()), log=RecordedLog())
            try:
                await recorder.start()
            finally:
                await recorder.close()

    asyncio.run(record(NOON))
    asyncio.run(record(NOON))
    before = path.read_bytes()

    with pytest.raises(DovetailError, match=r"t\.jsonl\.zst is the trace of another cluster: its namespace"):
        asyncio.run(record(NOON - timedelta(days=1)))

    assert path.read_bytes() == before
    assert len([event for event in written(path) if isinstance(event, Gap)]) == 1


def test_a_trace_whose_cluster_is_unknown_is_continued_with_a_line_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"
    log = RecordedLog()
    with TraceWriter(path, Header(written_by="dovetail record 0.1.0", start=NOON)) as writer:
        writer.write(End(t=60))

    async def record() -> None:
        async with served() as server:
            recorder = Recorder(server.access, TraceOutput(path, Rotation()), log=log)
            await recorder.start()
            await recorder.close()

    asyncio.run(record())

    assert len(log.entries("the cluster of the trace is unknown; it is not compared")) == 1
    assert len([event for event in written(path) if isinstance(event, Gap)]) == 1
