"""``dovetail demo`` at a terminal: it uses the alternate screen and restores it."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.cli.demos import SMALL

ENTERS_SCREEN, LEAVES_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"
HIDES_CURSOR, SHOWS_CURSOR = b"\x1b[?25l", b"\x1b[?25h"


class Terminal:
    """A process at its own terminal, and all its output."""

    def __init__(self, *args: str, env: dict[str, str] | None = None) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dovetail", "demo", *args],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"TERM": "xterm", "PYTHONUTF8": "1", **(env or {})},
            # Ctrl-C of the test run must not reach this process.
            start_new_session=True,
            # A test run in the background ignores SIGINT, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(theirs)
        self.shown = b""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, wanted: bytes) -> None:
        while wanted not in self.shown:
            block = os.read(self._ours, 65536)
            assert block, self.shown
            self.shown += block

    def read_to_the_end(self) -> None:
        with suppress(OSError):  # Linux reports a closed terminal as an error.
            while block := os.read(self._ours, 65536):
                self.shown += block
        self.process.wait()

    def close(self) -> None:
        os.close(self._ours)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def at_a_terminal(*args: str, env: dict[str, str] | None = None) -> Iterator[Terminal]:
    terminal = Terminal(*args, env=env)
    try:
        yield terminal
    finally:
        terminal.close()


def small(tmp_path: Path) -> str:
    (tmp_path / "small.yaml").write_text(SMALL)
    return str(tmp_path / "small.yaml")


def test_live_view_uses_the_alternate_screen_and_leaves_the_report(tmp_path: Path) -> None:
    with at_a_terminal(small(tmp_path), "--speed", "10") as terminal:
        terminal.read_to_the_end()

        live_view, _, report = terminal.shown.partition(LEAVES_SCREEN)
        assert terminal.process.returncode == 0
        assert live_view.count(ENTERS_SCREEN) == 1
        assert b"m5.large" in live_view
        assert "■".encode() in live_view
        assert SHOWS_CURSOR in terminal.shown.rpartition(HIDES_CURSOR)[2]
        assert b"PHASE" in report
        assert b"\x1b[?" not in report.replace(SHOWS_CURSOR, b"")


def test_terminal_may_be_resized(tmp_path: Path) -> None:
    with at_a_terminal(small(tmp_path), "--speed", "2") as terminal:
        terminal.read_until(b"m5.large")
        terminal.resize(10, 40)
        terminal.read_to_the_end()

        last = terminal.shown.partition(LEAVES_SCREEN)[0].rpartition(b"\x1b[H")[2]
        lines = re.sub(r"\x1b\[[0-9;?]*[a-z]", "", last.decode()).split("\r\n")
        assert terminal.process.returncode == 0
        assert len(lines) == 10
        assert max(len(line) for line in lines) == 40
        assert any("m5.large" in line for line in lines)


def test_ctrl_c_restores_the_terminal_and_exits_with_130() -> None:
    with at_a_terminal("scale-100", "--speed", "1") as terminal:
        terminal.read_until(b"scale-100")
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_to_the_end()

        assert terminal.process.returncode == 130
        assert LEAVES_SCREEN in terminal.shown
        assert SHOWS_CURSOR in terminal.shown.rpartition(HIDES_CURSOR)[2]
        assert b"Traceback" not in terminal.shown
        assert b"PHASE" not in terminal.shown


def test_sigterm_restores_the_terminal() -> None:
    with at_a_terminal("scale-100", "--speed", "1") as terminal:
        terminal.read_until(b"scale-100")
        terminal.process.send_signal(signal.SIGTERM)
        terminal.read_to_the_end()

        assert terminal.process.returncode == 143
        assert LEAVES_SCREEN in terminal.shown
        assert SHOWS_CURSOR in terminal.shown.rpartition(HIDES_CURSOR)[2]


def test_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    with at_a_terminal(small(tmp_path), env={"TERM": "dumb"}) as terminal:
        terminal.read_to_the_end()

        assert b"\x1b" not in terminal.shown
        assert b"one: done" in terminal.shown


def test_json_output_has_no_live_view(tmp_path: Path) -> None:
    with at_a_terminal(small(tmp_path), "-o", "json") as terminal:
        terminal.read_to_the_end()

        assert terminal.shown.startswith(b"{")
        assert b"\x1b" not in terminal.shown
