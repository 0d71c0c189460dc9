"""``dovetail doctor``: diagnose an installation."""

import asyncio
import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click
import msgspec
from rich.text import Text

from dovetail.cli.files import read_bytes
from dovetail.cli.output.console import progress, write, write_lines
from dovetail.codec.text.suggestions import nearest_match, pluralize
from dovetail.data.bundled import bundled_catalog
from dovetail.doctor.check import Check
from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.finding import Finding, Severity, Skipped
from dovetail.doctor.gather import InitialFacts, gather_facts
from dovetail.doctor.run import Report, run_checks
from dovetail.doctor.sources.files import file_facts
from dovetail.errors import DovetailError, InvalidInputError
from dovetail.host.clock import SystemClock
from dovetail.kube.auth.kubeconfig import RestConfig, load_rest_config

EXIT_FINDINGS = 2
_HEADS = {
    Severity.BROKEN: ("Broken", "bold red"),
    Severity.RISK: ("At risk", "bold yellow"),
    Severity.ADVICE: ("Could be better", "bold cyan"),
}


@click.command(
    epilog="Exit codes: 0 no findings, or only advice; 1 bad input, or no check could run; 2 something is "
    "broken or at risk. With --strict advice counts, too."
)
@click.option("-f", "--filename", "file", metavar="PATH", help="The cluster.yaml; - for stdin.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Default: KUBECONFIG, else the pod's service account, else ~/.kube/config.",
)
@click.option("--context", default="", help="Context of the kubeconfig. Default: the current one.")
@click.option(
    "--cluster-name",
    default="",
    help="Name of the EKS cluster. Default: from cluster.yaml, else the controller's setting.",
)
@click.option("--region", default="", help="Default: as with the name, else the region of the nodes.")
@click.option(
    "--terraform",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Directory with Terraform sources and lock file.",
)
@click.option(
    "--plan",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A Terraform plan, written by `terraform show -json`.",
)
@click.option("--no-kubernetes", is_flag=True, help="Do not read from Kubernetes.")
@click.option("--no-aws", is_flag=True, help="Do not read from AWS.")
@click.option("--strict", is_flag=True, help="Exit with 2 if there is advice, too.")
@click.option("--only", multiple=True, metavar="CODE", help="Run only this check. May be repeated.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
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
    strict: bool,
    only: tuple[str, ...],
    output: str,
) -> None:
    """Diagnose an installation, with a fix for each finding.

    Reads Kubernetes, AWS and files, as far as they are reachable, and changes nothing. Checks
    that could not run are listed with the reason.
    """
    checks = _select_checks(only)
    access = "Kubernetes is disabled by --no-kubernetes" if no_kubernetes else _access(kubeconfig, context)
    files, unseen = file_facts(
        spec=None if file is None else (file, read_bytes(file)), terraform=terraform, plan=plan
    )
    initial = InitialFacts(
        now=SystemClock().now(),
        catalog=bundled_catalog(),
        files=files,
        unseen=unseen,
        cluster=cluster_name,
        region=region,
    )
    with progress("Reading the cluster"):
        facts = asyncio.run(gather_facts(initial, access, with_aws=not no_aws))
    report = run_checks(facts, checks)
    if not report.checked:
        reasons = "; ".join(
            dict.fromkeys(missing.why for skipped in report.skipped for missing in skipped.missing)
        )
        raise DovetailError(f"no check could run: {reasons}")
    _show(output, report, facts.cluster)
    if any(strict or finding.severity is not Severity.ADVICE for finding in report.findings):
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _select_checks(only: tuple[str, ...]) -> tuple[Check, ...]:
    checks = {check.code: check for check in CHECKS}
    for code in only:
        if code.upper() not in checks:
            guess = nearest_match(code.upper(), sorted(checks))
            hint = f"; did you mean {guess}?" if guess else ""
            raise click.UsageError(f"there is no check {code!r}{hint}")
    codes = {code.upper() for code in only}
    return tuple(check for check in CHECKS if not codes or check.code in codes)


def _access(kubeconfig: str | None, context: str) -> RestConfig | str:
    """Return the API access, or the reason why there is none.

    A kubeconfig or context that the user named must be valid.
    """
    try:
        return load_rest_config(kubeconfig, environ=os.environ, clock=SystemClock(), context=context)
    except InvalidInputError as error:
        if kubeconfig is not None or context:
            raise
        return str(error)


def _show(output: str, report: Report, cluster: str) -> None:
    if output == "json":
        write(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        write_lines(list(_report_lines(report, cluster)))


def _report_lines(report: Report, cluster: str) -> Iterator[Text]:
    """Yield the findings, worst first, then the checks that did not run."""
    for severity, findings in groupby(report.findings, key=lambda finding: finding.severity):
        head, style = _HEADS[severity]
        yield Text(head, style=style)
        for finding in findings:
            yield from _finding(finding)
        yield Text()
    if report.skipped:
        yield Text("Not checked", style="bold")
        for reason, codes in _by_reason(report.skipped).items():
            yield Text(f"  {reason}: {', '.join(codes)}")
        yield Text()
    about = f" of cluster {cluster}" if cluster else ""
    total = len(report.findings)
    failed = len({finding.code for finding in report.findings})
    yield Text(
        f"{pluralize(len(report.checked), 'check')} ran{about}, {len(report.skipped)} did not: "
        + (f"{pluralize(total, 'finding')} in {failed} of them." if total else "no findings."),
        style="bold",
    )


def _finding(finding: Finding) -> Iterator[Text]:
    yield Text.assemble("  ", (f"{finding.code:<4}", "bold"), (finding.about, "bold"), f"  {finding.title}")
    yield Text(f"       seen   {finding.seen}")
    yield Text(f"       so     {finding.wrong}")
    first_line, *other_lines = finding.fix.splitlines()
    yield Text(f"       fix    {first_line}", style="green")
    for line in other_lines:
        yield Text(f"              {line}", style="green")


def _by_reason(skipped: tuple[Skipped, ...]) -> dict[str, list[str]]:
    """Return each reason with the codes of the checks that did not run for it."""
    codes_by_reason: dict[str, dict[str, None]] = {}
    for item in skipped:
        for missing in item.missing:
            codes_by_reason.setdefault(missing.why, {})[item.code] = None
    return {reason: list(codes) for reason, codes in codes_by_reason.items()}
