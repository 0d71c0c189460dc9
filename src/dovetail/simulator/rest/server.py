"""HTTPS server on loopback that serves the Kubernetes REST API."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from email.utils import format_datetime
from hmac import compare_digest
from typing import Final, cast

from aiohttp import web

from dovetail.ports.kube_errors import ApiError, InternalError, RequestEntityTooLarge, Unauthorized
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.rest.certificate import create_certificate
from dovetail.simulator.rest.encoding.responses import status_response
from dovetail.simulator.rest.listener import ConnectionLimits, Listener
from dovetail.simulator.rest.pod_logs import LogSource
from dovetail.simulator.rest.router import Router

_LOOPBACK: Final = "127.0.0.1"
_MAX_BODY: Final = 3 << 20
"""Bytes; Kubernetes' limit."""
_HEALTH_PATHS: Final = ("/healthz", "/livez", "/readyz")
_SHUTDOWN_TIMEOUT: Final = 1.0
"""Seconds for responses in flight when the server stops."""
_BODY_TIMEOUT: Final = 30.0
"""Seconds for the body of a request."""
_TLS_CLOSE_TIMEOUT: Final = 0.05
"""Seconds for clients to answer the TLS close_notify."""

_log = logging.getLogger(__name__)


class Server:
    """Serves an ``ApiServer`` to kubectl and client libraries.

    All requests are handled on the thread of the event loop that ``start`` runs on.
    ``on_write`` is called after every write; ``now`` is the clock of printed ages and
    of the Date header, which must be in UTC; ``logs`` is the source of pod logs.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        token: str,
        now: Callable[[], datetime],
        on_write: Callable[[], None] = lambda: None,
        logs: LogSource | None = None,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 - frozen
    ) -> None:
        if not token:
            raise ValueError("the token is empty: every client would be authenticated")
        self._bearer = f"Bearer {token}".encode()
        self._certificate = create_certificate(_LOOPBACK)
        self._router = Router(api, now=now, on_write=on_write, logs=logs)
        self._now = now
        self._limits = limits
        self._runner: web.AppRunner | None = None
        self._listener: Listener | None = None

    @property
    def certificate(self) -> str:
        """The certificate authority for clients, in PEM."""
        return self._certificate.certificate

    async def start(self, port: int = 0) -> int:
        """Listen on 127.0.0.1 and return the port; 0 selects a free one."""
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.on_response_prepare.append(self._set_headers)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            # Otherwise a watch notices a closed connection only at its next event.
            handler_cancellation=True,
            shutdown_timeout=_SHUTDOWN_TIMEOUT,
        )
        await self._runner.setup()
        # setup() has created the server.
        web_server = cast(web.Server, self._runner.server)
        self._listener = Listener(web_server, self._certificate.context(), self._limits)
        return self._listener.start(_LOOPBACK, port)

    async def stop(self) -> None:
        """Close all watches and followed logs, and stop listening."""
        self._router.close()
        if self._runner is None:
            return
        if self._listener is not None:
            await self._listener.close()
        web_server = self._runner.server
        connections = web_server.connections if web_server is not None else ()
        transports = [connection.transport for connection in connections if connection.transport is not None]
        await self._runner.cleanup()
        if transports:
            # TLS waits for the client's close_notify; abort connections that do not send it.
            await asyncio.sleep(_TLS_CLOSE_TIMEOUT)
            for transport in transports:
                transport.abort()
            await asyncio.sleep(0)
        self._runner = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        with cast(Listener, self._listener).track_request(request):
            return await self._respond(request)

    async def _set_headers(self, _: web.Request, response: web.StreamResponse) -> None:
        # Clients compute ages with it: virtual time may be ahead of their clock.
        response.headers["Date"] = format_datetime(self._now(), usegmt=True)
        # As kube-apiserver: the HTTP cache of client-go reuses a response with a date in the future,
        # and helm does not discover the kinds of CustomResourceDefinitions that it has created.
        response.headers["Cache-Control"] = "no-cache, private"

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        if request.path.rstrip("/") in _HEALTH_PATHS:
            return web.Response(text="ok")
        try:
            self._authenticate(request)
            if request.can_read_body:
                async with asyncio.timeout(_BODY_TIMEOUT):
                    await request.read()  # aiohttp keeps the body for later reads.
            return await self._router.handle(request)
        except ApiError as error:
            return status_response(error)
        except web.HTTPRequestEntityTooLarge:
            return status_response(RequestEntityTooLarge(f"Request entity too large: limit is {_MAX_BODY}"))
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text="the request body did not arrive in time") from error
        except web.HTTPException:
            raise
        except ConnectionError:
            return web.Response()  # The client is gone: the response is not sent.
        except Exception:  # noqa: BLE001 - the client gets a Status for every error
            _log.exception("failed to handle %s %s", request.method, request.path)
            return status_response(InternalError("Internal error occurred: see the server log"))

    def _authenticate(self, request: web.Request) -> None:
        header = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if not compare_digest(header, self._bearer):
            raise Unauthorized("Unauthorized")
