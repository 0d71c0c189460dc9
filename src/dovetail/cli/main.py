"""The ``dovetail`` command: its sub-commands and how it ends."""

import errno
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from dovetail import __version__
from dovetail.cli.lazy_group import LateCommands
from dovetail.cli.output.bug_report import EXIT_BUG, report_bug
from dovetail.errors import BadInput, DovetailError
from dovetail.host.gc import collect_rarely

COMMANDS = {
    "catalog": "catalog.command",
    "cluster": "cluster.group",
    "completion": "completion",
    "convert": "convert",
    "crds": "crds",
    "demo": "demo.command",
    "doctor": "doctor.command",
    "explain": "explain.command",
    "run": "run.command",
    "sandbox": "sandbox",
    "simulate": "simulate.command",
    "virtual": "run.virtual",
}
"""The module of each command, below ``dovetail.cli``; the command is a function of its name."""

EXIT_BAD_INPUT = 1
EXIT_INTERRUPTED = 130

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Dovetail(LateCommands):
    """Ends every mistake alike.

    Click ends with 2 on a mistyped option; here 2 says that pods are left
    over, and a script must be able to tell the two apart.
    """

    # The supertype returns in one of its modes; this one ends the process in all.
    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        extra["standalone_mode"] = False
        sys.exit(self._exit_code(args, prog_name, extra))

    def _exit_code(
        self, args: Sequence[str] | None, prog_name: str | None, extra: dict[str, Any]
    ) -> int:
        try:
            code = super().main(args, prog_name, **extra)
            return code if isinstance(code, int) else 0
        except click.exceptions.NoArgsIsHelpError as error:
            # Asked for nothing else: then help is the output, and may be piped into a pager.
            click.echo(error.message)
            return 0
        except click.ClickException as error:
            error.show()
        except BadInput as error:
            for mistake in error.mistakes:
                click.echo(str(mistake), err=True)
        except DovetailError as error:
            click.echo(f"Error: {error}", err=True)
        except (click.Abort, KeyboardInterrupt):
            return EXIT_INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the outermost place: all else is a bug
            if not (isinstance(error, OSError) and error.errno in _NO_ROOM):
                report_bug(error)
                return EXIT_BUG
            # Help is printed by click, which knows no full disks.
            where = error.filename or "standard output"
            click.echo(f"Error: {where} cannot be written: {error.strerror}", err=True)
        return EXIT_BAD_INPUT


@click.group(
    cls=Dovetail,
    modules=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 bad input; 2 some pods get no node, a demo falls short, or a "
    "doctor finds something; "
    "70 a bug in Dovetail; 130 interrupted.",
)
@click.version_option(__version__, prog_name="dovetail", message="%(prog)s %(version)s")
def cli() -> None:
    """Buy, explain and give back nodes of Kubernetes on EKS; show beforehand what that costs."""


def main() -> None:
    """Run the command line."""
    collect_rarely()
    cli(prog_name="dovetail")
