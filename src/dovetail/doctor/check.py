"""A check: what it looks for, what it must see for that, and how it is mended."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from dovetail.doctor.facts import Facts, Need
from dovetail.doctor.finding import Finding, Missing, Severity, Skipped, Symptom
from dovetail.ports.api_resources import Resource


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One fault that set-ups have."""

    code: str
    """Stable: scripts and tickets name it."""
    title: str
    severity: Severity
    how: str
    """How it is seen, for the guide."""
    mend: str
    """What to do about it, for the guide."""
    needs: tuple[Need, ...] = ()
    """Without all of these nothing can be said."""
    any_of: tuple[Need, ...] = ()
    """Nor without one of these."""
    helped_by: tuple[Need, ...] = ()
    """Without these something may be found, but nothing called fine."""
    find: Callable[[Facts], Iterable[Symptom]]

    def look(self, facts: Facts) -> Iterator[Finding]:
        """Hand out what is wrong."""
        for one in self.find(facts):
            yield Finding(
                code=self.code,
                title=self.title,
                severity=self.severity,
                about=one.about,
                seen=one.seen,
                wrong=one.wrong,
                fix=one.fix,
            )

    def obstacles(self, facts: Facts) -> tuple[Missing, ...]:
        """Return what the check needs and nobody could read."""
        if self.any_of and all(one in facts.unseen for one in self.any_of):
            return _missing((*self.needs, *self.any_of), facts)
        return _missing(self.needs, facts)

    def doubts(self, facts: Facts) -> tuple[Missing, ...]:
        """Return what nobody could read although it would have told more."""
        return _missing(self.helped_by, facts)


def _missing(needs: Iterable[Need], facts: Facts) -> tuple[Missing, ...]:
    return tuple(Missing(named(one), facts.unseen[one]) for one in needs if one in facts.unseen)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of looking."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    checked: tuple[str, ...]
    """Codes of the checks that were made."""


def named(need: Need) -> str:
    """Write for people what a check needs."""
    if isinstance(need, Resource):
        return need.kind + ("es" if need.kind.endswith("s") else "s")
    return str(need)


def examined(facts: Facts, checks: Iterable[Check]) -> Report:
    """Make all checks; findings come worst first, then in the order of the checks."""
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    made: list[str] = []
    for check in checks:
        missing = check.obstacles(facts)
        found = [] if missing else list(check.look(facts))
        missing = missing or (() if found else check.doubts(facts))
        if missing:
            skipped.append(Skipped(code=check.code, title=check.title, missing=missing))
            continue
        made.append(check.code)
        findings += found
    grave = list(Severity)
    findings.sort(key=lambda one: grave.index(one.severity))
    return Report(findings=tuple(findings), skipped=tuple(skipped), checked=tuple(made))
