"""``dovetail doctor``: what is wrong with a cluster's set-up, and what mends it."""

import asyncio
import os
from pathlib import Path

import click
import msgspec

from dovetail.cli.doctor.output import report_lines
from dovetail.cli.files import read_bytes
from dovetail.cli.output.console import progress, write, write_lines
from dovetail.codec.text.suggestions import nearest
from dovetail.data.bundled import bundled_catalog
from dovetail.doctor.check import Check, Report, examined
from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.gather import Given
from dovetail.doctor.run import look
from dovetail.doctor.sources.files import file_facts
from dovetail.errors import BadInput, DovetailError
from dovetail.host.clock import RealClock
from dovetail.kube.auth.kubeconfig import Access, find_access

EXIT_FINDINGS = 2


@click.command(
    epilog="Exit codes: 0 nothing is wrong; 1 bad input, or nothing could be looked at; "
    "2 something is wrong."
)
@click.option("-f", "--filename", "file", metavar="PATH", help="The cluster.yaml; - for stdin.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Default: KUBECONFIG, else the pod's own identity, else ~/.kube/config.",
)
@click.option("--context", default="", help="Of the kubeconfig. Default: the current one.")
@click.option(
    "--cluster-name",
    default="",
    help="EKS' name. Default: that in cluster.yaml, else of the controller.",
)
@click.option("--region", default="", help="Default: as with the name, else that of the nodes.")
@click.option(
    "--terraform",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Sources and lock file to look at.",
)
@click.option(
    "--plan",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A plan to look at, as `terraform show -json` writes it.",
)
@click.option("--no-kubernetes", is_flag=True, help="Ask no API server.")
@click.option("--no-aws", is_flag=True, help="Ask nothing of AWS.")
@click.option(
    "--only", multiple=True, metavar="CODE", help="Make this check only. May be repeated."
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def doctor(
    file: str | None,
    kubeconfig: str | None,
    context: str,
    cluster_name: str,
    region: str,
    terraform: Path | None,
    plan: Path | None,
    no_kubernetes: bool,
    no_aws: bool,
    only: tuple[str, ...],
    output: str,
) -> None:
    """Find what is wrong with a cluster's set-up, and say what mends it.

    Looks at Kubernetes, AWS and files, as far as they are within reach. It reads only. What it
    could not look at it names, and never calls it fine.
    """
    checks = _chosen(only)
    access: Access | str = "nobody was to ask Kubernetes (--no-kubernetes)"
    if not no_kubernetes:
        access = _access(kubeconfig, context)
    files, unseen = file_facts(
        spec=None if file is None else (file, read_bytes(file)), terraform=terraform, plan=plan
    )
    given = Given(
        now=RealClock().now(),
        catalog=bundled_catalog(),
        files=files,
        unseen=unseen,
        cluster=cluster_name,
        region=region,
    )
    with progress("Looking at the cluster"):
        facts = asyncio.run(look(given, access, ask_aws=not no_aws))
    report = examined(facts, checks)
    if not report.checked:
        whys = "; ".join(
            dict.fromkeys(missing.why for one in report.skipped for missing in one.missing)
        )
        raise DovetailError(f"nothing could be looked at: {whys}")
    _show(output, report, facts.cluster)
    if report.findings:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _chosen(only: tuple[str, ...]) -> tuple[Check, ...]:
    known = {one.code: one for one in CHECKS}
    for code in only:
        if code.upper() not in known:
            guess = nearest(code.upper(), sorted(known))
            hint = f"; did you mean {guess}?" if guess else ""
            raise click.UsageError(f"there is no check {code!r}{hint}")
    wanted = {code.upper() for code in only}
    return tuple(one for one in CHECKS if not wanted or one.code in wanted)


def _access(kubeconfig: str | None, context: str) -> Access | str:
    """Return the way into the cluster, or why there is none; what the user named must be right."""
    try:
        return find_access(kubeconfig, environ=os.environ, clock=RealClock(), context=context)
    except BadInput as error:
        if kubeconfig is not None or context:
            raise
        return str(error)


def _show(output: str, report: Report, cluster: str) -> None:
    if output == "json":
        write(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        write_lines(list(report_lines(report, cluster)))
