"""AWS calls for one cluster: pages, retries on conflict, waiting for a state.

``aws.session`` runs a boto3 call in a thread and retries throttling. This
client adds what creating and deleting infrastructure needs: "exists already"
and "is gone already" count as success, and a dependency in transition is
retried for minutes.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

import msgspec

from dovetail.aws.errors import AwsError
from dovetail.aws.session import AwsSession
from dovetail.eks.aws_errors import (
    is_already_exists,
    is_conflict,
    is_not_found,
    is_not_visible_yet,
    with_advice,
)
from dovetail.eks.plan.resource import Account
from dovetail.errors import DovetailError
from dovetail.ports.event_loop import EventLoop

T = TypeVar("T")
Raw = dict[str, Any]
"""An object of an AWS response, as boto3 returns it."""

_WRITE_PREFIXES: Final = tuple(
    f"{verb}_" for verb in "add associate attach authorize create modify put replace set tag update".split()
)
"""Prefixes of boto3 methods whose parameters can name resources that are new."""


class PollSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Interval and timeouts of polling."""

    interval: timedelta = timedelta(seconds=5)
    timeout: timedelta = timedelta(minutes=40)
    update_timeout: timedelta = timedelta(hours=6)
    """For updates of EKS that replace the nodes of a group; EKS gives up by itself."""
    conflict_timeout: timedelta = timedelta(minutes=15)
    """For conflicts that end by themselves: a dependency or a role in transition."""
    visibility_timeout: timedelta = timedelta(minutes=1)
    """For new resources that AWS does not show everywhere yet."""


class WaitTimeoutError(DovetailError):
    """A resource did not reach the expected state before the timeout."""


class AwsClient:
    """AWS API of one cluster's account and region."""

    def __init__(
        self,
        *,
        session: AwsSession,
        loop: EventLoop,
        account: Account,
        cluster: str,
        prefix: str | None = None,
        polling: PollSettings | None = None,
    ) -> None:
        """``prefix`` begins names in IAM, if it does not begin with the cluster's name."""
        self.session = session
        self.loop = loop
        self.account = account
        self.cluster = cluster
        self.name_prefixes = (cluster, prefix) if prefix else (cluster,)
        self.adopts_untagged = False
        """True if IAM resources without a region tag belong to this cluster."""
        self.polling = polling or PollSettings()

    async def call(self, service: str, method: str, **params: Any) -> Raw:
        """Call a boto3 method; raises ``AwsError``."""
        client = self.session.client(service)

        def function() -> Raw:
            response: Raw = getattr(client, method)(**params)
            return response

        if method.startswith(_WRITE_PREFIXES):
            return await self.retry_until_visible(lambda: self.run(service, method, function))
        return await self.run(service, method, function)

    async def list_all(self, service: str, method: str, key: str, **params: Any) -> list[Any]:
        """Return the items under ``key`` from all pages of a response."""
        client = self.session.client(service)

        def function() -> list[Any]:
            if not client.can_paginate(method):
                return list(getattr(client, method)(**params).get(key) or ())
            pages = client.get_paginator(method).paginate(**params).build_full_result()
            return list(pages.get(key) or ())

        return await self.run(service, method, function)

    async def describe_ec2(self, what: str, *filters: Raw) -> list[Raw]:
        """Return all EC2 resources that match every filter: ``Subnets``, ``Volumes``."""
        return await self.list_all("ec2", describe_method(what), what, Filters=list(filters))

    async def describe_instances(self, *filters: Raw) -> list[Raw]:
        """Return all instances that match every filter."""
        reservations = await self.list_all("ec2", "describe_instances", "Reservations", Filters=list(filters))
        return [instance for reservation in reservations for instance in reservation["Instances"]]

    async def gather(self, work: Sequence[Awaitable[T]]) -> list[T]:
        """Await several calls concurrently; raises the first error."""
        results = await self.loop.gather(work)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return [result for result in results if not isinstance(result, Exception)]

    async def run(self, service: str, method: str, function: Callable[[], T]) -> T:
        """Run a function that calls boto3 in a thread; raises ``AwsError``.

        The function must be idempotent: it is repeated when a response is lost.
        """
        try:
            operation = operation_name(self.session.client(service), method)
            return await self.session.call(operation, function)
        except AwsError as error:
            raise with_advice(error, service) from error

    async def call_or_none(self, service: str, method: str, **params: Any) -> Raw | None:
        """Call a method that describes a resource; None if it does not exist."""
        return await none_if_not_found(self.call(service, method, **params))

    async def create(self, service: str, method: str, **params: Any) -> Raw | None:
        """Call a method that creates a resource; None if it exists already."""
        try:
            return await self.call_with_retry(service, method, **params)
        except AwsError as error:
            if is_already_exists(error):
                return None
            raise

    async def delete(self, service: str, method: str, **params: Any) -> None:
        """Call a method that deletes a resource; not found is success."""
        await none_if_not_found(self.call_with_retry(service, method, **params))

    async def call_with_retry(self, service: str, method: str, **params: Any) -> Raw:
        """Call a method, and retry while dependencies are in transition."""
        return await self._retry(
            lambda: self.call(service, method, **params),
            lambda error: is_conflict(error) or is_not_visible_yet(error),
            self.polling.conflict_timeout,
        )

    async def retry_until_visible(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run work on new resources, and retry while AWS answers "not found".

        AWS is eventually consistent: a new resource is visible everywhere only
        some seconds after its creation.
        """
        return await self._retry(work, is_not_found, self.polling.visibility_timeout)

    async def _retry(
        self, work: Callable[[], Awaitable[T]], is_temporary: Callable[[AwsError], bool], timeout: timedelta
    ) -> T:
        deadline = self.loop.now() + timeout
        while True:
            try:
                return await work()
            except AwsError as error:
                if not is_temporary(error) or self.loop.now() >= deadline:
                    raise
            await self.loop.sleep(self.polling.interval)

    async def wait_for(
        self, description: str, poll: Callable[[], Awaitable[T | None]], *, timeout: timedelta | None = None
    ) -> T:
        """Poll until a result is not None, and return it; raises ``WaitTimeoutError``."""
        limit = timeout or self.polling.timeout
        deadline = self.loop.now() + limit
        while True:
            result = await poll()
            if result is not None:
                return result
            if self.loop.now() >= deadline:
                raise WaitTimeoutError(f"{description}: timed out after {limit}")
            await self.loop.sleep(self.polling.interval)


def tag_filter(key: str, value: str) -> Raw:
    """Return an EC2 filter for a tag."""
    return {"Name": f"tag:{key}", "Values": [value]}


def describe_method(what: str) -> str:
    """Return the boto3 method that describes EC2 resources: describe_nat_gateways."""
    return "describe" + re.sub("([A-Z])", r"_\1", what).lower()


def operation_name(client: Any, method: str) -> str:
    """Return the API's name of a boto3 method: DescribeVpcs for describe_vpcs."""
    return str(client.meta.method_to_api_mapping[method])


async def none_if_not_found(work: Awaitable[T]) -> T | None:
    """Return the result of a call; None if AWS answers "not found"."""
    try:
        return await work
    except AwsError as error:
        if is_not_found(error):
            return None
        raise
