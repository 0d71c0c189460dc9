"""``dovetail top``: nodes of a cluster, their price and why each is kept, in the terminal."""

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from dovetail.cli.options.cluster_source import ClusterSource, source_options
from dovetail.cli.output.console import progress, supports_live_view, write, write_lines

if TYPE_CHECKING:
    from dovetail.dashboard.sources.source import ViewSource, ViewUpdate

_SORTS: Final = ("price", "cpu", "memory", "pods", "age", "name", "type", "zone", "pool", "state", "why")
_EVALUATION_TIMEOUT_SECONDS: Final = 120.0
"""For ``--once``: the reasons of some thousand nodes take seconds."""


@click.command(
    epilog="Keys: ? shows all. Exit codes: 0 left with q, or printed; 1 bad input, or no access; "
    "130 left with Ctrl-C."
)
@source_options
@click.option("--once", is_flag=True, help="Print a plain table and exit; the default in a pipe.")
@click.option("--sort", type=click.Choice(_SORTS), default="price", show_default=True)
@click.option(
    "--filter",
    "filter_text",
    default="",
    metavar="WORDS",
    help="Show only these nodes, for example 'pool=web zone=us-east-1a cpu<30'.",
)
def top(once: bool, sort: str, filter_text: str, output: str, **options: Any) -> int:
    """Watch the nodes of a cluster: use, price, and why each is kept.

    Shows a live cluster (also a sandbox) or a dump, and changes nothing. In a pipe, and with
    --once, it prints a table. -o json prints the document of the view.
    """
    # Not at the top: help and completion load neither the solver nor the terminal library.
    from dovetail.cli.options.view_source import open_source
    from dovetail.cli.top.node_filter import parse_filter, sort_nodes

    node_filter = parse_filter(filter_text)

    chosen = msgspec.convert(options, ClusterSource)
    # A dump is read before the screen is taken over: it takes a while, and may be wrong.
    dump = open_source(chosen, _NoLog()) if chosen.cluster else None

    async def create_source() -> "ViewSource":
        return dump or open_source(chosen, _NoLog())

    if output == "table" and not once and supports_live_view():
        from dovetail.cli.top.app import TopApp

        app = TopApp(create_source, sort=sort, filter_text=filter_text)
        code = app.run()
        if app.failure is not None:
            raise app.failure
        return code or 0

    with progress("Reading the cluster"):
        update = asyncio.run(_read_once(create_source))
    if output == "json":
        from dovetail.view.document import encode_view

        write(encode_view(update.view).decode())
        return 0
    from dovetail.cli.top.once import format_once

    nodes = sort_nodes(filter(node_filter.matches, update.view.nodes.values()), sort)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    write_lines(list(format_once(update, nodes, width=width, ascii_only=ascii_only)))
    return 0


class _NoLog:
    """Log of the source: lines would break the screen; notices and status say what failed."""

    def debug(self, message: str, **fields: Any) -> None: ...

    def info(self, message: str, **fields: Any) -> None: ...

    def error(self, message: str, **fields: Any) -> None: ...


async def _read_once(create_source: Callable[[], Awaitable["ViewSource"]]) -> "ViewUpdate":
    """Return the first document that has been evaluated; another one, if that takes too long."""
    source = await create_source()
    await source.start()
    try:
        async with asyncio.timeout(_EVALUATION_TIMEOUT_SECONDS):
            async for update in source.updates():
                if update.view.totals.evaluated_at is not None or update.status.final:
                    break
    except TimeoutError:
        pass
    finally:
        update = source.current()
        await source.close()
    return update
