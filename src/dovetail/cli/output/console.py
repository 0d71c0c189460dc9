"""Output to the user: colour on a terminal, plain when piped.

Rich is imported when something is rendered: help and completion do not need it.
"""

import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, NoReturn, TextIO

import click

from dovetail.cli.output.control_characters import clean_text, replace_control_characters
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_WRAP_INDENT = 4
_MIN_WRAP_WIDTH = 20
_MIN_COLUMN_WIDTH = 24
"""Narrowest last column that text is wrapped in; otherwise it continues at the indent."""
_MEGABYTE = 1_000_000
EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE, as a shell reports it."""


def format_size(size: int) -> str:
    """Format a number of bytes: ``4.2 kB``, ``2.3 MB``."""
    return f"{size / 1e6:,.1f} MB" if size >= _MEGABYTE else f"{size / 1e3:,.1f} kB"


def write(text: str) -> None:
    """Print to stdout, without control characters; a closed pipe (``| head``) is not an error."""
    _write_styled(replace_control_characters(text))


def _write_styled(text: str) -> None:
    if _missing(sys.stdout):
        raise DovetailError("standard output is closed")
    try:
        click.echo(text)
    except BrokenPipeError:
        _discard_output()
        raise click.exceptions.Exit(EXIT_BROKEN_PIPE) from None
    except OSError as error:
        _discard_output()
        why = error.strerror or error
        raise DovetailError(f"standard output cannot be written: {why}") from error


def _discard_output() -> None:
    """Redirect stdout to /dev/null: Python flushes it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _missing(stream: TextIO | None) -> bool:
    """Return True if the parent process closed the stream."""
    return stream is None


def write_lines(lines: "list[Text]") -> None:
    """Print lines: on a terminal with styles and wrapped at words, in a pipe as they are."""
    from rich.console import Console

    width = terminal_width()
    buffer = StringIO()
    console = Console(file=buffer, force_terminal=width is not None, highlight=False)
    for line in lines:
        clean_text(line).rstrip()
        for part in [line] if width is None else _wrap(line, width):
            console.print(part, soft_wrap=True)
    _write_styled(buffer.getvalue().rstrip("\n"))


def terminal_width() -> int | None:
    """Return the columns of the terminal that stdout is, or None for a pipe or file."""
    if _missing(sys.stdout) or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def _wrap(line: "Text", width: int) -> "Iterator[Text]":
    """Yield the line in parts that fit, without breaking words; later parts are indented."""
    indent = _wrap_indent(line.plain, width)
    start, limit, breaks = 0, width, []
    for word in re.finditer(r"\S+", line.plain):
        if word.end() - start > limit and start < word.start() and line.plain[start : word.start()].strip():
            start, limit = word.start(), max(_MIN_WRAP_WIDTH, width - indent)
            breaks.append(start)
    for number, part in enumerate(line.divide(breaks)):
        part.rstrip()
        part.pad_left(indent if number else 0)
        yield part


def _wrap_indent(line: str, width: int) -> int:
    """Return where a wrapped line continues: below its last column, if that fits.

    It fits if the column is wide, and as wide as each of its words. Columns are two or more spaces apart.
    """
    last_column = max((gap.end() for gap in re.finditer(r"(?<=\S) {2,}(?=\S)", line)), default=width)
    longest = max(map(len, line[last_column:].split()), default=0)
    if width - last_column >= max(_MIN_COLUMN_WIDTH, longest):
        return last_column
    return len(line) - len(line.lstrip()) + _WRAP_INDENT


def write_note(text: str) -> None:
    """Print a note to stderr; on a terminal wrapped at words."""
    text = replace_control_characters(text)
    if not _missing(sys.stderr) and sys.stderr.isatty():
        from rich.text import Text

        width = shutil.get_terminal_size().columns
        text = "\n".join(part.plain for line in text.split("\n") for part in _wrap(Text(line), width))
    click.echo(text, err=True)


def write_error(text: str) -> None:
    """Print an error to stderr; every command reports errors in this style."""
    write_note(f"error: {text}")


def may_animate() -> bool:
    """Return True if stderr is a terminal that may show spinners and bars; not with NO_COLOR."""
    return not _missing(sys.stderr) and sys.stderr.isatty() and not os.environ.get("NO_COLOR")


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show a spinner while work is in progress, on a terminal that may be animated."""
    if not may_animate():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(doing):
        yield


def supports_live_view() -> bool:
    """Return True if stdout is a terminal that can be redrawn."""
    if _missing(sys.stdout) or not sys.stdout.isatty():
        return False
    from rich.console import Console

    return not Console().is_dumb_terminal and sys.stdout.encoding.lower().startswith("utf")


@contextmanager
def screen() -> Iterator[Callable[["RenderableType"], None]]:
    """Use the whole terminal; yields a function that draws a frame.

    The terminal is restored in any case.
    """
    from rich.console import Console
    from rich.live import Live

    usual = signal.signal(signal.SIGTERM, _end)
    try:
        with Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:
            yield lambda frame: live.update(frame, refresh=True)
    finally:
        signal.signal(signal.SIGTERM, usual)


def _end(number: int, _: object) -> NoReturn:
    """Exit with the code that shells use for signals."""
    sys.exit(128 + number)


def columns(rows: list[list[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Align cells in columns, two spaces apart; columns in ``right`` are right-aligned."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
