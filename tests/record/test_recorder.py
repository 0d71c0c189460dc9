"""A recorder that loses its API server records a gap and what changed meanwhile."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from dovetail.ports.api_resources import DEPLOYMENTS, NAMESPACES
from dovetail.record.output import Rotation, TraceOutput
from dovetail.record.recorder import Recorder
from dovetail.simulator.apiserver.options import PatchType
from dovetail.trace.model import Delete, Gap, Scale
from dovetail.trace.reader import load_trace
from tests.kube.api_server import served, until
from tests.record.objects import deployment
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
