"""The ``dovetail`` command: sub-commands and exit codes."""

import errno
import json
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from dovetail import __version__
from dovetail.cli.lazy_group import LazyGroup
from dovetail.cli.output.console import write_error
from dovetail.errors import DovetailError, InvalidInputError, describe_internal_error
from dovetail.host.gc import reduce_collections

COMMANDS = {
    "catalog": "catalog.command",
    "cluster": "cluster.group",
    "completion": "completion",
    "convert": "convert",
    "crds": "crds",
    "dashboard": "dashboard.command",
    "demo": "demo.command",
    "doctor": "doctor",
    "dump": "dump",
    "explain": "explain.command",
    "migrate": "migrate.command",
    "preview": "preview.command",
    "record": "record",
    "replay": "replay.command",
    "run": "run.command",
    "sandbox": "sandbox",
    "savings": "savings.command",
    "simulate": "simulate.command",
    "sweep": "sweep.command",
    "top": "top.command",
    "trace": "trace.command",
    "virtual": "virtual",
}
"""The module of each command, below ``dovetail.cli``; the command is a function of its name."""

EXIT_BAD_INPUT = 1
EXIT_BUG = 70
"""EX_SOFTWARE of sysexits.h; distinct from bad input and unschedulable pods."""
EXIT_INTERRUPTED = 130
DEBUG_VARIABLE = "DOVETAIL_DEBUG"

_PACKAGE = Path(__file__).parents[1]

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

_EXTRAS = {
    "boto3": "run",
    "botocore": "run",
    "cel_expr_python": "run",
    "prometheus_client": "run",
    "pydantic": "cluster",
    "ray": "sweep",
    "troposphere": "cluster",
}
"""Modules that an installation without extras leaves out, and the extra that has them."""
_INSTALLERS = {"pipx_metadata.json": "pipx install --force", "uv-receipt.toml": "uv tool install"}
"""File in the environment of a tool that installs commands → how it adds an extra."""
_WHEEL = f"./dovetail-{__version__}-py3-none-any.whl"
"""Placeholder for a release file whose place is unknown."""


class Dovetail(LazyGroup):
    """Maps every error to an exit code.

    Click exits with 2 on a mistyped option; here 2 means unschedulable pods or
    findings, so usage errors exit with 1.
    """

    # The base class returns in non-standalone mode; this one always exits.
    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        extra["standalone_mode"] = False
        sys.exit(self._exit_code(args, prog_name, extra))

    def _exit_code(self, args: Sequence[str] | None, prog_name: str | None, extra: dict[str, Any]) -> int:
        try:
            code = super().main(args, prog_name, **extra)
            return code if isinstance(code, int) else 0
        except click.exceptions.NoArgsIsHelpError as error:
            # No arguments: help is the output, and may be piped into a pager.
            click.echo(error.message)
            return 0
        except click.ClickException as error:
            _report_usage_error(error)
        except InvalidInputError as error:
            for problem in error.errors:
                write_error(str(problem))
        except DovetailError as error:
            write_error(str(error))
        except (click.Abort, KeyboardInterrupt):
            return EXIT_INTERRUPTED
        except Exception as error:  # noqa: BLE001 - outermost handler: everything else is a bug
            message = _describe_environment(error)
            if not message:
                _report_bug(error)
                return EXIT_BUG
            write_error(message)
        return EXIT_BAD_INPUT


def _describe_environment(error: Exception) -> str:
    """Return a sentence if the cause is the environment: a full disk or a package left out."""
    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").partition(".")[0]
        extra = _EXTRAS.get(module)
        if extra:
            return f"this needs the package {module!r}; install it with: {_get_install_command(extra)}"
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        # Click prints help without handling a full disk.
        return f"{error.filename or 'standard output'} cannot be written: {error.strerror}"
    return ""


def _get_install_command(extra: str) -> str:
    """Return how to install an extra the way that this Dovetail was installed.

    It names a file or URL: the name ``dovetail`` in the package index is another project.
    """
    tool = next((tool for file, tool in _INSTALLERS.items() if Path(sys.prefix, file).exists()), "")
    if not tool and (_PACKAGE.parents[1] / "Makefile").exists():
        return "make setup"
    url = _get_source_url()
    wheel = f"dovetail[{extra}] @ {url}" if url else f"{_WHEEL}[{extra}]"
    return f"{tool or 'pip install'} {shlex.quote(wheel)}"


def _get_source_url() -> str:
    """Return the URL of the file or repository that this was installed from (PEP 610), if any."""
    # Only imported for this error: it takes longer than many commands.
    from importlib import metadata

    try:
        text = metadata.distribution("dovetail").read_text("direct_url.json") or "{}"
        recorded: dict[str, Any] = json.loads(text)
    except (metadata.PackageNotFoundError, ValueError):
        return ""
    url = str(recorded.get("url", ""))
    if "vcs_info" in recorded:
        return f"{recorded['vcs_info']['vcs']}+{url}@{recorded['vcs_info']['commit_id']}"
    hashes = recorded.get("archive_info", {}).get("hashes", {})
    # A local file may have been built again since.
    is_pinned = "sha256" in hashes and not url.startswith("file:")
    return f"{url}#sha256={hashes['sha256']}" if is_pinned else url


def _report_usage_error(error: click.ClickException) -> None:
    """Print the usage, as click does, and the error in the style of all errors."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(error.ctx.get_usage(), err=True)
        click.echo(f"Try '{error.ctx.command_path} --help' for help.\n", err=True)
    write_error(error.format_message())


def _report_bug(error: Exception) -> None:
    """Print the error on stderr; with ``DOVETAIL_DEBUG=1``, the traceback."""
    if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
        return
    click.echo(
        f"dovetail {__version__}: {describe_internal_error(error)}\n"
        "This is a bug in Dovetail, not in your input. To report it, run the command again with\n"
        f"{DEBUG_VARIABLE}=1 and send the output, with the manifests if you can share them.",
        err=True,
    )


@click.group(
    cls=Dovetail,
    modules=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 bad input; 2 unschedulable pods, a failed demo, or findings; "
    "3 a broken limit; 70 a bug in Dovetail; 130 interrupted.",
)
@click.version_option(__version__, prog_name="dovetail", message="%(prog)s %(version)s")
def cli() -> None:
    """Node autoscaler for Kubernetes on EKS: plan, price, explain and run."""


def main() -> None:
    """Run the command line."""
    reduce_collections()
    cli(prog_name=_command_name(sys.argv[0]), complete_var="_DOVETAIL_COMPLETE")


def _command_name(program: str) -> str:
    """Return how the user has called this program, as help and usage errors print it."""
    return "kubectl dovetail" if Path(program).name.startswith("kubectl-dovetail") else "dovetail"
