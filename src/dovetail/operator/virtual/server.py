"""A virtual account on a port of this machine, for controllers in other processes."""

from typing import Final

import msgspec
from aiohttp import web

from dovetail.operator.virtual.account import METHODS, VirtualAccount
from dovetail.operator.virtual.protocol import Call, decode, encode

_LOOPBACK: Final = "127.0.0.1"
_LARGEST: Final = 16 << 20
_LAST_WORDS: Final = 1.0


class AccountServer:
    """Serves the cloud port as ``POST /<method>``."""

    def __init__(self, account: VirtualAccount) -> None:
        self._account = account
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_post("/{method}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_LAST_WORDS)

    async def start(self, port: int = 0) -> str:
        """Listen on loopback only; returns the URL."""
        await self._runner.setup()
        await web.TCPSite(self._runner, _LOOPBACK, port).start()
        return f"http://{_LOOPBACK}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        # No page in somebody's browser can send this without asking first.
        if method not in METHODS or request.content_type != "application/json":
            raise web.HTTPNotFound
        try:
            call = decode(await request.read(), Call)
        except msgspec.MsgspecError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        answer = await self._account.answer(method, call)
        return web.Response(body=encode(answer), content_type="application/json")
