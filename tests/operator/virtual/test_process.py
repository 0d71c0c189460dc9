"""A virtual account as a process: how it begins where nobody answers, and how it ends."""

import asyncio
from pathlib import Path

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.host.clock import RealClock
from dovetail.host.log_writer import LineLog
from dovetail.kube.auth.kubeconfig import Access, find_access
from dovetail.operator.virtual.account import AccountSettings
from dovetail.operator.virtual.process import serve


def access_to(port: int, folder: Path) -> Access:
    file = folder / "kubeconfig"
    file.write_text(
        f"""
        clusters: [{{name: mute, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
        users: [{{name: me, user: {{token: secret}}}}]
        contexts: [{{name: here, context: {{cluster: mute, user: me}}}}]
        current-context: here
        """
    )
    return find_access(str(file), environ={}, clock=RealClock())


def test_it_can_be_stopped_while_it_waits_for_an_api_server_that_says_nothing(
    tmp_path: Path,
) -> None:
    said: list[str] = []

    async def stopped_early() -> None:
        asked, stop = asyncio.Event(), asyncio.Event()

        async def never_answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await stop.wait()
            writer.close()

        mute = await asyncio.start_server(never_answer, "127.0.0.1", 0)
        port = mute.sockets[0].getsockname()[1]
        settings = AccountSettings(
            region="us-east-1", catalog=bundled_catalog(), prices=bundled_prices()
        )
        log = LineLog(said.append, clock=RealClock(), level="info")
        serving = asyncio.ensure_future(
            serve(access_to(port, tmp_path), settings, log=log, port=0, anyway=False, stop=stop)
        )
        await asked.wait()
        stop.set()
        await asyncio.wait_for(serving, 5)
        mute.close()

    asyncio.run(stopped_early())

    assert len(said) == 1
    assert "stopped" in said[0]
