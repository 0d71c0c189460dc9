"""How users name manifests: ``-f PATH``, as often as they like, or just the path."""

from collections.abc import Callable
from typing import Any

import click

_Command = Callable[..., Any]


def manifest_options(command: _Command) -> _Command:
    """Give a command ``files`` and ``more_files``; which of them is used means nothing."""
    options = (
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            metavar="PATH",
            type=click.Path(),
            help="Manifests: a file, a directory (read recursively) or - for stdin. May be "
            "repeated.",
        ),
        click.argument("more_files", nargs=-1, metavar="[PATH]...", type=click.Path()),
    )
    for option in reversed(options):
        command = option(command)
    return command
