"""Table of a migration report, at most 80 columns wide."""

from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap
from typing import Final

from rich.text import Text

from dovetail.codec.text.suggestions import pluralize
from dovetail.migration.report import Item, Level, MigrationReport, Step

_WIDTH: Final = 80
_INDENT: Final = 11
_STYLES: Final = {
    Level.OK: "green",
    Level.NOTE: "cyan",
    Level.WARNING: "bold yellow",
    Level.BLOCKER: "bold red",
}
_CONCLUSIONS: Final = {
    Level.OK: "Ready.",
    Level.NOTE: "Ready.",
    Level.WARNING: "Ready, with warnings: read them first.",
    Level.BLOCKER: "Not ready: resolve the blockers first.",
}


def format_report(report: MigrationReport) -> Iterator[Text]:
    """Yield the items by area, then unknown facts, commands and the conclusion."""
    for area, items in groupby(report.items, key=lambda item: item.area):
        yield Text(area.value, style="bold")
        for item in items:
            yield from _item(item)
        yield Text()
    if report.unknown:
        yield Text("Not checked", style="bold")
        for missing in report.unknown:
            yield from _paragraph(f"{missing.what}: {missing.why}", 2)
        yield Text()
    yield from _steps("Take over", report.take_over)
    yield from _steps("Hand back", report.hand_back)
    levels = [item.level for item in report.items]
    counts = ", ".join(
        (pluralize(levels.count(Level.BLOCKER), "blocker"), pluralize(levels.count(Level.WARNING), "warning"))
    )
    counts += f", {len(report.unknown)} not checked." if report.unknown else "."
    yield Text(f"{_CONCLUSIONS[report.level]} {counts}", style=_STYLES[report.level])


def _item(item: Item) -> Iterator[Text]:
    head = f"{item.about}  {item.text}"
    if _INDENT + len(head) <= _WIDTH:
        yield _row(item, Text.assemble((item.about, "bold"), f"  {item.text}"))
    else:
        yield _row(item, Text(item.about, style="bold"))
        yield from _paragraph(item.text, _INDENT)
    if item.fix:
        # Not wrapped: a command to copy.
        yield Text(f"{' ' * _INDENT}fix: {item.fix}", style="green")


def _row(item: Item, text: Text) -> Text:
    return Text.assemble("  ", (f"{item.level.value:<{_INDENT - 2}}", _STYLES[item.level]), text)


def _paragraph(text: str, indent: int) -> Iterator[Text]:
    for line in wrap(text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False):
        yield Text(f"{' ' * indent}{line}")


def _steps(title: str, steps: tuple[Step, ...]) -> Iterator[Text]:
    yield Text(title, style="bold")
    for number, step in enumerate(steps, 1):
        yield Text(f"  {number}. {step.title}")
        for command in step.commands:
            for line in command.splitlines():
                yield Text(f"     {line}", style="green")
    yield Text()
