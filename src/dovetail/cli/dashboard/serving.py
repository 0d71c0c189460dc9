"""Dashboard in the process of a command, with a token of its own."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dovetail.dashboard.server import DashboardServer
from dovetail.dashboard.sources.process import ProcessSource
from dovetail.dashboard.sources.source import ViewSource
from dovetail.ports.api_resources import EVENTS

if TYPE_CHECKING:
    from dovetail.simulator.cluster import SimulatedCluster

_SIMULATION_INTERVAL: Final = timedelta(seconds=0.5)
"""Real time between two documents: a simulation may be faster than real time."""


class ServedDashboard(msgspec.Struct, frozen=True, kw_only=True):
    """A dashboard that is being served."""

    url: str
    """With the token in its fragment, which browsers do not send."""
    server: DashboardServer


@asynccontextmanager
async def serving(source: ViewSource, port: int = 0) -> AsyncIterator[ServedDashboard]:
    """Serve a source that has started, with a new token, while the block runs."""
    token = secrets.token_urlsafe(32)
    server = DashboardServer(source, get_token=lambda: token)
    async with server.serving(port) as actual_port:
        yield ServedDashboard(url=f"http://127.0.0.1:{actual_port}/#token={token}", server=server)


@asynccontextmanager
async def simulation_source(
    cluster: "SimulatedCluster", *, name: str, prices: str
) -> AsyncIterator[ProcessSource]:
    """Yield a started source of a simulated cluster whose clock runs on this event loop."""

    async def list_events() -> list[dict[str, Any]]:
        return list(cluster.api.list(EVENTS).items)

    source = ProcessSource(
        cluster.operator.context,
        source="simulation",
        name=name,
        prices=prices,
        region=cluster.ec2.region.name,
        list_events=list_events,
        interval=_SIMULATION_INTERVAL,
    )
    await source.start()
    try:
        yield source
    finally:
        await source.close()
