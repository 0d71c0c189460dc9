"""Virtual account as a process: start without an API server, and stop."""

import asyncio
from pathlib import Path

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.host.clock import SystemClock
from dovetail.host.log_writer import LineLog
from dovetail.kube.auth.kubeconfig import RestConfig, load_rest_config
from dovetail.operator.virtual.account import AccountSettings
from dovetail.operator.virtual.process import serve_account


def access_to(port: int, folder: Path) -> RestConfig:
    file = folder / "kubeconfig"
    file.write_text(
        f"""
        clusters: [{{name: mute, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
        users: [{{name: me, user: {{token: secret}}}}]
        contexts: [{{name: here, context: {{cluster: mute, user: me}}}}]
        current-context: here
        """
    )
    return load_rest_config(str(file), environ={}, clock=SystemClock())


def test_stop_works_while_the_api_server_does_not_respond(tmp_path: Path) -> None:
    lines: list[str] = []

    async def stopped_early() -> None:
        request, stop = asyncio.Event(), asyncio.Event()

        async def never_answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request.set()
            await stop.wait()
            writer.close()

        mute = await asyncio.start_server(never_answer, "127.0.0.1", 0)
        port = mute.sockets[0].getsockname()[1]
        settings = AccountSettings(region="us-east-1", catalog=bundled_catalog(), prices=bundled_prices())
        log = LineLog(lines.append, clock=SystemClock(), level="info")
        serving = asyncio.ensure_future(
            serve_account(
                access_to(port, tmp_path), settings, log=log, port=0, allow_real_nodes=False, stop=stop
            )
        )
        await request.wait()
        stop.set()
        await asyncio.wait_for(serving, 5)
        mute.close()

    asyncio.run(stopped_early())

    assert len(lines) == 1
    assert "stopped" in lines[0]
