"""Read-only AWS client: operations other than Describe, Get and List are rejected."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from botocore import xform_name

from dovetail.aws.errors import AwsError
from dovetail.aws.session import AwsSession
from dovetail.doctor.facts import Raw
from dovetail.eks.aws_errors import with_advice

READING: Final = ("Describe", "Get", "List")


class ReadOnlyAws:
    """AWS session for reads; equal requests are made once."""

    def __init__(self, aws: AwsSession) -> None:
        self._aws = aws
        self._asked: dict[str, asyncio.Future[Any]] = {}

    @property
    def region(self) -> str:
        return self._aws.region

    async def request(self, service: str, operation: str, **query: Any) -> Raw:
        """Return the response of one request."""
        method = self._method(service, operation)
        response: Raw = await self._once(
            f"{service} {operation} {query}",
            lambda: self._called(service, operation, lambda: method(**query)),
        )
        return response

    async def list_items(self, service: str, operation: str, answer: str, **query: Any) -> tuple[Any, ...]:
        """Return the items of all pages of a list request."""
        method = self._method(service, operation)
        client, name = self._aws.client(service), xform_name(operation)

        def every() -> tuple[Any, ...]:
            if not client.can_paginate(name):
                return tuple(method(**query).get(answer) or ())
            pages = client.get_paginator(name).paginate(**query)
            return tuple(item for page in pages for item in page.get(answer) or ())

        items: tuple[Any, ...] = await self._once(
            f"{service} {operation} {query} {answer}", lambda: self._called(service, operation, every)
        )
        return items

    async def _called(self, service: str, operation: str, work: Callable[[], Any]) -> Any:
        try:
            return await self._aws.call(operation, work)
        except AwsError as error:
            raise with_advice(error, service) from error

    async def _once(self, question: str, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Deduplicate requests: several parts may need the same response."""
        if question not in self._asked:
            self._asked[question] = asyncio.ensure_future(ask())
        return await self._asked[question]

    def _method(self, service: str, operation: str) -> Any:
        if not operation.startswith(READING):
            raise ValueError(f"{operation} is not a read-only operation")
        return getattr(self._aws.client(service), xform_name(operation))
