"""Calls to AWS that cannot change anything: a name that says otherwise is refused here."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from botocore import xform_name

from dovetail.aws.errors import AwsError
from dovetail.aws.session import Aws
from dovetail.doctor.facts import Raw
from dovetail.eks.aws_errors import to_a_person

READING: Final = ("Describe", "Get", "List")


class Account:
    """An account to look at."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._asked: dict[str, asyncio.Future[Any]] = {}

    @property
    def region(self) -> str:
        return self._aws.region

    async def ask(self, service: str, operation: str, **asked: Any) -> Raw:
        """Make one call; raises ``AwsError``."""
        method = self._method(service, operation)
        found: Raw = await self._once(
            f"{service} {operation} {asked}",
            lambda: self._called(service, operation, lambda: method(**asked)),
        )
        return found

    async def listed(
        self, service: str, operation: str, answer: str, **asked: Any
    ) -> tuple[Any, ...]:
        """Return all pages of a list; raises ``AwsError``."""
        method = self._method(service, operation)
        client, name = self._aws.client(service), xform_name(operation)

        def every() -> tuple[Any, ...]:
            if not client.can_paginate(name):
                return tuple(method(**asked).get(answer) or ())
            pages = client.get_paginator(name).paginate(**asked)
            return tuple(one for page in pages for one in page.get(answer) or ())

        found: tuple[Any, ...] = await self._once(
            f"{service} {operation} {asked} {answer}",
            lambda: self._called(service, operation, every),
        )
        return found

    async def _called(self, service: str, operation: str, work: Callable[[], Any]) -> Any:
        try:
            return await self._aws.call(operation, work)
        except AwsError as error:
            raise to_a_person(error, service) from error

    async def _once(self, question: str, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Several parts may want to know the same: it is asked once, and all share the answer."""
        if question not in self._asked:
            self._asked[question] = asyncio.ensure_future(ask())
        return await self._asked[question]

    def _method(self, service: str, operation: str) -> Any:
        if not operation.startswith(READING):
            raise ValueError(f"{operation} might change something")
        return getattr(self._aws.client(service), xform_name(operation))
