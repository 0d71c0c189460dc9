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
"""Seconds to import the plug-in."""
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


class PolicyProcess:
    """Runs a plug-in; a process that does not answer is killed and started again."""

    def __init__(self, text: str, answer_timeout: float = ANSWER_TIMEOUT) -> None:
        self._text = text
        self._answer_timeout = answer_timeout
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process and wait until it has loaded the plug-in."""
        process = self._process = self._spawn()
        try:
            reply = _receive(process, monotonic() + START_TIMEOUT)
        except PolicyError as error:
            raise PolicyLoadError(f"policy {self._text!r}: {error}") from error
        if reply.error:
            raise PolicyLoadError(reply.error)
        return process

    def choose(self, offer: Offer) -> tuple[int, ...]:
        """Return the numbers of the chosen moves; raise ``PolicyError``."""
        try:
            process = self._process or self.start()
            deadline = monotonic() + self._answer_timeout
            _send(process, offer, deadline)
            reply = _receive(process, deadline)
        except (PolicyError, PolicyLoadError) as error:
            self.stop()
            raise PolicyError(str(error)) from error
        if reply.error:
            raise PolicyError(reply.error)
        return check_choice(reply.choice, offer)

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
        process = subprocess.Popen(  # noqa: S603 - our own interpreter; the name was found before
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        os.set_blocking(_get_stdin(process), False)
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
            raise PolicyError(_describe_end(process)) from error


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
    stdout, data = _get_stdout(process), b""
    while len(data) < length:
        if not select.select([stdout], [], [], max(0.0, deadline - monotonic()))[0]:
            raise PolicyError("it did not answer in time")
        part = os.read(stdout, length - len(data))
        if not part:
            raise PolicyError(_describe_end(process))
        data += part
    return data


def _describe_end(process: subprocess.Popen[bytes]) -> str:
    with suppress(subprocess.TimeoutExpired):
        return f"its process ended with exit code {process.wait(_END_TIMEOUT)}"
    return "its process closed its output"
