"""A preview as text that fits 80 columns, and as Markdown."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from dovetail.cli.preview.sections import Section
from dovetail.preview.report import BrokenLimit, Preview

WIDTH: Final = 80
_MIN_COLUMN: Final = 8
_ESCAPES: Final = str.maketrans({"|": "\\|", "<": "&lt;", ">": "&gt;", "\n": " "})
MARKER: Final = "<!-- dovetail preview -->"
"""First line of the Markdown: scripts find their own comment on a merge request by it."""


def format_table(sections: Sequence[Section]) -> Iterator[Text]:
    """Yield the lines of a report."""
    for number, section in enumerate(sections):
        if number:
            yield Text()
        style = "bold red" if section.title == "Broken limits" else "bold"
        yield Text(section.title, style=style)
        for line in section.lines:
            yield from _wrap(line)
        if section.rows:
            header, *rows = _align([section.header, *section.rows], section)
            yield Text(header, style="dim")
            yield from map(Text, rows)
        for line in section.footer:
            yield from _wrap(line)


def format_markdown(preview: Preview, sections: Sequence[Section], broken: Sequence[BrokenLimit]) -> str:
    """Return a comment for a merge request: the outcome first, details folded."""
    difference = preview.difference
    percent = f" ({difference.price_percent:+.1f} %)" if difference.price_percent else ""
    cost = f"{'-' if difference.price_per_month < 0 else '+'}${abs(difference.price_per_month):,.0f}"
    outcome = "❌ breaks a limit" if broken else "✅"
    lines = [
        MARKER,
        f"### Preview of this change on the cluster: {outcome}",
        "",
        f"**{difference.nodes:+,} nodes**, **{cost} a month**{percent}, "
        f"{preview.course.evictions:,} evictions, {difference.pods_without_node:+,} pods without a node.",
    ]
    for section in sections:
        is_long = section.title in ("Waves", "Workloads", "Basis")
        title = _escape(section.title)
        lines += ["", f"<details><summary>{title}</summary>" if is_long else f"#### {title}", ""]
        lines += [f"- {_escape(line)}" for line in section.lines]
        if section.rows:
            lines += ["", *_markdown_table(section)]
        lines += [_escape(line) for line in section.footer]
        lines += ["", "</details>"] if is_long else []
    return "\n".join(lines)


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


def _markdown_table(section: Section) -> Iterator[str]:
    count = len(section.header)
    is_text = [at < section.left or (section.last_left and at == count - 1) for at in range(count)]
    yield f"| {' | '.join(name.lower() for name in section.header)} |"
    yield f"|{'|'.join('---' if text else '---:' for text in is_text)}|"
    for row in section.rows:
        yield f"| {' | '.join(_escape(cell) for cell in row)} |"


def _escape(text: str) -> str:
    return text.translate(_ESCAPES)
