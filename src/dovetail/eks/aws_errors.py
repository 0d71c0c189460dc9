"""AWS error codes that matter while resources are created and deleted.

``aws.errors`` classifies the codes that every caller treats alike: throttling,
missing permissions, not found. This module adds those of EKS, EC2, IAM, SQS and
CloudWatch Logs that ``eks`` reacts to, and advice for the user at the terminal.
"""

import re
from enum import Enum
from typing import Final

from dovetail.aws.errors import NO_CREDENTIALS, AwsError, ErrorKind


class Meaning(Enum):
    """Meaning of an error code for a call that creates, updates or deletes."""

    ALREADY_EXISTS = "the resource exists"
    CONFLICT = "another resource is being created, changed or deleted; retry"
    NOT_FOUND = "the resource does not exist"
    INVALID = "a parameter is invalid, or names a resource that is not visible yet"


# First match wins. Patterns match anywhere in the code unless anchored.
_CODES: Final = (
    (
        r"AlreadyExists|EntityAlreadyExists|Duplicate|AlreadyAssociated|QueueAlreadyExists",
        Meaning.ALREADY_EXISTS,
    ),
    (
        r"^(DependencyViolation|DeleteConflict|ResourceInUseException"
        r"|InvalidIPAddress\.InUse|InvalidNetworkInterface\.InUse"
        r"|(AWS\.SimpleQueueService\.)?QueueDeletedRecently"
        r"|ConcurrentModification(Exception)?|EntityTemporarilyUnmodifiable)$",
        Meaning.CONFLICT,
    ),
    (r"NotFound|I[dD]\.Malformed", Meaning.NOT_FOUND),
    (r"^(InvalidParameter|InvalidRequest|MalformedPolicyDocument)", Meaning.INVALID),
)
_IN_USE: Final = "ResourceInUseException"
"""EKS's code for "exists already" and for "in transition"; only the messages differ."""
ALREADY_EXISTS_MESSAGES: Final = ("already exists", "already in use on this cluster")
"""Parts of messages with the code ResourceInUseException: the resource exists."""
NOT_VISIBLE_MESSAGES: Final = (
    r"(role|subnet|security group|group).*(cannot|could not) be assumed",
    r"(role|subnet|security group).*does not exist",
    r"invalid principal",
    r"(role|principal).*not authorized",
    r"misconfigured PodExecutionRole trust policy",
    r"service principals .* were not found in the trust relationships",
    r"role doesn't have the .* managed policies",
    r"invalid IAM instance profile",
)
"""Patterns of messages about a role, subnet or group that was created moments ago."""
_PERMISSION: Final = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z]+)")
"""The missing permission. It can differ from the operation called (``iam:PassRole``)."""


def is_not_found(error: AwsError) -> bool:
    """Return True if the error says that a resource does not exist."""
    return error.kind is ErrorKind.NOT_FOUND or _meaning(error) is Meaning.NOT_FOUND


def is_already_exists(error: AwsError) -> bool:
    """Return True if the error says that the resource exists already."""
    return _meaning(error) is Meaning.ALREADY_EXISTS


def is_conflict(error: AwsError) -> bool:
    """Return True if a dependency is in transition and a retry can succeed."""
    return _meaning(error) is Meaning.CONFLICT


def is_not_visible_yet(error: AwsError) -> bool:
    """Return True if a parameter names a new resource that AWS does not see yet.

    IAM roles, subnets and security groups are eventually consistent: other
    services reject them for some seconds after creation.
    """
    return _meaning(error) is Meaning.INVALID and any(
        re.search(pattern, str(error), re.IGNORECASE | re.DOTALL) for pattern in NOT_VISIBLE_MESSAGES
    )


def _meaning(error: AwsError) -> Meaning | None:
    text = str(error).lower()
    if error.code == _IN_USE and any(message in text for message in ALREADY_EXISTS_MESSAGES):
        return Meaning.ALREADY_EXISTS
    return next((meaning for pattern, meaning in _CODES if re.search(pattern, error.code)), None)


class AwsErrorWithAdvice(AwsError):
    """An AWS error whose message ends with what the user can do about it."""

    def __init__(self, error: AwsError, advice: str) -> None:
        super().__init__(error.operation, error.code, error.message)
        self.args = (f"{error.operation}: {error.code}: {error.message}; {advice}",)


def with_advice(error: AwsError, service: str) -> AwsError:
    """Return the error with advice for a user at a terminal, not for a controller."""
    advice = _advice(error, service)
    return AwsErrorWithAdvice(error, advice) if advice else error


def _advice(error: AwsError, service: str) -> str:
    if error.kind is ErrorKind.ACCESS_DENIED:
        named = _PERMISSION.search(error.message)
        permission = named[1] if named else f"{service}:{error.operation}"
        return f"your credentials need the permission {permission}"
    if error.code == NO_CREDENTIALS:
        return "log in (aws sso login), or set AWS_PROFILE to a profile that exists"
    if error.kind is ErrorKind.NO_CREDENTIALS:
        return "AWS rejects your credentials; renew them (aws sso login), or select others (AWS_PROFILE)"
    if error.kind in (ErrorKind.THROTTLED, ErrorKind.TRANSIENT):
        return "retries failed; no progress is lost: run the same command again later"
    return ""
