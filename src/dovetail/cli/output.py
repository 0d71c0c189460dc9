"""Getting text to the user: colour on a terminal, plain when piped."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO

import click
from rich.console import Console
from rich.text import Text

EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE, as a shell reports it."""


def write(text: str) -> None:
    """Print to stdout; a reader that has seen enough (``| head``) is no fault."""
    try:
        click.echo(text)
    except BrokenPipeError:
        # Python flushes once more at exit; let it not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(EXIT_BROKEN_PIPE) from None


def write_lines(lines: list[Text]) -> None:
    """Print styled lines, never wrapped or cut; styles show on a terminal only."""
    terminal = sys.stdout.isatty()
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
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(doing):
        yield


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
