"""The way in: a server on loopback that speaks Kubernetes' REST."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from hmac import compare_digest
from typing import Final, cast

from aiohttp import web

from dovetail.ports.kube_errors import ApiError, InternalError, Unauthorized
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.rest.certificate import new_certificate
from dovetail.simulator.rest.encoding.responses import refusal
from dovetail.simulator.rest.errors import TooLarge
from dovetail.simulator.rest.pod_logs import Logs
from dovetail.simulator.rest.router import Router

_LOOPBACK: Final = "127.0.0.1"
_LARGEST_BODY: Final = 3 << 20
"""Bytes; what Kubernetes takes, too."""
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_LAST_WORDS: Final = 1.0
"""Seconds that answers under way have left when the server stops."""
_GOODBYE: Final = 0.05

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
        self._bearer = f"Bearer {token}".encode()
        self._certificate = new_certificate(_LOOPBACK)
        self._router = Router(api, now=now, on_activity=on_activity, logs=logs)
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    @property
    def certificate(self) -> str:
        """What callers must trust, in PEM; ``kubeconfig`` wants it."""
        return self._certificate.certificate

    async def start(self, port: int = 0) -> int:
        """Listen on 127.0.0.1 only; returns the port, which is chosen when it is 0."""
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
        # There is one as soon as it is set up.
        serving = cast(web.Server, self._runner.server)
        self._listening = await asyncio.get_running_loop().create_server(
            serving, _LOOPBACK, port, ssl=self._certificate.context()
        )
        return int(self._listening.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End all watches and followed logs at once, and stop listening."""
        self._router.end()
        if self._runner is None:
            return
        await self._close_the_door()
        serving = self._runner.server
        connections = serving.connections if serving is not None else ()
        transports = [one.transport for one in connections if one.transport is not None]
        await self._runner.cleanup()
        if transports:
            # TLS says goodbye and waits for an answer; those who do not give it are left.
            await asyncio.sleep(_GOODBYE)
            for transport in transports:
                transport.abort()
            await asyncio.sleep(0)
        self._runner = None

    async def _close_the_door(self) -> None:
        """Accept nobody more, and let those be received who were just accepted.

        asyncio loses sockets that it has accepted when its server is closed before it
        has made anything of them (CPython's issue 109564).
        """
        if self._listening is None:
            return
        for one in self._listening.sockets:
            asyncio.get_running_loop().remove_reader(one.fileno())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self._listening.close()

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
        if not compare_digest(given, self._bearer):
            raise Unauthorized("Unauthorized")
