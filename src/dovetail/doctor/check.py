"""A check: the error it detects, the facts it needs, and the fix it suggests.

Checks are pure: ``gather`` reads the facts once, then ``run_checks`` evaluates
every check on them. A check whose facts could not be read is skipped with the
reason and never reported as passed.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NotRequired, TypedDict, Unpack

import msgspec

from dovetail.doctor.controller_deployment import Controller, controller_of
from dovetail.doctor.facts import Facts, Need, Part
from dovetail.doctor.finding import Finding, Missing, Severity, Symptom
from dovetail.ports.api_resources import Resource

Find = Callable[[Facts], Iterable[Symptom]]
FindWithController = Callable[[Facts, Controller], Iterable[Symptom]]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One known configuration error."""

    code: str
    """Stable: scripts and tickets refer to it."""
    title: str
    severity: Severity
    detection: str
    """Detection, for the guide."""
    remedy: str
    """General fix, for the guide."""
    needs: tuple[Need, ...] = ()
    """The check is skipped unless all of these facts are known."""
    any_of: tuple[Need, ...] = ()
    """The check is skipped unless at least one of these facts is known."""
    helped_by: tuple[Need, ...] = ()
    """Without these facts there may be findings, but the check never passes."""
    find: Find

    def findings(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding for each symptom."""
        for symptom in self.find(facts):
            fields = msgspec.structs.asdict(symptom)
            yield Finding(code=self.code, title=self.title, severity=self.severity, **fields)

    def missing_needs(self, facts: Facts) -> tuple[Missing, ...]:
        """Return the required facts that could not be read."""
        if self.any_of and all(need in facts.unseen for need in self.any_of):
            return _missing((*self.needs, *self.any_of), facts)
        return _missing(self.needs, facts)

    def missing_help(self, facts: Facts) -> tuple[Missing, ...]:
        """Return the optional facts that could not be read."""
        return _missing(self.helped_by, facts)


class CheckHeader(TypedDict):
    """Fields of a check besides its function, for the decorators."""

    code: str
    title: str
    severity: Severity
    detection: str
    remedy: str
    needs: NotRequired[tuple[Need, ...]]
    any_of: NotRequired[tuple[Need, ...]]
    helped_by: NotRequired[tuple[Need, ...]]


def check(**header: Unpack[CheckHeader]) -> Callable[[Find], Check]:
    """Turn a function from facts to symptoms into a check (decorator)."""
    return lambda find: Check(find=find, **header)


def controller_check(**header: Unpack[CheckHeader]) -> Callable[[FindWithController], Check]:
    """Turn a function of facts and the deployed controller into a check (decorator)."""
    header["needs"] = (Part.CONTROLLER, *header.get("needs", ()))

    def decorate(find: FindWithController) -> Check:
        def find_if_deployed(facts: Facts) -> Iterable[Symptom]:
            controller = controller_of(facts)
            return () if controller is None else find(facts, controller)

        return Check(find=find_if_deployed, **header)

    return decorate


def _missing(needs: Iterable[Need], facts: Facts) -> tuple[Missing, ...]:
    return tuple(Missing(describe_need(need), facts.unseen[need]) for need in needs if need in facts.unseen)


def describe_need(need: Need) -> str:
    """Return the name of a needed fact for messages."""
    if isinstance(need, Resource):
        return need.kind + ("es" if need.kind.endswith("s") else "s")
    return str(need)
