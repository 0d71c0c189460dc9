"""Virtual account as a separate process, which outlives the controllers."""

import asyncio
from typing import Final

from dovetail import __version__
from dovetail.errors import DovetailError
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.preflight import kubernetes_version
from dovetail.kube.rate_limit import RateLimiter
from dovetail.operator.virtual.account import AccountServer, AccountSettings, VirtualAccount
from dovetail.operator.virtual.cloud import check_no_real_nodes
from dovetail.ports.telemetry import Log

_CHECK_TIMEOUT: Final = 8.0
"""Seconds."""


async def serve_account(
    access: RestConfig,
    settings: AccountSettings,
    *,
    log: Log,
    port: int,
    allow_real_nodes: bool,
    stop: asyncio.Event,
) -> None:
    """Serve an account until ``stop`` is set, also during startup; log the URL."""
    serving = asyncio.ensure_future(_serve(access, settings, log=log, port=port, anyway=allow_real_nodes))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
    finally:
        for task in (serving, stopped):
            task.cancel()
        await asyncio.gather(serving, stopped, return_exceptions=True)
    log.info("stopped")


async def _serve(access: RestConfig, settings: AccountSettings, *, log: Log, port: int, anyway: bool) -> None:
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


async def _check(access: RestConfig, *, anyway: bool) -> None:
    connection = Connection(
        access,
        rate_limiter=RateLimiter(clock=asyncio.get_running_loop().time),
        user_agent=f"dovetail/{__version__}",
    )
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT):
            await kubernetes_version(connection)
            await check_no_real_nodes(HttpKubeClient(connection), allow_real_nodes=anyway)
    except TimeoutError as error:
        message = f"{connection.waiting_for} did not respond within {_CHECK_TIMEOUT:g}s"
        raise DovetailError(message) from error
    finally:
        await connection.close()
