"""``dovetail migrate``: change from Karpenter to Dovetail, and back."""

import asyncio
import os
from typing import Final

import click
import msgspec

from dovetail.cli.files import read_sources
from dovetail.cli.lazy_group import CommandGroup
from dovetail.cli.migrate.output import format_report
from dovetail.cli.output.console import progress, write, write_lines
from dovetail.cli.run.options import add_run_options
from dovetail.data.bundled import bundled_catalog
from dovetail.doctor.facts import Facts
from dovetail.host.clock import SystemClock
from dovetail.kube.auth.kubeconfig import load_rest_config
from dovetail.migration.checks.registry import check_migration
from dovetail.migration.facts import MigrationFacts
from dovetail.migration.report import Level
from dovetail.migration.sources import read_cluster, read_dumps

_EXIT_CODES: Final = {Level.OK: 0, Level.NOTE: 0, Level.WARNING: 2, Level.BLOCKER: 1}


@click.group(cls=CommandGroup)
def migrate() -> None:
    """Check a cluster before Dovetail takes over from Karpenter."""


@migrate.command(
    epilog="Exit codes: 0 ready; 1 blockers, or bad input; 2 ready, with warnings to read first."
)
@click.option(
    "--cluster",
    multiple=True,
    metavar="DUMP",
    type=click.Path(),
    help="Read a dump by `kubectl get … -o json` instead of a live cluster. May be repeated.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Default: KUBECONFIG, else the pod's service account, else ~/.kube/config.",
)
@click.option("--context", default="", help="Context of the kubeconfig. Default: the current one.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def check(cluster: tuple[str, ...], kubeconfig: str | None, context: str, output: str) -> None:
    """Report whether Dovetail can take over from Karpenter, and the commands for it.

    Compares Karpenter's version, settings, CustomResourceDefinitions, NodePools, node classes,
    NodeClaims and hashes with what Dovetail supports, and names drift that would start. Reads
    only, and never Secrets.
    """
    facts = _read(cluster, kubeconfig, context)
    report = check_migration(MigrationFacts.of(facts, _check_option))
    if output == "json":
        write(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        write_lines(list(format_report(report)))
    raise click.exceptions.Exit(_EXIT_CODES[report.level])


def _read(cluster: tuple[str, ...], kubeconfig: str | None, context: str) -> Facts:
    now, catalog = SystemClock().now(), bundled_catalog()
    if cluster:
        if kubeconfig or context:
            raise click.UsageError("Use --cluster for a dump, or --kubeconfig and --context; not both.")
        return read_dumps(read_sources(cluster), now=now, catalog=catalog)
    access = load_rest_config(kubeconfig, environ=os.environ, clock=SystemClock(), context=context)
    with progress("Reading the cluster"):
        return asyncio.run(read_cluster(access, now=now, catalog=catalog))


def _check_option(variable: str, value: str) -> str | None:
    """Return why ``dovetail run`` rejects the value of an environment variable, or None."""
    option = _RUN_OPTIONS.get(variable)
    if option is None:
        return None
    try:
        option.process_value(click.Context(_RUN), value)
    except click.BadParameter as error:
        return error.message
    return None


_RUN: Final = click.command()(add_run_options(lambda **_: None))
_RUN_OPTIONS: Final = {
    parameter.envvar: parameter for parameter in _RUN.params if isinstance(parameter.envvar, str)
}
"""Environment variable → option of ``dovetail run``."""
