"""A virtual account as a process of its own, which outlives the controllers."""

import asyncio
from typing import Final

from dovetail import __version__
from dovetail.errors import DovetailError
from dovetail.kube.auth.kubeconfig import Access
from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection
from dovetail.kube.preflight import kubernetes_version
from dovetail.kube.rate_limit import RateLimit
from dovetail.operator.virtual.account import AccountSettings, VirtualAccount
from dovetail.operator.virtual.cloud import check_virtual
from dovetail.operator.virtual.server import AccountServer
from dovetail.ports.telemetry import Log

_FIRST_LOOK: Final = 8.0


async def serve(
    access: Access,
    settings: AccountSettings,
    *,
    log: Log,
    port: int,
    anyway: bool,
    stop: asyncio.Event,
) -> None:
    """Serve an account until ``stop``, which may come while it begins; the log says where."""
    serving = asyncio.ensure_future(_serve(access, settings, log=log, port=port, anyway=anyway))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
    finally:
        for one in (serving, stopped):
            one.cancel()
        await asyncio.gather(serving, stopped, return_exceptions=True)
    log.info("stopped")


async def _serve(
    access: Access, settings: AccountSettings, *, log: Log, port: int, anyway: bool
) -> None:
    """Serve until cancelled."""
    await _check(access, anyway=anyway)
    account = VirtualAccount(access, settings, log=log)
    server = AccountServer(account)
    try:
        await account.start()
        log.info("serving a virtual account", endpoint=await server.start(port))
        await asyncio.Event().wait()
    finally:
        await server.stop()
        await account.close()


async def _check(access: Access, *, anyway: bool) -> None:
    connection = Connection(
        access,
        limit=RateLimit(clock=asyncio.get_running_loop().time),
        agent=f"dovetail/{__version__}",
    )
    try:
        async with asyncio.timeout(_FIRST_LOOK):
            await kubernetes_version(connection)
            await check_virtual(HttpKube(connection), anyway=anyway)
    except TimeoutError as error:
        what = f"{connection.awaited} gave no answer within {_FIRST_LOOK:g}s"
        raise DovetailError(what) from error
    finally:
        await connection.close()
