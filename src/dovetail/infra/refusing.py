"""AWS's refusals, told to the person whose credentials they are about."""

import re
from typing import Final

from dovetail.aws.faults import AwsError, Kind

_NAMED: Final = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z]+)")
"""How AWS names what was missing, which need not be what was called (``iam:PassRole``)."""


class Refused(AwsError):
    """A call that these credentials may not make; it says which permission it takes."""

    def __init__(self, service: str, error: AwsError) -> None:
        super().__init__(error.operation, error.code, error.message)
        named = _NAMED.search(error.message)
        permission = named[1] if named else f"{service}:{error.operation}"
        advice = f"your credentials need the permission {permission}"
        if error.kind is Kind.NO_CREDENTIALS:
            advice = (
                "AWS does not take your credentials; renew them (aws sso login), or name others "
                "(AWS_PROFILE)"
            )
        self.args = (f"{error.operation}: {error.code}: {error.message}; {advice}",)


def to_a_person(error: AwsError, service: str) -> AwsError:
    """Return an error with advice for whoever typed the command, not for a controller."""
    if error.kind in (Kind.REFUSED, Kind.NO_CREDENTIALS):
        return Refused(service, error)
    return error
