"""One process of the control plane: started, stopped, killed, and never left behind."""

import os
import signal
import subprocess
from pathlib import Path

_PATIENCE = 20.0
"""Seconds that a process has to end after SIGTERM."""
_SHOWN = 4_000
"""Characters of a log that are shown when something went wrong."""


class Process:
    """A component that may be started again after it was stopped or killed."""

    def __init__(self, name: str, command: list[str | Path], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._running is None, f"{self.name} runs already"
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C is ours to handle, in the right order. The
            # pipe is never written to; when we are gone it closes, and they end, too.
            self._running = subprocess.Popen(
                [str(one) for one in self._command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self._running is not None, f"{self.name} does not run"
        return self._running.pid

    def check(self) -> None:
        """Raise when the process has ended by itself, with the end of its log."""
        if self._running is not None and self._running.poll() is not None:
            code = self._running.returncode
            raise RuntimeError(f"{self.name} ended by itself with {code}\n{self.tail()}")

    def stop(self) -> None:
        """Ask it to end; kill it when it takes too long."""
        self._end(signal.SIGTERM)

    def wait(self, *, seconds: float) -> int:
        """Wait for it to end by itself; returns its exit code."""
        assert self._running is not None, f"{self.name} does not run"
        code = self._running.wait(seconds)
        self._end(signal.SIGTERM)
        return code

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def tail(self) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"--- end of {self.log}\n{text[-_SHOWN:]}"

    def _end(self, how: signal.Signals) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        assert running.stdin is not None
        if running.poll() is None:
            os.killpg(running.pid, how)
        try:
            running.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        finally:
            running.stdin.close()
