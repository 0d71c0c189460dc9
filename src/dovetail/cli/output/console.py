"""Getting text to the user: colour on a terminal, plain when piped."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import NoReturn, TextIO

import click
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from dovetail.errors import DovetailError

EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE, as a shell reports it."""


def write(text: str) -> None:
    """Print to stdout; a reader that has seen enough (``| head``) is no fault."""
    if _missing(sys.stdout):
        raise DovetailError("nothing can be shown: standard output is closed")
    try:
        click.echo(text)
    except BrokenPipeError:
        _forget_output()
        raise click.exceptions.Exit(EXIT_BROKEN_PIPE) from None
    except OSError as error:
        _forget_output()
        why = error.strerror or error
        raise DovetailError(f"standard output cannot be written: {why}") from error


def _forget_output() -> None:
    """Python flushes once more at exit; let it not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _missing(stream: TextIO | None) -> bool:
    """Tell whether whoever started us closed a stream: Python has None in its place."""
    return stream is None


def write_lines(lines: list[Text]) -> None:
    """Print styled lines, never wrapped or cut; styles show on a terminal only."""
    terminal = not _missing(sys.stdout) and sys.stdout.isatty()
    buffer = StringIO()
    console = Console(file=buffer, force_terminal=terminal, highlight=False)
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)
    write(buffer.getvalue().rstrip("\n"))


def say(text: str) -> None:
    """Print a remark to stderr, where it does not disturb what is piped."""
    click.echo(text, err=True)


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show that work is going on, on a terminal only and gone when it is done."""
    if _missing(sys.stderr) or not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(doing):
        yield


def can_show_pictures() -> bool:
    """Tell whether stdout is a terminal on which things can be drawn in place."""
    if _missing(sys.stdout) or not sys.stdout.isatty():
        return False
    return not Console().is_dumb_terminal and sys.stdout.encoding.lower().startswith("utf")


@contextmanager
def screen() -> Iterator[Callable[[RenderableType], None]]:
    """Take the whole terminal for pictures; gives a function that shows one.

    However it ends, the terminal is as it was before.
    """
    usual = signal.signal(signal.SIGTERM, _end)
    try:
        with Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:
            yield lambda picture: live.update(picture, refresh=True)
    finally:
        signal.signal(signal.SIGTERM, usual)


def _end(number: int, _: object) -> NoReturn:
    """End as a shell reports it of a program that a signal has ended."""
    sys.exit(128 + number)


def columns(rows: list[list[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Align cells under each other, two blanks apart; ``right`` are flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
