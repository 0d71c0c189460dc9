"""Sections of a report: headings, sentences and tables, as text that fits 80 columns."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from rich.text import Text

WIDTH: Final = 80
_MIN_COLUMN: Final = 8


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A heading, sentences before a table, the table, and sentences after it."""

    title: str
    lines: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    left: int = 1
    """Number of columns, from the first, that are text; others are numbers."""
    last_left: bool = False
    """The last column is text, too."""
    footer: tuple[str, ...] = ()
    is_bad: bool = False
    """Shown in red."""


def format_table(sections: Sequence[Section]) -> Iterator[Text]:
    """Yield the lines of a report."""
    for number, section in enumerate(sections):
        if number:
            yield Text()
        style = "bold red" if section.is_bad else "bold"
        yield Text(section.title, style=style)
        for line in section.lines:
            yield from _wrap(line)
        if section.rows:
            header, *rows = _align([section.header, *section.rows], section)
            yield Text(header, style="dim")
            yield from map(Text, rows)
        for line in section.footer:
            yield from _wrap(line)


def _wrap(line: str) -> Iterator[Text]:
    for part in textwrap.wrap(
        line, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    ):
        yield Text(part)


def _align(rows: Sequence[Sequence[str]], section: Section) -> Iterator[str]:
    """Align cells; the longest text column is cut so that lines fit."""
    count = len(rows[0])
    widths = [max(len(row[at]) for row in rows) for at in range(count)]
    text_columns = [*range(section.left), *([count - 1] if section.last_left else [])]
    excess = 2 + sum(widths) + 2 * (count - 1) - WIDTH
    while excess > 0:
        widest = max(text_columns, key=lambda at: widths[at])
        cut = min(excess, max(0, widths[widest] - _MIN_COLUMN))
        if not cut:
            break
        widths[widest] -= cut
        excess -= cut
    for row in rows:
        cells = [
            _cut(cell, width).ljust(width) if at in text_columns else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()


def _cut(cell: str, width: int) -> str:
    """Cut a name in the middle: names often differ at their end."""
    if len(cell) <= width:
        return cell
    head = (width - 1) // 2
    return f"{cell[:head]}…{cell[len(cell) - (width - 1 - head) :]}"


def format_usd(value: float) -> str:
    """Format an amount; small ones with more digits."""
    return f"${value:,.2f}" if value >= 1 or not value else f"${value:,.4f}"
