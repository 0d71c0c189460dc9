"""How handlers reach AWS: one call, all pages of an answer, or waiting for something."""

import re
from collections.abc import Awaitable, Callable, Collection
from datetime import timedelta
from typing import Any, Final, TypeVar

import msgspec

from dovetail.aws.errors import AwsError, Kind
from dovetail.aws.session import Aws
from dovetail.eks.aws_errors import to_a_person
from dovetail.eks.plan.resource import Account
from dovetail.errors import DovetailError
from dovetail.ports.event_loop import Loop

T = TypeVar("T")
Raw = dict[str, Any]
"""Something as boto3 tells of it."""

BUSY: Final = frozenset(
    {
        "DependencyViolation",
        "DeleteConflict",
        "ResourceInUseException",
        "InvalidIPAddress.InUse",
        "InvalidNetworkInterface.InUse",
        "QueueDeletedRecently",
        "AWS.SimpleQueueService.QueueDeletedRecently",
        "ConcurrentModification",
        "ConcurrentModificationException",
        "EntityTemporarilyUnmodifiable",
    }
)
"""What goes by itself: something else is still on its way out, or in."""
_THERE: Final = (
    "AlreadyExists",
    "EntityAlreadyExists",
    "Duplicate",
    "AlreadyAssociated",
    "ResourceAlreadyAssociated",
    "QueueAlreadyExists",
)
_UNKNOWN_YET: Final = ("cannot be assumed", "does not exist", "Invalid principal", "not authorized")
"""What services say of a role, a subnet or a group that was made a moment ago."""
_NEW: Final = ("role", "subnet", "security group")
_MAKING: Final = tuple(
    f"{one}_"
    for one in "add associate attach authorize create modify put replace set tag update".split()
)
"""How methods begin that name other things, which may be new."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How often to look again, and how long at most."""

    look: timedelta = timedelta(seconds=5)
    patience: timedelta = timedelta(minutes=40)
    settling: timedelta = timedelta(minutes=15)
    """For what goes by itself: a dependency on its way out, a role or a name on its way in."""
    appearing: timedelta = timedelta(minutes=1)
    """For what was made a moment ago, and is not seen everywhere yet."""


class TookTooLong(DovetailError):
    """Something did not become what it should within our patience."""


class Reach:
    """AWS for one cluster's sake."""

    def __init__(
        self,
        *,
        aws: Aws,
        loop: Loop,
        account: Account,
        cluster: str,
        prefix: str | None = None,
        pace: Pace | None = None,
    ) -> None:
        """``prefix`` is how names in IAM begin, where not with the cluster's."""
        self.aws = aws
        self.loop = loop
        self.account = account
        self.cluster = cluster
        self.prefixes = (cluster, prefix) if prefix else (cluster,)
        self.pace = pace or Pace()

    async def ask(self, service: str, method: str, **given: Any) -> Raw:
        """Make one call; raises ``AwsError``."""
        client = self.aws.client(service)

        def call() -> Raw:
            answer: Raw = getattr(client, method)(**given)
            return answer

        if method.startswith(_MAKING):
            return await self.seen_soon(lambda: self.call(service, method, call))
        return await self.call(service, method, call)

    async def ask_all(self, service: str, method: str, key: str, **given: Any) -> list[Any]:
        """Return a list from all pages of an answer."""
        client = self.aws.client(service)

        def call() -> list[Any]:
            if not client.can_paginate(method):
                return list(getattr(client, method)(**given).get(key) or ())
            whole = client.get_paginator(method).paginate(**given).build_full_result()
            return list(whole.get(key) or ())

        return await self.call(service, method, call)

    async def call(self, service: str, method: str, work: Callable[[], T]) -> T:
        """Do work that is a call, or calls until one takes effect; raises ``AwsError``."""
        try:
            return await self.aws.call(operation(self.aws.client(service), method), work)
        except AwsError as error:
            raise to_a_person(error, service) from error

    async def ask_if_there(self, service: str, method: str, **given: Any) -> Raw | None:
        """Make a call about something; None when it is not there."""
        return await if_there(self.ask(service, method, **given))

    async def make(self, service: str, method: str, **given: Any) -> Raw | None:
        """Make a call that creates; None when it is there already."""
        try:
            return await self.patiently(service, method, **given)
        except AwsError as error:
            if is_there(error):
                return None
            raise

    async def seen_soon(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do work on what was made a moment ago: AWS shows that everywhere only soon after."""
        until = self.loop.now() + self.pace.appearing
        while True:
            try:
                return await work()
            except AwsError as error:
                if not is_gone(error) or self.loop.now() >= until:
                    raise
            await self.loop.sleep(self.pace.look)

    async def patiently(
        self, service: str, method: str, *, busy: Collection[str] = BUSY, **given: Any
    ) -> Raw:
        """Make a call, again while others stand in its way for a moment."""
        until = self.loop.now() + self.pace.settling
        while True:
            try:
                return await self.ask(service, method, **given)
            except AwsError as error:
                passing = error.code in busy and not is_there(error)
                if not (passing or _is_about_something_new(error)) or self.loop.now() >= until:
                    raise
            await self.loop.sleep(self.pace.look)

    async def remove(self, service: str, method: str, **given: Any) -> None:
        """Make a call that removes; being gone already is success."""
        await if_there(self.patiently(service, method, **given))

    async def until(
        self,
        what: str,
        look: Callable[[], Awaitable[T | None]],
        *,
        patience: timedelta | None = None,
    ) -> T:
        """Look until there is an answer, and return it; raises ``TookTooLong``."""
        end = self.loop.now() + (patience or self.pace.patience)
        while True:
            found = await look()
            if found is not None:
                return found
            if self.loop.now() >= end:
                raise TookTooLong(f"{what}: not within {patience or self.pace.patience}")
            await self.loop.sleep(self.pace.look)


def operation(client: Any, method: str) -> str:
    """Return the API's own name of a boto3 method: DescribeVpcs for describe_vpcs."""
    return str(client.meta.method_to_api_mapping[method])


async def if_there(work: Awaitable[T]) -> T | None:
    """Return what a call returns; None when it says that the thing is not there."""
    try:
        return await work
    except AwsError as error:
        if is_gone(error):
            return None
        raise


def is_gone(error: AwsError) -> bool:
    """Tell whether an error says that something is not there."""
    return (
        error.kind is Kind.GONE or re.search(r"NotFound|I[dD]\.Malformed", error.code) is not None
    )


def is_there(error: AwsError) -> bool:
    """Tell whether an error says that something is there already."""
    if error.code == "ResourceInUseException":
        # EKS has one code for both; only the words differ.
        return "already exists" in str(error)
    return any(one in error.code for one in _THERE)


def _is_about_something_new(error: AwsError) -> bool:
    told = str(error)
    wrong = error.code.startswith(("InvalidParameter", "InvalidRequest", "MalformedPolicyDocument"))
    named = any(one in told.lower() for one in _NEW)
    return wrong and named and any(one in told for one in _UNKNOWN_YET)
