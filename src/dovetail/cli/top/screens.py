"""Screens of ``dovetail top``: lists, details and help."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Input, Static

from dovetail.cli.output.control_characters import clean_text
from dovetail.cli.top.details import describe, summarize
from dovetail.cli.top.lists import (
    BLOCKER_COLUMNS,
    CLAIM_COLUMNS,
    DECISION_COLUMNS,
    NOTICE_COLUMNS,
    PENDING_COLUMNS,
    POD_COLUMNS,
    POOL_COLUMNS,
    Column,
    Item,
    PodRow,
    fit_columns,
    longest_waiting_first,
    most_expensive_first,
    newest_first,
    node_columns,
    pod_rows,
    render_cells,
)
from dovetail.cli.top.node_filter import SORTS, FilterError, NodeFilter, parse_filter, sort_nodes
from dovetail.cli.top.row_table import RowTable
from dovetail.dashboard.sources.source import ViewUpdate
from dovetail.view.document import NodeView, View

_MAX_NOTICES: Final = 2
"""Lines above the node list; all are in the list of notices."""
_FILTER_WIDTH: Final = 300
"""Width in which rows are searched: wide enough for every column."""

HELP: Final = """\
[b]dovetail top[/b] shows nodes with their price and the reason why each is kept. It changes nothing.

[b]Move[/b]        up, down, page up, page down, home, end; also k, j, space, g, G
[b]Open[/b]        enter: a node, a pod, a decision …     escape or left: back
[b]Filter[/b]      /  type words; all must match:
              pool=web   zone=us-east-1a,us-east-1b   type!=t3   capacity=spot
              state=draining   why=budget   workload=default/web   pod=web-0
              cpu<30   memory>80   price>0.5   pods<3   or any word
            escape clears the filter
[b]Sort[/b]        s next, S previous, r reverse:
              price, cpu, memory, pods, age, name, type, zone, pool, state, why
[b]Lists[/b]       p pending pods    d decisions          o NodePools
            b blockers        c NodeClaims in flight   n notices
[b]Leave[/b]       q or Ctrl-C

[b]CPU, MEMORY[/b]  requests of pods as a share of what is allocatable; not the use
[b]bound, gap[/b]   no fleet for the requests of all pods is cheaper than the bound
[b]blocked[/b]      what could be saved without the blockers
[b]WHY[/b]          the code of dovetail explain, and the reason; "goes": goes next
[b]$/HOUR[/b]       of a decision: the real saving; with "?" the expected one
"""


class ListKind(msgspec.Struct, frozen=True, kw_only=True):
    """A list: its title, columns and entries in order."""

    title: str
    columns: Sequence[Column]
    entries: Callable[[View], list[tuple[str, Item]]]
    empty: str


LISTS: Final[dict[str, ListKind]] = {
    "pending": ListKind(
        title="Pending pods",
        columns=PENDING_COLUMNS,
        entries=lambda view: [(pod.key, pod) for pod in longest_waiting_first(view)],
        empty="No pod is pending.",
    ),
    "decisions": ListKind(
        title="Decisions",
        columns=DECISION_COLUMNS,
        entries=lambda view: [(decision.key, decision) for decision in newest_first(view)],
        empty="No decision is recorded.",
    ),
    "pools": ListKind(
        title="NodePools",
        columns=POOL_COLUMNS,
        entries=lambda view: sorted(view.node_pools.items()),
        empty="There are no NodePools.",
    ),
    "blockers": ListKind(
        title="Blockers",
        columns=BLOCKER_COLUMNS,
        entries=lambda view: [(blocker.key, blocker) for blocker in most_expensive_first(view)],
        empty="Nothing blocks the termination of a node.",
    ),
    "claims": ListKind(
        title="NodeClaims in flight",
        columns=CLAIM_COLUMNS,
        entries=lambda view: sorted(view.node_claims.items()),
        empty="No NodeClaim is in flight.",
    ),
    "notices": ListKind(
        title="Notices",
        columns=NOTICE_COLUMNS,
        entries=lambda view: sorted(view.notices.items()),
        empty="The view is complete.",
    ),
}


class ViewScreen(Screen[None]):
    """Screen that shows a document, and each newer one."""

    AUTO_FOCUS = "RowTable"
    DEFAULT_CSS = """
    ViewScreen { layout: vertical; }
    ViewScreen Static { height: auto; }
    ViewScreen #summary { max-height: 40%; }
    ViewScreen #keys { text-style: dim; }
    ViewScreen #filter { height: 1; border: none; padding: 0; display: none; }
    ViewScreen #paragraph { height: 1fr; }
    NodeScreen #paragraph { height: auto; max-height: 60%; }
    """

    def __init__(self, update: ViewUpdate | None = None) -> None:
        super().__init__()
        self._update = update

    def show(self, update: ViewUpdate) -> None:
        """Take over a document; also called while another screen is on top."""
        self._update = update
        if self.is_mounted:
            self.render_view(update)

    def on_mount(self) -> None:
        if self._update is not None:
            self.render_view(self._update)

    def render_view(self, update: ViewUpdate) -> None:
        """Fill the widgets."""


def mark_stale(title: Text, update: ViewUpdate) -> Text:
    """Return the title, with the reason if the document is stale."""
    if update.status.stale:
        title.append(f"  STALE: {update.status.reason}", "bold red")
    return title


class ListScreen(ViewScreen):
    """A list with a filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", show=False),
        Binding("escape,left,h", "back", "Back", show=False),
    ]

    def __init__(self, kind: ListKind, update: ViewUpdate | None = None, *, filter_text: str = "") -> None:
        super().__init__(update)
        self._kind = kind
        self._filter = filter_text

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield RowTable(empty=self._kind.empty)
        yield Input(value=self._filter, placeholder="filter", id="filter", select_on_focus=False)
        yield Static("/ filter  enter details  esc back  ? help  q quit", id="keys", markup=False)

    def render_view(self, update: ViewUpdate) -> None:
        entries = self._kind.entries(update.view)
        words = self._filter.lower().split()
        fitted = fit_columns(self._kind.columns, _FILTER_WIDTH)
        items: dict[str, Item] = {
            key: item
            for key, item in entries
            if not words or self._matches(render_cells(item, update.view, fitted).plain.lower(), words)
        }
        of = f"{len(items):,} of {len(entries):,}" if words else f"{len(entries):,}"
        title = Text.assemble((self._kind.title, "bold"), f": {of}")
        self.query_one("#title", Static).update(clean_text(mark_stale(title, update)))
        self.query_one(RowTable).set_rows(list(items), self._kind.columns, update.view, items.__getitem__)

    @staticmethod
    def _matches(line: str, words: list[str]) -> bool:
        return all(word in line for word in words)

    def action_filter(self) -> None:
        entry = self.query_one("#filter", Input)
        entry.display = True
        entry.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter = event.value
        self._apply_filter()

    def on_input_submitted(self) -> None:
        self._close_filter()

    def _apply_filter(self) -> None:
        if self._update is not None:
            self.render_view(self._update)

    def _close_filter(self) -> None:
        entry = self.query_one("#filter", Input)
        entry.display = bool(entry.value)
        self.query_one(RowTable).focus()

    def action_back(self) -> None:
        entry = self.query_one("#filter", Input)
        if entry.value or entry.has_focus:
            entry.value = ""
            self._close_filter()
        elif len(self.app.screen_stack) > 1:
            self.app.pop_screen()

    def on_row_table_opened(self, event: RowTable.Opened) -> None:
        self.open_item(event.item)

    def open_item(self, item: Item) -> None:
        """Show the details of an entry."""
        kind, key = self._kind, self.query_one(RowTable).selected_key

        def find(view: View) -> Item | None:
            return dict(kind.entries(view)).get(key or "")

        self.app.push_screen(DetailScreen(item, find, self._update))


class NodesScreen(ListScreen):
    """The cluster: totals, notices and nodes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort(1)", "Sort", show=False),
        Binding("S", "sort(-1)", "Sort back", show=False),
        Binding("r", "reverse", "Reverse", show=False),
    ]

    def __init__(self, *, sort: str = "price", filter_text: str = "", ascii_only: bool = False) -> None:
        kind = ListKind(title="Nodes", columns=(), entries=lambda _: [], empty="Reading the cluster …")
        super().__init__(kind, filter_text=filter_text)
        self._sort = sort
        self._reverse = False
        self._ascii_only = ascii_only
        self._parsed = parse_filter(filter_text)

    def compose(self) -> ComposeResult:
        yield Static(id="summary", markup=False)
        yield Static(id="notices", markup=False)
        yield from super().compose()

    def on_mount(self) -> None:
        self.query_one("#filter", Input).display = bool(self._filter)
        self.query_one("#title", Static).display = False

    def render_view(self, update: ViewUpdate) -> None:
        view = update.view
        self.query_one("#summary", Static).update(clean_text(Text("\n").join(summarize(view, update.status))))
        self._show_notices(view)
        matching = [node for node in view.nodes.values() if self._parsed.matches(node)]
        ordered = sort_nodes(matching, self._sort, reverse=self._reverse)
        table = self.query_one(RowTable)
        table.set_empty("No node matches the filter." if view.nodes else "There are no nodes.")
        table.set_rows(
            [node.key for node in ordered],
            node_columns(view, ascii_only=self._ascii_only),
            view,
            view.nodes.__getitem__,
        )
        self._show_keys(len(matching), len(view.nodes))

    def _show_notices(self, view: View) -> None:
        notices = sorted(view.notices.values(), key=lambda notice: notice.code)
        lines = [Text(f"! {notice.message}", style="yellow", overflow="ellipsis") for notice in notices]
        if len(lines) > _MAX_NOTICES:
            hidden = len(lines) - _MAX_NOTICES + 1
            lines = [*lines[: _MAX_NOTICES - 1], Text(f"! {hidden} more notices: press n", style="yellow")]
        shown = self.query_one("#notices", Static)
        shown.display = bool(lines)
        shown.update(clean_text(Text("\n", no_wrap=True, overflow="ellipsis").join(lines)))

    def _show_keys(self, matching: int, nodes: int) -> None:
        order = f"{self._sort}{' reversed' if self._reverse else ''}"
        filtered = f" {matching:,} of {nodes:,}" if self._parsed.terms else ""
        self.query_one("#keys", Static).update(
            f"q quit  ? help  / filter{filtered}  s sort: {order}  p pending  d decisions  o pools"
        )

    def _apply_filter(self) -> None:
        try:
            self._parsed = parse_filter(self._filter)
        except FilterError as error:
            # The last valid filter stays in force while a term is typed.
            self.query_one("#keys", Static).update(Text(str(error), style="bold red"))
            return
        super()._apply_filter()

    def action_sort(self, step: int) -> None:
        names = list(SORTS)
        self._sort = names[(names.index(self._sort) + step) % len(names)]
        super()._apply_filter()

    def action_reverse(self) -> None:
        self._reverse = not self._reverse
        super()._apply_filter()

    def open_item(self, item: Item) -> None:
        if isinstance(item, NodeView):
            self.app.push_screen(NodeScreen(item, self._update))

    @property
    def node_filter(self) -> NodeFilter:
        """The filter in force."""
        return self._parsed


class DetailScreen(ViewScreen):
    """Everything about one object."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,left,h", "back", "Back", show=False)]
    AUTO_FOCUS = "VerticalScroll"

    def __init__(
        self, item: Item, find: Callable[[View], Item | None], update: ViewUpdate | None = None
    ) -> None:
        """``find`` returns the object in a newer document, None if it is gone."""
        super().__init__(update)
        self._item = item
        self._find = find

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        with VerticalScroll(id="paragraph"):
            yield Static(id="text", markup=False)
        yield from self.compose_below()
        yield Static("esc back  ? help  q quit", id="keys", markup=False)

    def compose_below(self) -> ComposeResult:
        """Yield the widgets below the paragraph."""
        yield from ()

    def render_view(self, update: ViewUpdate) -> None:
        current = self._find(update.view)
        self._item = current or self._item
        title = Text() if current is not None else Text("gone; this is the last that was seen", "yellow")
        shown = self.query_one("#title", Static)
        shown.update(clean_text(mark_stale(title, update)))
        shown.display = current is None or update.status.stale
        self.query_one("#text", Static).update(clean_text(Text("\n").join(describe(self._item, update.view))))

    def action_back(self) -> None:
        self.app.pop_screen()


class NodeScreen(DetailScreen):
    """A node with its pods."""

    AUTO_FOCUS = "RowTable"

    def __init__(self, node: NodeView, update: ViewUpdate | None = None) -> None:
        super().__init__(node, lambda view: view.nodes.get(node.key), update)
        self._collapsed: frozenset[str] = frozenset()

    def compose_below(self) -> ComposeResult:
        yield RowTable(empty="No pods.")

    def render_view(self, update: ViewUpdate) -> None:
        super().render_view(update)
        if isinstance(self._item, NodeView):
            rows: dict[str, Item] = {row.key: row for row in pod_rows(self._item, self._collapsed)}
            table = self.query_one(RowTable)
            table.set_rows(list(rows), POD_COLUMNS, update.view, rows.__getitem__)

    def on_row_table_opened(self, event: RowTable.Opened) -> None:
        row = event.item
        if not isinstance(row, PodRow) or self._update is None:
            return
        if row.pod is None:
            self._collapsed ^= {row.key}
            self.render_view(self._update)
            return

        def find(view: View) -> Item | None:
            node = self._item if isinstance(self._item, NodeView) else None
            node = view.nodes.get(node.key) if node is not None else None
            return next((each for each in pod_rows(node) if each.key == row.key), None) if node else None

        self.app.push_screen(DetailScreen(row, find, self._update))


class HelpScreen(Screen[None]):
    """The keys and the words."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,left,h,enter", "app.pop_screen", show=False)]

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(HELP)
