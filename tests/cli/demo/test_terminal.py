"""``dovetail demo`` at a terminal: it takes the screen, and gives it back."""

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

TAKES, GIVES_BACK = b"\x1b[?1049h", b"\x1b[?1049l"
HIDES_CURSOR, SHOWS_CURSOR = b"\x1b[?25l", b"\x1b[?25h"


class Terminal:
    """A program at a terminal of its own, and all that it wrote there."""

    def __init__(self, *args: str, env: dict[str, str] | None = None) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dovetail", "demo", *args],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"TERM": "xterm", "PYTHONUTF8": "1", **(env or {})},
            # So that Ctrl-C here and there are two things.
            start_new_session=True,
            # Whoever runs the tests in the background has Ctrl-C ignored, and would pass that on.
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
        with suppress(OSError):  # How Linux reports that the other end is closed.
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


def test_the_picture_takes_the_screen_and_leaves_the_report(tmp_path: Path) -> None:
    with at_a_terminal(small(tmp_path), "--speed", "10") as terminal:
        terminal.read_to_the_end()

        picture, _, report = terminal.shown.partition(GIVES_BACK)
        assert terminal.process.returncode == 0
        assert picture.count(TAKES) == 1
        assert b"m5.large" in picture
        assert "■".encode() in picture
        assert SHOWS_CURSOR in terminal.shown.rpartition(HIDES_CURSOR)[2]
        assert b"PHASE" in report
        assert b"\x1b[?" not in report.replace(SHOWS_CURSOR, b"")


def test_a_terminal_may_change_its_size_on_the_way(tmp_path: Path) -> None:
    with at_a_terminal(small(tmp_path), "--speed", "2") as terminal:
        terminal.read_until(b"m5.large")
        terminal.resize(10, 40)
        terminal.read_to_the_end()

        last = terminal.shown.partition(GIVES_BACK)[0].rpartition(b"\x1b[H")[2]
        lines = re.sub(r"\x1b\[[0-9;?]*[a-z]", "", last.decode()).split("\r\n")
        assert terminal.process.returncode == 0
        assert len(lines) == 10
        assert max(len(line) for line in lines) == 40
        assert any("m5.large" in line for line in lines)


def test_ctrl_c_gives_the_terminal_back_and_ends_with_130() -> None:
    with at_a_terminal("scale-100", "--speed", "1") as terminal:
        terminal.read_until(b"scale-100")
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_to_the_end()

        assert terminal.process.returncode == 130
        assert GIVES_BACK in terminal.shown
        assert SHOWS_CURSOR in terminal.shown.rpartition(HIDES_CURSOR)[2]
        assert b"Traceback" not in terminal.shown
        assert b"PHASE" not in terminal.shown


def test_being_terminated_gives_the_terminal_back() -> None:
    with at_a_terminal("scale-100", "--speed", "1") as terminal:
        terminal.read_until(b"scale-100")
        terminal.process.send_signal(signal.SIGTERM)
        terminal.read_to_the_end()

        assert terminal.process.returncode == 143
        assert GIVES_BACK in terminal.shown
        assert SHOWS_CURSOR in terminal.shown.rpartition(HIDES_CURSOR)[2]


def test_a_terminal_that_cannot_draw_gets_lines(tmp_path: Path) -> None:
    with at_a_terminal(small(tmp_path), env={"TERM": "dumb"}) as terminal:
        terminal.read_to_the_end()

        assert b"\x1b" not in terminal.shown
        assert b"one: done" in terminal.shown


def test_json_draws_nothing_even_at_a_terminal(tmp_path: Path) -> None:
    with at_a_terminal(small(tmp_path), "-o", "json") as terminal:
        terminal.read_to_the_end()

        assert terminal.shown.startswith(b"{")
        assert b"\x1b" not in terminal.shown
