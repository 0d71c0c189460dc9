"""AWS's refusals, told to the person whose credentials they are about."""

import re
from typing import Final

from dovetail.aws.errors import NO_CREDENTIALS, AwsError, Kind

_NAMED: Final = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z]+)")
"""How AWS names what was missing, which need not be what was called (``iam:PassRole``)."""


class Refused(AwsError):
    """A call that did not succeed, with what whoever typed the command can do about it."""

    def __init__(self, error: AwsError, advice: str) -> None:
        super().__init__(error.operation, error.code, error.message)
        self.args = (f"{error.operation}: {error.code}: {error.message}; {advice}",)


def to_a_person(error: AwsError, service: str) -> AwsError:
    """Return an error with advice for a person at a terminal, not for a controller."""
    advice = _advice(error, service)
    return Refused(error, advice) if advice else error


def _advice(error: AwsError, service: str) -> str:
    if error.kind is Kind.REFUSED:
        named = _NAMED.search(error.message)
        permission = named[1] if named else f"{service}:{error.operation}"
        return f"your credentials need the permission {permission}"
    if error.code == NO_CREDENTIALS:
        return "log in (aws sso login), or name a profile that is there (AWS_PROFILE)"
    if error.kind is Kind.NO_CREDENTIALS:
        return (
            "AWS does not take your credentials; renew them (aws sso login), or name others "
            "(AWS_PROFILE)"
        )
    if error.kind in (Kind.THROTTLED, Kind.TRANSIENT):
        return "it was tried several times; nothing is lost: the same command goes on later"
    return ""
