"""Table of which only the visible rows are rendered."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dovetail.cli.output.control_characters import clean_text
from dovetail.cli.top.lists import Column, FittedColumn, Item, fit_columns, render_cells, render_titles
from dovetail.view.document import View

_SELECTED = Style(reverse=True)


class RowTable(ScrollView, can_focus=True):
    """Rows with a cursor that follows its row when the order changes."""

    DEFAULT_CSS = "RowTable { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "move_page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f,space", "move_page(1)", "Page down", show=False),
        Binding("home,g", "move_to(0)", "First", show=False),
        Binding("end,G", "move_to(-1)", "Last", show=False),
        Binding("enter,right,l", "open", "Open", show=False),
    ]

    class Opened(Message):
        """A row was chosen."""

        def __init__(self, item: Item) -> None:
            super().__init__()
            self.item = item

    def __init__(self, *, empty: str = "Nothing here.", id: str | None = None) -> None:
        super().__init__(id=id)
        self._empty = empty
        self._keys: Sequence[str] = ()
        self._get_item: Callable[[str], Item] | None = None
        self._columns: Sequence[Column] = ()
        self._fitted: list[FittedColumn] = []
        self._view: View | None = None
        self._cursor = 0

    def set_rows(
        self, keys: Sequence[str], columns: Sequence[Column], view: View, get_item: Callable[[str], Item]
    ) -> None:
        """Show these rows; the cursor stays on its row, if that is still there."""
        current = self.selected_key
        self._keys, self._columns, self._view, self._get_item = keys, columns, view, get_item
        if current is not None and (self._cursor >= len(keys) or keys[self._cursor] != current):
            try:
                self._cursor = keys.index(current)
            except ValueError:
                self._cursor = min(self._cursor, max(0, len(keys) - 1))
        self._fit()
        self.call_after_refresh(self._show_cursor)

    def set_empty(self, text: str) -> None:
        """Set the text that is shown without rows."""
        self._empty = text
        self.refresh()

    @property
    def selected_key(self) -> str | None:
        return self._keys[self._cursor] if self._cursor < len(self._keys) else None

    @property
    def selected(self) -> Item | None:
        key = self.selected_key
        return None if key is None or self._get_item is None else self._get_item(key)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        line, style = self._line(y)
        strip = Strip(list(line.render(self.app.console)), line.cell_len).adjust_cell_length(width)
        return strip.apply_style(style) if style is not None else strip

    def _line(self, y: int) -> tuple[Text, Style | None]:
        if not self._keys:
            return Text(self._empty if y == 0 else "", end=""), None
        if y == 0:
            titles = render_titles(self._fitted)
            titles.end = ""
            return titles, None
        index = self.scroll_offset.y + y - 1
        if index >= len(self._keys) or self._view is None or self._get_item is None:
            return Text("", end=""), None
        line = clean_text(render_cells(self._get_item(self._keys[index]), self._view, self._fitted))
        if index == self._cursor:
            # Without colours of its own: reversed, those of bars would be blocks of colour.
            return Text(line.plain, end=""), _SELECTED
        return line, None

    def on_resize(self, _: events.Resize) -> None:
        self._fit()
        self._show_cursor()

    def on_click(self, event: events.Click) -> None:
        index = self.scroll_offset.y + event.y - 1
        if event.y >= 1 and index < len(self._keys):
            is_selected = index == self._cursor
            self._move_to(index)
            if is_selected:
                self.action_open()

    def action_move(self, rows: int) -> None:
        self._move_to(self._cursor + rows)

    def action_move_page(self, pages: int) -> None:
        self._move_to(self._cursor + pages * self._page)

    def action_move_to(self, index: int) -> None:
        self._move_to(index if index >= 0 else len(self._keys) - 1)

    def action_open(self) -> None:
        item = self.selected
        if item is not None:
            self.post_message(self.Opened(item))

    @property
    def _page(self) -> int:
        return max(1, self.scrollable_content_region.height - 1)

    def _fit(self) -> None:
        width = self.scrollable_content_region.width
        self._fitted = fit_columns(self._columns, width)
        # One line more than rows: the titles do not scroll.
        self.virtual_size = Size(width, len(self._keys) + 1)
        self.refresh()

    def _move_to(self, index: int) -> None:
        self._cursor = max(0, min(index, len(self._keys) - 1))
        self._show_cursor()
        self.refresh()

    def _show_cursor(self) -> None:
        top = self.scroll_offset.y
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False, immediate=True)
        elif self._cursor >= top + self._page:
            self.scroll_to(y=self._cursor - self._page + 1, animate=False, immediate=True)
