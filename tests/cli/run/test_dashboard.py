"""The dashboard of ``dovetail run``: its token, and what it serves."""

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest

from dovetail.cli.run.dashboard import DashboardSettings, TokenFile, dashboard_of_process
from dovetail.data.bundled import bundled_catalog, bundled_prices, bundled_sandbox_scenario
from dovetail.errors import InvalidInputError
from dovetail.host.clock import SystemClock
from dovetail.host.log_writer import LineLog
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.load import read_scenario

TOKEN = "a-token-of-enough-length"  # noqa: S105 - of a test


def settings(port: int, token_file: Path | None) -> DashboardSettings:
    file = str(token_file) if token_file else None
    return DashboardSettings(port=port, token_file=file, cluster_name="demo", region="us-east-1")


def open_dashboard(given: DashboardSettings) -> list[str]:
    """Open and close it; return the log."""
    lines: list[str] = []

    async def main() -> None:
        async with dashboard_of_process(given, LineLog(lines.append, clock=SystemClock())):
            pass

    asyncio.run(main())
    return lines


def test_without_a_port_there_is_no_dashboard_and_no_token_is_needed() -> None:
    assert open_dashboard(settings(0, None)) == []


def test_a_port_without_a_token_is_an_error() -> None:
    with pytest.raises(InvalidInputError) as error:
        open_dashboard(settings(8082, None))

    assert "--dashboard-token-file" in str(error.value.errors[0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"short", "has 5 characters; use at least 16"),
        (b"\xff" * 20, "not text"),
    ],
)
def test_an_unusable_token_file_is_an_error_at_start(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(InvalidInputError) as error:
        open_dashboard(settings(8082, file))

    assert message in str(error.value.errors[0])


def test_a_token_file_that_disappears_lets_no_request_pass(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    token = TokenFile(str(file))

    assert token.read() == TOKEN
    file.unlink()
    assert token.read() == ""


def test_it_serves_the_controllers_cluster_to_bearers_of_the_token(tmp_path: Path) -> None:
    scenario = read_scenario("sandbox", bundled_sandbox_scenario())
    cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())
    (tmp_path / "token").write_text(TOKEN)
    lines: list[str] = []

    async def main() -> dict[str, object]:
        log = LineLog(lines.append, clock=SystemClock(), form="text")
        given = settings(_free_port(), tmp_path / "token")
        async with dashboard_of_process(given, log) as on_synced, aiohttp.ClientSession() as session:
            on_synced(cluster.operator.context)
            while not lines:
                await asyncio.sleep(0.02)
            url = f"http://127.0.0.1:{given.port}/api/view"
            async with session.get(url) as refused:
                assert refused.status == 401
            async with session.get(url, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
                return (await response.json())["view"]

    view = asyncio.run(main())
    cluster.operator.kill()

    assert view["cluster"]["source"] == "controller"
    assert list(view["nodePools"]) == ["default"]
    assert "serving the dashboard" in lines[0]
    assert TOKEN not in lines[0]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
