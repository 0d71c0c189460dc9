"""A child process that ends with the test run."""

import os
import signal
import subprocess
from pathlib import Path

_STOP_TIMEOUT = 20.0
"""Seconds from SIGTERM to SIGKILL."""
_TAIL = 4_000
"""Characters of the log in error messages."""


class Process:
    """A child process that can be restarted after it was stopped or killed."""

    def __init__(self, name: str, command: list[str | Path], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._running is None, f"{self.name} is already running"
        with self.log.open("ab") as log:
            # A new session: Ctrl-C must not reach it, the tests stop processes in order. Nothing is
            # written to the pipe: it closes when the test run ends, and the process ends on EOF.
            self._running = subprocess.Popen(
                [str(argument) for argument in self._command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self._running is not None, f"{self.name} is not running"
        return self._running.pid

    @property
    def has_exited(self) -> bool:
        """True if it ended by itself."""
        return self._running is not None and self._running.poll() is not None

    def check(self) -> None:
        """Raise RuntimeError with the end of the log if the process has exited."""
        if self._running is not None and self.has_exited:
            code = self._running.returncode
            raise RuntimeError(f"{self.name} exited with {code}\n{self.tail()}")

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after a timeout."""
        self._end(signal.SIGTERM)

    def wait(self, *, seconds: float) -> int:
        """Wait until it exits and return its exit code."""
        assert self._running is not None, f"{self.name} is not running"
        code = self._running.wait(seconds)
        self._end(signal.SIGTERM)
        return code

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def tail(self) -> str:
        """Return the end of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"--- end of {self.log}\n{text[-_TAIL:]}"

    def _end(self, number: signal.Signals) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        assert running.stdin is not None
        if running.poll() is None:
            os.killpg(running.pid, number)
        try:
            running.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        finally:
            running.stdin.close()
