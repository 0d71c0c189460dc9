"""Plain tables of the view, for a pipe or one look."""

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from dovetail.cli.output.console import columns
from dovetail.cli.top.details import summarize
from dovetail.cli.top.format import format_age, format_price, get_share
from dovetail.cli.top.lists import (
    PENDING_COLUMNS,
    describe_pending,
    describe_why,
    fit_columns,
    longest_waiting_first,
    node_columns,
    render_cells,
    render_titles,
)
from dovetail.dashboard.sources.source import ViewUpdate
from dovetail.view.document import NodeView, View

_TITLES: Final = "NODE TYPE NODEPOOL ZONE CAPACITY CPU MEMORY PODS AGE $/HOUR WHY".split()
_RIGHT: Final = frozenset({5, 6, 7, 8, 9})


def format_once(
    update: ViewUpdate, nodes: list[NodeView], *, width: int | None, ascii_only: bool = False
) -> Iterator[Text]:
    """Yield the lines; ``width`` of the terminal, or None for a pipe: nothing is cut."""
    view = update.view
    yield from summarize(view, update.status, bars=False)
    for notice in view.notices.values():
        remedy = f" ({notice.remedy})" if notice.remedy else ""
        yield Text(f"note: {notice.message}{remedy}", style="yellow")
    yield Text()
    if nodes:
        yield from _format_nodes(nodes, view, width, ascii_only)
    else:
        yield Text("No node matches the filter." if view.nodes else "There are no nodes.")
    pending = longest_waiting_first(view)
    if pending:
        yield Text()
        yield Text("Pending pods", style="bold")
    if width is None:
        rows = [[pod.key, format_age(pod.created_at, view.at), describe_pending(pod)] for pod in pending]
        yield from (Text(line.rstrip()) for line in columns(rows))
    else:
        fitted = fit_columns(PENDING_COLUMNS, width)
        yield from (render_cells(pod, view, fitted) for pod in pending)
    if view.cluster.prices:
        yield Text()
        yield Text(f"Prices: {view.cluster.prices}.", style="dim")


def _format_nodes(nodes: list[NodeView], view: View, width: int | None, ascii_only: bool) -> Iterator[Text]:
    if width is not None:
        fitted = fit_columns(node_columns(view, ascii_only=ascii_only), width)
        yield render_titles(fitted)
        yield from (render_cells(node, view, fitted) for node in nodes)
        return
    rows = [_row(node, view) for node in nodes]
    header, *lines = columns([_TITLES, *rows], _RIGHT)
    yield Text(header, style="bold")
    yield from (Text(line.rstrip()) for line in lines)


def _row(node: NodeView, view: View) -> list[str]:
    return [
        node.name,
        node.instance_type or "-",
        node.node_pool or "-",
        node.zone or "-",
        node.capacity_type or "-",
        f"{get_share(node.cpu):.0%}",
        f"{get_share(node.memory):.0%}",
        str(node.pods.requested),
        format_age(node.created_at, view.at),
        format_price(node.price_per_hour),
        describe_why(node).plain,
    ]
