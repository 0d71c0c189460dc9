"""Dashboard of ``dovetail run``: on loopback, for bearers of the token in a file."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from dovetail.controllers.context import ControllerContext
from dovetail.dashboard.server import MIN_TOKEN_LENGTH, DashboardServer
from dovetail.dashboard.sources.process import ProcessSource
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.host.log_writer import LineLog


class DashboardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Port of the dashboard, and where its token is."""

    port: int
    token_file: str | None
    cluster_name: str
    region: str


class TokenFile:
    """A token in a file, such as a mounted Secret: read for each request, so that it can be rotated."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def read(self) -> str:
        """Return the token; empty, which no request can match, if the file cannot be read."""
        try:
            return self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def check(self) -> None:
        """Raise if there is no usable token now."""
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise _token_error(f"{self._path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise _token_error(f"{self._path} is not text") from None
        if len(token) < MIN_TOKEN_LENGTH:
            message = (
                f"the token in {self._path} has {len(token)} characters; use at least {MIN_TOKEN_LENGTH}"
            )
            raise _token_error(message)


def _token_error(message: str) -> InvalidInputError:
    return InvalidInputError([ValidationError("--dashboard-token-file", 0, "", message)])


@asynccontextmanager
async def dashboard_of_process(
    settings: DashboardSettings, log: LineLog
) -> AsyncIterator[Callable[[ControllerContext], None]]:
    """Yield a function that starts the dashboard of a controllers' context.

    The autoscaler does not depend on it: later errors are logged.
    """
    if not settings.port:
        yield lambda _: None
        return
    if settings.token_file is None:
        raise _token_error("is required with --dashboard-port: a file with a token for the dashboard")
    token = TokenFile(settings.token_file)
    token.check()
    synced: asyncio.Future[ControllerContext] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(_serve(settings, token, synced, log))
    try:
        yield synced.set_result
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _serve(
    settings: DashboardSettings, token: TokenFile, synced: asyncio.Future[ControllerContext], log: LineLog
) -> None:
    # No Events: their list would be a right that the controllers do not need.
    source = ProcessSource(
        await synced,
        source="controller",
        name=settings.cluster_name,
        prices="prices of the controller",
        region=settings.region,
        use_known_reasons=True,
    )
    try:
        await source.start()
        server = DashboardServer(source, get_token=token.read)
        async with server.serving(settings.port) as port:
            log.info("serving the dashboard", address=f"127.0.0.1:{port}")
            await asyncio.Event().wait()
    except DovetailError as error:
        log.error("the dashboard is not served", error=str(error))  # noqa: TRY400 - not Python's logging
    finally:
        await source.close()
