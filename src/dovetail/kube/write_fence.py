"""Writes that are held back at the last moment."""

from collections.abc import Callable

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload


def let_pass() -> None:
    """Guard nothing."""


class GuardedBody(BytesPayload):
    """A request's body that asks a guard when there is a connection to send it over.

    To find or make one may take many seconds, in which a lease can be lost. A request
    without the body that it announces is none.
    """

    def __init__(self, data: bytes, guard: Callable[[], None]) -> None:
        super().__init__(data)
        self._guard = guard

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        self._guard()
        await super().write_with_length(writer, content_length)
