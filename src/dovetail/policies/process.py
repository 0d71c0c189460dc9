"""Process of a plug-in, seen from the controller: asked with a deadline, killed after it."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import EntryPoint
from time import monotonic
from typing import Final

import msgspec

from dovetail.core.disruption.policy import Offer, Policy, PolicyError, check_choice
from dovetail.policies.load import PolicyLoadError, find_policy
from dovetail.policies.worker import LENGTH_BYTES, Reply, encode_frame

ANSWER_TIMEOUT: Final = 2.0
"""Seconds for one offer. The solver's thread waits for the answer, and pending pods for it."""
START_TIMEOUT: Final = 30.0
"""Seconds to import the plug-in. No offer waits as long: after a restart, the next ones fail."""
_MAX_REPLY: Final = 1 << 20
"""Bytes; more cannot be the numbers of offered moves."""
_END_TIMEOUT: Final = 1.0
"""Seconds for a process that closed its output to end."""


@contextmanager
def open_policy(text: str, *, answer_timeout: float = ANSWER_TIMEOUT) -> Iterator[Policy]:
    """Yield the policy ``NAME:OPTION=VALUE``; a plug-in runs in its own process.

    Raises ``PolicyLoadError`` if it is not installed, or cannot be imported or created.
    """
    policy = find_policy(text)
    if not isinstance(policy, EntryPoint):
        yield policy
        return
    process = PolicyProcess(text, answer_timeout)
    try:
        process.start()
        yield Policy(text, choose=process.choose)
    finally:
        process.stop()


class _StillLoadingError(PolicyError):
    """The process was started again and has not loaded the plug-in yet."""


class PolicyProcess:
    """Runs a plug-in; after any failure, its process is killed and started again."""

    def __init__(self, text: str, answer_timeout: float = ANSWER_TIMEOUT) -> None:
        self._text = text
        self._answer_timeout = answer_timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._is_loaded = False
        self._load_deadline = 0.0

    def start(self) -> None:
        """Start the process and wait until it has loaded the plug-in."""
        try:
            process = self._spawn()
            self._wait_for_load(process, self._load_deadline)
        except PolicyError as error:
            raise PolicyLoadError(f"policy {self._text!r}: {error}") from error

    def choose(self, offer: Offer) -> tuple[int, ...]:
        """Return the numbers of the chosen moves; raise ``PolicyError``."""
        deadline = monotonic() + self._answer_timeout
        try:
            process = self._process or self._spawn()
            self._wait_for_load(process, deadline)
            _send(process, offer, deadline)
            reply = _receive(process, deadline)
            if reply.error:
                raise PolicyError(reply.error)
            return check_choice(reply.choice, offer)
        except _StillLoadingError:
            raise
        except (PolicyError, PolicyLoadError) as error:
            self._restart()
            raise PolicyError(str(error)) from error

    def _wait_for_load(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        """Return once the plug-in is loaded; raise if it cannot be, or not in time."""
        if self._is_loaded:
            return
        if not _is_readable(process, deadline):
            if monotonic() < self._load_deadline:
                raise _StillLoadingError("its process was started again and is still loading it")
            raise PolicyError(f"it was not loaded within {START_TIMEOUT:g} s")
        reply = _receive(process, deadline)
        if reply.error:
            raise PolicyLoadError(reply.error)
        self._is_loaded = True

    def _restart(self) -> None:
        """Start the process again, without waiting for it: it loads until the next offer."""
        self.stop()
        with suppress(PolicyError):  # The next offer tries again.
            self._spawn()

    def stop(self) -> None:
        """Kill the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()

    def _spawn(self) -> subprocess.Popen[bytes]:
        # -P and the path: the worker finds the same plug-in as this process.
        command = [sys.executable, "-P", "-m", "dovetail.policies.worker", self._text]
        try:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter; the name was found before
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError as error:
            raise PolicyError(f"its process cannot be started: {error.strerror}") from error
        os.set_blocking(_get_stdin(process), False)
        self._process, self._is_loaded = process, False
        self._load_deadline = monotonic() + START_TIMEOUT
        return process


def _get_stdin(process: subprocess.Popen[bytes]) -> int:
    if process.stdin is None:
        raise ValueError("the process was started without a pipe")
    return process.stdin.fileno()


def _get_stdout(process: subprocess.Popen[bytes]) -> int:
    if process.stdout is None:
        raise ValueError("the process was started without a pipe")
    return process.stdout.fileno()


def _send(process: subprocess.Popen[bytes], offer: Offer, deadline: float) -> None:
    """Write an offer; raise ``PolicyError`` if the process does not read it in time."""
    stdin, rest = _get_stdin(process), memoryview(encode_frame(offer))
    while rest:
        if not select.select([], [stdin], [], max(0.0, deadline - monotonic()))[1]:
            raise PolicyError("it did not answer in time")
        try:
            rest = rest[os.write(stdin, rest) :]
        except BrokenPipeError as error:
            raise PolicyError(_describe_end(process, deadline)) from error


def _receive(process: subprocess.Popen[bytes], deadline: float) -> Reply:
    """Return the next reply; raise ``PolicyError`` if there is none in time."""
    length = int.from_bytes(_read(process, LENGTH_BYTES, deadline), "big")
    if length > _MAX_REPLY:
        raise PolicyError("its process wrote something else than a reply")
    try:
        return msgspec.msgpack.decode(_read(process, length, deadline), type=Reply)
    except msgspec.DecodeError as error:
        raise PolicyError("its process wrote something else than a reply") from error


def _read(process: subprocess.Popen[bytes], length: int, deadline: float) -> bytes:
    data = b""
    while len(data) < length:
        if not _is_readable(process, deadline):
            raise PolicyError("it did not answer in time")
        part = os.read(_get_stdout(process), length - len(data))
        if not part:
            raise PolicyError(_describe_end(process, deadline))
        data += part
    return data


def _is_readable(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Wait until there is output, or the process closed it; return False at the deadline."""
    return bool(select.select([_get_stdout(process)], [], [], max(0.0, deadline - monotonic()))[0])


def _describe_end(process: subprocess.Popen[bytes], deadline: float) -> str:
    with suppress(subprocess.TimeoutExpired):
        code = process.wait(min(_END_TIMEOUT, max(0.0, deadline - monotonic())))
        return f"its process ended with exit code {code}"
    return "its process closed its output"
