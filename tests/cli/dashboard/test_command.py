"""``dovetail dashboard``, and the dashboard of ``sandbox`` and ``demo``, as processes."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from tests.cli.clusters import a_live_node
from tests.cli.demos import SMALL

Start = Callable[..., "Served"]


class Served:
    """A command that serves the dashboard."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "dovetail", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = next((text for text in self.process.stdout if "#token=" in text), "")
        link = re.search(r"(http://127\.0\.0\.1:\d+)/#token=([\w-]+)", line)
        assert link, self.process.communicate()
        self.url, self.token = link.groups()

    def view(self) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - http, as printed
            f"{self.url}/api/view", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
            return json.load(response)["view"]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)
        return self.process.returncode


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Served] = []

    def start(*arguments: str) -> Served:
        started.append(Served(tmp_path, *arguments))
        return started[-1]

    yield start
    for served in started:
        with suppress(ProcessLookupError):
            served.process.kill()
        served.process.communicate()


def write_dump(folder: Path) -> Path:
    file = folder / "dump.json"
    nodes = [a_live_node(number, managed=False) for number in range(3)]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    return file


@pytest.mark.slow
def test_dashboard_serves_a_dump_and_ends_with_ctrl_c(start: Start, tmp_path: Path) -> None:
    served = start("dashboard", "--cluster", str(write_dump(tmp_path)))

    view = served.view()

    assert len(view["nodes"]) == 3
    assert view["cluster"]["source"] == "dump"
    assert served.stop() == 0


@pytest.mark.slow
def test_sandbox_serves_its_cluster(start: Start) -> None:
    served = start("sandbox", "--dashboard", "--speed", "20")

    view = served.view()

    assert list(view["nodePools"]) == ["default"]
    assert view["cluster"]["source"] == "simulation"
    assert served.stop() == 0


@pytest.mark.slow
def test_demo_waits_for_the_page_and_can_be_stopped_before_its_end(start: Start, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    served = start("demo", "small.yaml", "--dashboard")

    first, second = served.view(), served.view()

    assert first["at"] == second["at"]  # No page follows the stream yet.
    assert served.stop() == 130


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_a_dump_and_a_kubeconfig_at_once_are_an_error(tmp_path: Path) -> None:
    result = run("dashboard", "--cluster", str(write_dump(tmp_path)), "--kubeconfig", "x")

    assert result.exit_code == 1
    assert "not both" in result.stderr


def test_a_file_that_is_no_dump_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_text("{}")

    result = run("dashboard", "--cluster", str(tmp_path / "dump.json"))

    assert result.exit_code == 1
    assert "dump.json" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_kubeconfig_is_an_error_that_names_it(tmp_path: Path) -> None:
    result = run("dashboard", "--kubeconfig", str(tmp_path / "missing"))

    assert result.exit_code == 1
    assert "missing" in result.stderr
