"""What a user sees of a bug: where it is and what to report, no wall of text."""

import os
import traceback
from pathlib import Path

import click

from dovetail import __version__

EXIT_BUG = 70
"""EX_SOFTWARE of sysexits.h; scripts must not take a bug for bad input or left-over pods."""
DEBUG_VARIABLE = "DOVETAIL_DEBUG"

_PACKAGE = Path(__file__).parents[2]


def report_bug(error: Exception) -> None:
    """Say on stderr what broke; with ``DOVETAIL_DEBUG=1``, in full."""
    if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
        return
    problem = " ".join(str(error).split())[:200]
    what = f"{type(error).__name__}: {problem}" if problem else type(error).__name__
    click.echo(
        f"dovetail {__version__} broke: {what}{_where(error)}\n"
        "This is a bug in Dovetail, not in your input. To report it, run the command again with\n"
        f"{DEBUG_VARIABLE}=1 and send what that prints, with the manifests if you can share them.",
        err=True,
    )


def _where(error: Exception) -> str:
    """Name the innermost line of ours on the way to the failure."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGE):
            return f" (at {path.relative_to(_PACKAGE).as_posix()}:{frame.lineno})"
    return ""
