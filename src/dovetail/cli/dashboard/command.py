"""``dovetail dashboard``: a live view of a cluster in the browser."""

import asyncio
from typing import Any

import click
import msgspec

from dovetail.cli.dashboard.serving import serving
from dovetail.cli.options.cluster_source import ClusterSource, cluster_options
from dovetail.cli.options.dashboard_port import PORT
from dovetail.cli.options.view_source import open_source
from dovetail.cli.output.console import progress, write, write_note
from dovetail.cli.signals import stop_event
from dovetail.host.clock import SystemClock
from dovetail.host.log_writer import LineLog


@click.command(
    epilog="Exit codes: 0 stopped by Ctrl-C or SIGTERM; 1 bad input, or a cluster that cannot be read."
)
@click.option("--port", type=PORT, default=0, help="Port on 127.0.0.1. Default: a free one.")
@cluster_options
def dashboard(port: int, **options: Any) -> None:
    """Serve a live view of a cluster to the browser.

    Nodes with their pods, prices and why they are kept; pending pods with reasons; decisions and
    what they save. Reads a live cluster (also a sandbox) or a dump, and changes nothing. The page
    is served on 127.0.0.1 only, to bearers of the token in the printed link.
    """
    asyncio.run(_serve(msgspec.convert(options, ClusterSource), port))


async def _serve(cluster: ClusterSource, port: int) -> None:
    stop = stop_event()
    # Only errors: the page itself shows a lost connection.
    log = LineLog(write_note, clock=SystemClock(), level="error", form="text")
    source = open_source(cluster, log)
    try:
        with progress("Reading the cluster"):
            await source.start()
        async with serving(source, port) as served:
            write(f"The dashboard is at {served.url}\nCtrl-C ends it.")
            await stop.wait()
    finally:
        await source.close()
