"""``dovetail top`` as a whole: in a pipe, and in a terminal."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from tests.cli.explain.test_command import a_budget, dump, half_empty_cluster
from tests.cli.test_sandbox import Running
from tests.support.simulator.clusters import an_app

SECONDS = 90.0
"""That a start may take on a busy host."""
ALTERNATE, USUAL = b"\x1b[?1049h", b"\x1b[?1049l"
"""Sequences that switch to the alternate screen of a terminal and back."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["top", *arguments], prog_name="dovetail")


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the dump of four nodes that a PDB keeps, with a pod that fits nowhere."""
    huge = an_app("huge", replicas=1)
    (container,) = huge["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "64"}}
    return dump(half_empty_cluster(a_budget("web"), huge), tmp_path_factory.mktemp("top"))


class Terminal:
    """A command in a pseudo-terminal."""

    def __init__(self, *arguments: str, columns: int = 80, lines: int = 24, **variables: str) -> None:
        self._main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._modes = termios.tcgetattr(other)
        self._other = other
        self.output = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dovetail", "top", *arguments],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **variables},
            start_new_session=True,
        )

    def until(self, shows: str) -> str:
        """Read until the text was written; return everything since the last call."""
        return self._read(lambda output: shows in _plain(output), shows)

    def _read(self, holds: Callable[[bytes], bool], what: str) -> str:
        start, end = len(self.output), time.monotonic() + SECONDS
        while not holds(self.output[start:]):
            assert time.monotonic() < end, f"{what!r} is not in {_plain(self.output[start:])}"
            ready, _, _ = select.select([self._main], [], [], 0.2)
            if ready:
                self.output += os.read(self._main, 65536)
            elif self.process.poll() is not None:
                break
        assert holds(self.output[start:]), _plain(self.output[start:])
        return _plain(self.output[start:])

    def press(self, keys: str) -> None:
        os.write(self._main, keys.encode())

    def leave(self) -> int:
        """Wait for the end; return the exit code. The terminal must be as it was before."""
        self._read(lambda _: self.process.poll() is not None, "the end")
        while select.select([self._main], [], [], 0.2)[0]:
            self.output += os.read(self._main, 65536)
        assert self.output.rfind(USUAL) > self.output.rfind(ALTERNATE)
        assert self.output.rfind(b"\x1b[?25h") > self.output.rfind(b"\x1b[?25l"), "the cursor is hidden"
        assert termios.tcgetattr(self._other)[:4] == self._modes[:4], "the terminal is not restored"
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._main)
        os.close(self._other)


def _plain(output: bytes) -> str:
    """Return text without control sequences."""
    return re.sub(r"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b[()=>].?", "", output.decode(errors="replace"))


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def start(*arguments: str, **options: object) -> Terminal:
        started.append(Terminal(*arguments, **options))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_a_pipe_gets_a_table_with_totals_reasons_and_pending_pods(dumped: str) -> None:
    result = run("--cluster", dumped)

    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    rows = [line for line in result.stdout.splitlines() if line.startswith("ip-")]
    assert len(rows) == 4
    assert all("m5.large" in row and "0.0365" in row and "PDB" in row.upper() for row in rows)
    assert "4 nodes, 4 pods, 1 pending" in result.stdout
    assert "$0.1459/h = $107/month" in result.stdout
    pending = result.stdout.partition("Pending pods")[2]
    assert "default/huge-" in pending
    assert "Prices: AWS list prices" in result.stdout


def test_json_is_the_document_of_the_view(dumped: str) -> None:
    document = json.loads(run("--cluster", dumped, "-o", "json").stdout)

    assert document["version"] == 2
    assert len(document["nodes"]) == 4
    assert all(node["keep"]["code"] == "spared" for node in document["nodes"].values())
    assert document["totals"]["pendingPods"] == 1


def test_filter_and_sort_apply_to_the_table(dumped: str) -> None:
    none = run("--cluster", dumped, "--filter", "zone=eu-west-1a")
    by_name = run("--cluster", dumped, "--sort", "name", "--filter", "spot")

    assert "No node matches the filter." in none.stdout
    names = [line.split()[0] for line in by_name.stdout.splitlines() if line.startswith("ip-")]
    assert names == sorted(names)
    assert len(names) == 4


def test_a_wrong_filter_is_reported_before_the_cluster_is_read() -> None:
    result = run("--cluster", "/missing.json", "--filter", "zoen=a")

    assert result.exit_code == 1
    assert result.stderr == "error: 'zoen' is not a field; did you mean 'zone'?\n"


def test_a_missing_dump_and_a_missing_kubeconfig_are_errors_without_traceback() -> None:
    for arguments in (["--cluster", "/missing.json"], ["--kubeconfig", "/missing"]):
        result = run(*arguments)

        assert result.exit_code == 1
        assert result.stderr.startswith("error: /missing")
        assert len(result.stderr.splitlines()) == 1


def test_the_keys_work_in_a_terminal_and_q_restores_it(
    dumped: str, terminal: Callable[..., Terminal]
) -> None:
    top = terminal("--cluster", dumped)

    top.until("WHY IT STAYS")
    top.press("\r")
    top.until("what would change that")
    top.press("\x1b")
    top.until("sort: price")  # At once, escape and the next key would be Alt and that key.
    top.press("p")
    top.until("default/huge-")
    top.press("?")
    top.until("zone=us-east-1a,us-east-1b")
    top.press("q")

    assert top.leave() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_restores_the_terminal(
    dumped: str, terminal: Callable[..., Terminal], number: signal.Signals, code: int
) -> None:
    top = terminal("--cluster", dumped)
    top.until("WHY IT STAYS")

    top.process.send_signal(number)

    assert top.leave() == code


def test_ctrl_c_restores_the_terminal(dumped: str, terminal: Callable[..., Terminal]) -> None:
    top = terminal("--cluster", dumped)
    top.until("WHY IT STAYS")

    top.press("\x03")

    assert top.leave() == 130


@pytest.mark.slow
def test_no_color_writes_no_colour_to_the_terminal(dumped: str, terminal: Callable[..., Terminal]) -> None:
    top = terminal("--cluster", dumped, NO_COLOR="1")
    top.until("WHY IT STAYS")
    top.press("q")
    top.leave()

    codes = re.findall(rb"\x1b\[([0-9;]+)m", top.output)
    used = {number for code in codes for number in code.split(b";")}
    assert not used & {b"%d" % number for number in (*range(30, 39), *range(40, 49), *range(90, 108))}


@pytest.mark.slow
def test_once_in_a_terminal_prints_a_table_of_its_width(
    dumped: str, terminal: Callable[..., Terminal]
) -> None:
    top = terminal("--cluster", dumped, "--once", NO_COLOR="1")

    shown = top.until("Prices: ")

    assert ALTERNATE not in top.output
    rows = [line for line in shown.splitlines() if line.startswith(("ip-", "NODE"))]
    assert len(rows) == 5
    assert max(len(row.rstrip()) for row in rows) <= 80


@pytest.mark.slow
def test_an_unreachable_api_server_is_reported_on_a_restored_terminal(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],"
        " clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]}"
    )
    top = terminal("--kubeconfig", str(config))

    top.until("error: ")

    assert top.leave() == 1
    assert "Traceback" not in _plain(top.output)


@pytest.mark.slow
def test_a_sandbox_is_watched_while_a_node_comes(tmp_path: Path, terminal: Callable[..., Terminal]) -> None:
    sandbox = Running(tmp_path, "--speed", "20")
    try:
        sandbox.wait_until_ready()
        top = terminal("--kubeconfig", str(sandbox.config), columns=120)
        top.until("unmanaged")

        sandbox.kubectl("create", "deployment", "inflate", "--image=pause", "--replicas=0")
        sandbox.kubectl("set", "resources", "deployment", "inflate", "--requests=cpu=1")
        sandbox.kubectl("scale", "deployment", "inflate", "--replicas=9")

        top.until("3 nodes")
        top.press("d")
        top.until("launched")
        top.press("q")
        assert top.leave() == 0
    finally:
        sandbox.process.kill()
        sandbox.process.communicate()
