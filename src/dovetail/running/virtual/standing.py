"""A virtual account as a process of its own, which outlives the controllers."""

import asyncio

from dovetail import __version__
from dovetail.kube.client import HttpKube
from dovetail.kube.config import Access
from dovetail.kube.connection import Connection
from dovetail.kube.limiting import RateLimit
from dovetail.kube.preflight import kubernetes_version
from dovetail.ports.telemetry import Log
from dovetail.running.virtual.account import AccountSettings, VirtualAccount
from dovetail.running.virtual.hiring import check_virtual
from dovetail.running.virtual.serving import AccountServer


async def serve(
    access: Access,
    settings: AccountSettings,
    *,
    log: Log,
    port: int,
    anyway: bool,
    stop: asyncio.Event,
) -> None:
    """Serve an account until ``stop``; the log says where."""
    await _check(access, anyway=anyway)
    account = VirtualAccount(access, settings, log=log)
    server = AccountServer(account)
    try:
        await account.start()
        log.info("serving a virtual account", endpoint=await server.start(port))
        await stop.wait()
    finally:
        await server.stop()
        await account.close()
    log.info("stopped")


async def _check(access: Access, *, anyway: bool) -> None:
    connection = Connection(
        access,
        limit=RateLimit(clock=asyncio.get_running_loop().time),
        agent=f"dovetail/{__version__}",
    )
    try:
        await kubernetes_version(connection)
        await check_virtual(HttpKube(connection), anyway=anyway)
    finally:
        await connection.close()
