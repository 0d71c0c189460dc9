"""``dovetail simulate`` on a terminal, in a pipe, and in a closed pipe."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.runs import WEB, simulate


def test_a_closed_pipe_prints_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(WEB)
    command = [sys.executable, "-m", "dovetail", "simulate", "-f", str(tmp_path), "-o", "json"]

    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    complaints = running.stderr.read().decode()
    running.stderr.close()

    assert running.wait() == 141
    assert "Traceback" not in complaints
    assert "Exception" not in complaints


def test_piped_tables_have_no_colour_codes_and_no_trailing_blanks(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(WEB)

    done = subprocess.run(
        [sys.executable, "-m", "dovetail", "simulate", "-f", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "\x1b" not in done.stdout
    assert all(line == line.rstrip() for line in done.stdout.splitlines())


def test_on_a_terminal_the_plan_has_the_same_text_with_styles(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(WEB)
    command = [sys.executable, "-m", "dovetail", "simulate", "-f", str(tmp_path)]
    ours, theirs = pty.openpty()
    wide = {"TERM": "xterm", "COLUMNS": "300"}

    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, check=True, env=wide)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # How Linux reports that the other end is closed.
        while block := os.read(ours, 65536):
            shown += block
    os.close(ours)

    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n")
    assert b"\x1b[1m" in shown
    assert plain == simulate(tmp_path).stdout
    assert done.stderr == b""


def run_in_shell(tmp_path: Path, redirection: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "web.yaml").write_text(WEB)
    command = f"{sys.executable} -m dovetail simulate -f {tmp_path} {redirection}"
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    done = run_in_shell(tmp_path, "> /dev/full")

    assert done.returncode == 1
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"


def test_closed_streams_are_no_internal_error(tmp_path: Path) -> None:
    no_output, no_errors, no_input = (
        run_in_shell(tmp_path, redirection) for redirection in (">&-", "2>&-", "-f - <&-")
    )

    assert no_output.returncode == 1
    assert no_output.stderr == "error: standard output is closed\n"
    assert no_errors.returncode == 0
    assert "web × 3" in no_errors.stdout
    assert no_input.returncode == 1
    assert no_input.stderr == "error: <stdin> is closed\n"
