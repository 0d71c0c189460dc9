"""Options for manifests: ``-f PATH``, repeatable, or the path alone."""

from collections.abc import Callable
from typing import Any

import click

_Command = Callable[..., Any]


def manifest_options(command: _Command) -> _Command:
    """Add the parameters ``files`` and ``more_files``, which are equivalent."""
    options = (
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            metavar="PATH",
            type=click.Path(),
            help="Manifests: a file, a directory (read recursively) or - for stdin. May be repeated.",
        ),
        click.argument("more_files", nargs=-1, metavar="[PATH]...", type=click.Path()),
    )
    for option in reversed(options):
        command = option(command)
    return command
