"""Demo in the browser: a scenario at a speed that can be watched, behind the dashboard."""

import asyncio
from collections.abc import Generator
from datetime import datetime
from typing import Final

from dovetail.cli.dashboard.serving import serving, simulation_source
from dovetail.cli.demo.cluster_view import ClusterView
from dovetail.cli.demo.playback import AdaptiveSpeed, FixedSpeed, Playback
from dovetail.cli.output.console import write, write_note
from dovetail.cli.signals import stop_event
from dovetail.dashboard.sources.source import SourceStatus
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import Scenario
from dovetail.simulator.scenario_runner import Report, ScenarioRunner

_MAX_SECONDS: Final = 90.0
"""Real seconds of adaptive playback: longer than in a terminal, since pages can be explored."""


async def run_with_dashboard(
    cluster: SimulatedCluster, scenario: Scenario, *, speed: float | None, port: int, prices: str
) -> Report | None:
    """Run once a page is open, then serve until SIGINT.

    ``speed`` is in virtual seconds per second; None: adaptive. Returns None if the demo was
    stopped before its end.
    """
    playback: Playback = FixedSpeed(speed) if speed else AdaptiveSpeed(max_seconds=_MAX_SECONDS)
    stop = stop_event()
    async with (
        simulation_source(cluster, name=f"demo {scenario.name}", prices=prices) as source,
        serving(source, port) as served,
    ):
        write(f"The dashboard is at {served.url}\nThe demo begins when the page is open. Ctrl-C ends it.")
        stopped = asyncio.ensure_future(stop.wait())
        opened = asyncio.ensure_future(served.server.wait_until_opened())
        await asyncio.wait([stopped, opened], return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        report = await _play(cluster, scenario, playback, stop)
        if report is not None:
            source.set_status(SourceStatus(final=True))
            await source.refresh()
            write_note("the demo has ended; the page stays until Ctrl-C")
            await stopped
        stopped.cancel()
        return report


async def _play(
    cluster: SimulatedCluster, scenario: Scenario, playback: Playback, stop: asyncio.Event
) -> Report | None:
    cluster_view = ClusterView(cluster)
    steps: Generator[datetime, None, Report] = ScenarioRunner(cluster, scenario).steps(every=playback.step)
    while not stop.is_set():
        try:
            next(steps)
        except StopIteration as end:
            report: Report = end.value
            return report
        await asyncio.sleep(playback.step_seconds(busy=cluster_view.poll()))
    return None
