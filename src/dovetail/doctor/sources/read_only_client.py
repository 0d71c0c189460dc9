"""Read-only AWS client: allows only Describe, Get and List operations."""

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
        self._responses: dict[str, asyncio.Future[Any]] = {}

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

    async def list_items(self, service: str, operation: str, field: str, **query: Any) -> tuple[Any, ...]:
        """Return the items of all pages of a list request."""
        method = self._method(service, operation)
        client, name = self._aws.client(service), xform_name(operation)

        def read_pages() -> tuple[Any, ...]:
            if not client.can_paginate(name):
                return tuple(method(**query).get(field) or ())
            pages = client.get_paginator(name).paginate(**query)
            return tuple(item for page in pages for item in page.get(field) or ())

        items: tuple[Any, ...] = await self._once(
            f"{service} {operation} {query} {field}", lambda: self._called(service, operation, read_pages)
        )
        return items

    async def _called(self, service: str, operation: str, call: Callable[[], Any]) -> Any:
        try:
            return await self._aws.call(operation, call)
        except AwsError as error:
            raise with_advice(error, service) from error

    async def _once(self, key: str, read: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Deduplicate requests: several parts may need the same response."""
        if key not in self._responses:
            self._responses[key] = asyncio.ensure_future(read())
        return await self._responses[key]

    def _method(self, service: str, operation: str) -> Any:
        if not operation.startswith(READING):
            raise ValueError(f"{operation} is not a read-only operation")
        return getattr(self._aws.client(service), xform_name(operation))
