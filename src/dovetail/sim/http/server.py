"""The way in: a server on loopback that speaks Kubernetes' REST."""

import logging
from base64 import b64encode
from collections.abc import Callable
from datetime import datetime
from hmac import compare_digest
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from dovetail.ports.kubeerrors import ApiError, InternalError
from dovetail.sim.apiserver.server import ApiServer
from dovetail.sim.http.answers import refusal
from dovetail.sim.http.podlogs import Logs
from dovetail.sim.http.refusals import TooLarge, Unauthorized
from dovetail.sim.http.reviews import USER
from dovetail.sim.http.routing import Router

_LARGEST_BODY: Final = 3 << 20
"""Bytes; what Kubernetes takes, too."""
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_LAST_WORDS: Final = 1.0
"""Seconds that answers under way have left when the server stops."""

_log = logging.getLogger(__name__)


class Server:
    """Serves an ``ApiServer`` to kubectl and client libraries.

    Everything happens on the thread of the event loop that ``start`` runs on.
    ``on_activity`` is called after every request that has changed something;
    ``now`` is what ages are counted to; ``logs`` gives pods something to say.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        token: str,
        now: Callable[[], datetime],
        on_activity: Callable[[], None] = lambda: None,
        logs: Logs | None = None,
    ) -> None:
        if not token:
            raise ValueError("an empty token would let everybody in")
        basic = b64encode(f"{USER}:{token}".encode()).decode()
        self._passes = (f"Bearer {token}".encode(), f"Basic {basic}".encode())
        self._router = Router(api, now=now, on_activity=on_activity, logs=logs)
        self._runner: web.AppRunner | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen on a loopback address; returns the port, which is chosen when it is 0."""
        if not ip_address(host).is_loopback:
            raise ValueError(f"{host} is no loopback address: the sandbox is for this machine only")
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            # A watch whose caller has left must not wait for an event to notice.
            handler_cancellation=True,
            shutdown_timeout=_LAST_WORDS,
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """End all watches and followed logs at once, and stop listening."""
        self._router.end()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.rstrip("/") in _HEALTH:
            return web.Response(text="ok")
        try:
            self._check_token(request)
            return await self._router.answer(request)
        except ApiError as error:
            return refusal(error)
        except web.HTTPRequestEntityTooLarge:
            return refusal(TooLarge(f"Request entity too large: limit is {_LARGEST_BODY}"))
        except (ConnectionError, web.HTTPException):
            raise
        except Exception:  # noqa: BLE001 - the caller gets a Status, whatever happened
            _log.exception("failed to answer %s %s", request.method, request.path)
            return refusal(InternalError("Internal error occurred: the log says more"))

    def _check_token(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        # Both are compared in any case, so that the time taken tells nothing.
        if not any([compare_digest(given, one) for one in self._passes]):
            raise Unauthorized("Unauthorized")
