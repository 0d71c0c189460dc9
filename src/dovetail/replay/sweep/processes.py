"""Points of a sweep on local cores, each worker a process of its own."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.host.gc import reduce_collections
from dovetail.replay.sweep.worker import Outcome, Point, SweepInput, Worker

_MAX_ATTEMPTS: Final = 3
"""A point whose worker dies as often is given up."""
_JOIN_TIMEOUT: Final = 5.0
"""Seconds that a worker has to end."""


class _Slot(msgspec.Struct):
    """A worker process and the point that it replays."""

    process: SpawnProcess
    connection: Connection
    number: int | None = None


def run_in_processes(
    shared: SweepInput, points: Sequence[Point], *, workers: int
) -> Iterator[tuple[int, Outcome | str]]:
    """Yield the number of each point and its outcome, as they finish.

    A worker that dies (killed for its memory, for example) is replaced and its point replayed
    again, up to 3 times. Closing the iterator ends all workers.
    """
    waiting = deque(range(len(points)))
    attempts = [0] * len(points)
    slots: list[_Slot] = []
    try:
        for _ in range(min(workers, len(points))):
            slots.append(_start(shared))
        while waiting or any(slot.number is not None for slot in slots):
            for slot in slots:
                if slot.number is None and waiting:
                    slot.number = waiting.popleft()
                    attempts[slot.number] += 1
                    _send(slot, points[slot.number])
            ready = wait([slot.connection for slot in slots if slot.number is not None])
            for position, slot in enumerate(slots):
                if slot.connection not in ready or slot.number is None:
                    continue
                number, slot.number = slot.number, None
                try:
                    yield number, slot.connection.recv()
                except (EOFError, ConnectionError):
                    slots[position] = _replace(slot, shared)
                    if attempts[number] >= _MAX_ATTEMPTS:
                        raise _give_up(points[number]) from None
                    waiting.appendleft(number)
    finally:
        for slot in slots:
            _stop(slot)


def _start(shared: SweepInput) -> _Slot:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, shared), daemon=True)
    process.start()
    # With our copy open, the end of the process would not close the pipe.
    theirs.close()
    return _Slot(process, ours)


def _send(slot: _Slot, point: Point) -> None:
    try:
        slot.connection.send(point)
    except ConnectionError:
        return  # It died while idle: the pipe is at its end, and the next read fails.


def _replace(slot: _Slot, shared: SweepInput) -> _Slot:
    _stop(slot)
    return _start(shared)


def _stop(slot: _Slot) -> None:
    slot.connection.close()
    slot.process.terminate()
    slot.process.join(_JOIN_TIMEOUT)
    if slot.process.is_alive():
        slot.process.kill()


def _give_up(point: Point) -> DovetailError:
    described = ", ".join(f"{key}={value}" for key, value in point.values) or "the current settings"
    return DovetailError(
        f"the worker died {_MAX_ATTEMPTS} times while it replayed {described}; "
        "if memory is short, use fewer --workers"
    )


def _work(connection: Connection, shared: SweepInput) -> None:
    """Replay points until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent ends its workers.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    reduce_collections()
    worker = Worker(shared)
    while True:
        try:
            point = connection.recv()
        except (EOFError, ConnectionError):
            return
        connection.send(worker.run(point))


def _end_with_parent() -> None:
    """End this process with its parent: a killed one cannot end its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
