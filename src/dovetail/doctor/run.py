"""Run the checks on the facts."""

from collections.abc import Iterable

import msgspec

from dovetail.doctor.check import Check
from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Finding, Severity, Skipped


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Result of all checks. Field names are part of the JSON output."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    checked: tuple[str, ...]
    """Codes of the checks that ran."""


def run_checks(facts: Facts, checks: Iterable[Check] = CHECKS) -> Report:
    """Run checks; findings are ordered by severity, then by code."""
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    checked: list[str] = []
    for check in checks:
        missing = check.missing_needs(facts)
        results = [] if missing else list(check.findings(facts))
        missing = missing or (() if results else check.missing_help(facts))
        if missing:
            skipped.append(Skipped(code=check.code, title=check.title, missing=missing))
            continue
        checked.append(check.code)
        findings += results
    order = list(Severity)
    findings.sort(key=lambda finding: order.index(finding.severity))
    return Report(findings=tuple(findings), skipped=tuple(skipped), checked=tuple(checked))
