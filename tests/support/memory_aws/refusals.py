"""Error responses of the account in memory, and damage that AWS would not prevent."""

from typing import Any

from botocore.exceptions import ClientError

Raw = dict[str, Any]


class DamageError(AssertionError):
    """A call that AWS accepts, and that takes away what a running resource needs."""


class KilledError(BaseException):
    """The process is killed: nothing that it does afterwards takes effect."""


def refusal(code: str, message: str) -> ClientError:
    """Return an error response of AWS."""
    return ClientError({"Error": {"Code": code, "Message": message}}, "")


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def tag_map(tags: Any) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags or ()}
