"""A doctor's report as a person reads it."""

from collections.abc import Iterator
from itertools import groupby

from rich.text import Text

from dovetail.doctor.check import Report
from dovetail.doctor.finding import Finding, Severity, Skipped

_HEADS = {
    Severity.BROKEN: ("Broken", "bold red"),
    Severity.RISK: ("At risk", "bold yellow"),
    Severity.ADVICE: ("Could be better", "bold cyan"),
}


def report_lines(report: Report, cluster: str) -> Iterator[Text]:
    """Write findings, worst first, then what was not looked at and why."""
    for severity, ones in groupby(report.findings, key=lambda one: one.severity):
        head, style = _HEADS[severity]
        yield Text(head, style=style)
        for one in ones:
            yield from _finding(one)
        yield Text()
    if report.skipped:
        yield Text("Not looked at", style="bold")
        for why, codes in _by_reason(report.skipped).items():
            yield Text(f"  {why}: {', '.join(codes)}")
        yield Text()
    about = f" of cluster {cluster}" if cluster else ""
    found = len(report.findings)
    hit = len({one.code for one in report.findings})
    yield Text(
        f"{len(report.checked)} checks made{about}, {len(report.skipped)} not: "
        + (f"{found} findings in {hit} of them." if found else "nothing is wrong."),
        style="bold",
    )


def _finding(one: Finding) -> Iterator[Text]:
    yield Text.assemble("  ", (f"{one.code:<4}", "bold"), (one.about, "bold"), f"  {one.title}")
    yield Text(f"       seen   {one.seen}")
    yield Text(f"       so     {one.wrong}")
    first, *more = one.fix.splitlines()
    yield Text(f"       mend   {first}", style="green")
    for line in more:
        yield Text(f"              {line}", style="green")


def _by_reason(skipped: tuple[Skipped, ...]) -> dict[str, list[str]]:
    """Return each reason with the codes of the checks that it has kept from being made."""
    found: dict[str, dict[str, None]] = {}
    for one in skipped:
        for missing in one.missing:
            found.setdefault(missing.why, {})[one.code] = None
    return {why: list(codes) for why, codes in found.items()}
