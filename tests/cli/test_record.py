"""``dovetail record`` of a sandbox, with the real kubectl and the real signals."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.errors import InvalidInputError
from dovetail.trace.model import Event, Finish, Gap, Initial, Scale, Set, Tasks
from dovetail.trace.reader import TraceReader, load_trace
from tests.cli.test_sandbox import Running

WAIT = 60.0
"""Real seconds for something to appear on a busy host."""


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "dovetail", "record", "--kubeconfig", "dovetail-sandbox.kubeconfig"]
        process = subprocess.Popen([*command, *options], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def events_in(path: Path) -> list[Event]:
    """Return what can be read of a trace that is still being written."""
    try:
        return list(TraceReader(path)) if path.exists() else []
    except InvalidInputError:
        return []  # The header is not written yet.


def wait_for(path: Path, wanted: Callable[[Event], bool]) -> None:
    end = time.monotonic() + WAIT
    while not any(wanted(event) for event in events_in(path)):
        assert time.monotonic() < end, [event for event in events_in(path) if not isinstance(event, Initial)]
        time.sleep(0.2)  # noqa: TID251


def is_scale(replicas: int) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, Scale) and event.replicas == replicas


@pytest.mark.slow
def test_a_recorder_that_is_killed_and_started_again_has_recorded_every_scale(
    tmp_path: Path, recorder: Callable[..., subprocess.Popen[str]]
) -> None:
    sandbox = Running(tmp_path, "--speed", "20")
    path = tmp_path / "trace.jsonl.zst"
    try:
        sandbox.wait_until_ready()
        first = recorder()
        wait_for(path, lambda event: isinstance(event, Initial))
        sandbox.kubectl("create", "deployment", "web", "--image=registry.example/app:1.2", "--replicas=3")
        sandbox.kubectl("scale", "deployment", "web", "--replicas=7")
        sandbox.kubectl("create", "job", "report", "--image=registry.example/app:1.2")
        wait_for(path, is_scale(7))
        wait_for(path, lambda event: isinstance(event, Finish))

        first.send_signal(signal.SIGKILL)
        first.wait()
        sandbox.kubectl("scale", "deployment", "web", "--replicas=2")
        second = recorder()
        wait_for(path, is_scale(2))
        sandbox.kubectl("delete", "deployment", "web")
        wait_for(path, lambda event: type(event).__name__ == "Delete")
        second.send_signal(signal.SIGINT)
        _, notes = second.communicate(timeout=WAIT)
        assert second.returncode == 0, notes
    finally:
        sandbox.process.send_signal(signal.SIGINT)
        sandbox.process.communicate()

    trace = load_trace(path)
    assert trace.notes == ()
    assert trace.header.region == "us-east-1"
    changes = [event for event in trace.events if not isinstance(event, Initial)]
    web: list[Any] = [event for event in changes if isinstance(event, Set | Scale)]
    assert [getattr(event, "replicas", None) or event.object["spec"]["replicas"] for event in web] == [
        3,
        7,
        2,
    ]
    assert [type(event).__name__ for event in changes].count("Gap") == 1
    assert changes.index(next(event for event in changes if isinstance(event, Gap))) > changes.index(web[1])
    (task,) = [event for event in changes if isinstance(event, Tasks)]
    assert task.seconds is not None
    kinds = {event.object["kind"] for event in trace.events if isinstance(event, Initial)}
    assert {"Node", "NodePool", "EC2NodeClass", "Namespace"} <= kinds
    assert b"registry.example" not in b"".join(repr(event).encode() for event in trace.events)


def test_a_cluster_that_does_not_answer_is_an_error_and_leaves_no_trace(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: a, user: {token: t}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
    )

    result = CliRunner().invoke(cli, ["record", "--kubeconfig", str(config), "-o", str(tmp_path / "t.zst")])

    assert result.exit_code == 1
    assert result.output.startswith("error: ")
    assert not (tmp_path / "t.zst").exists()


@pytest.mark.parametrize("option", ["--for", "--rotate-every"])
def test_a_recorder_takes_days_and_names_the_longest_time(tmp_path: Path, option: str) -> None:
    missing = ["--kubeconfig", str(tmp_path / "missing")]

    days = CliRunner().invoke(cli, ["record", *missing, option, "7d"])
    centuries = CliRunner().invoke(cli, ["record", *missing, option, "99999d"])

    assert (days.exit_code, centuries.exit_code) == (1, 1)
    assert "not a duration" not in days.output
    assert "'99999d' is not a duration up to 3,650 days; examples: 90m, 48h, 7d." in centuries.output
