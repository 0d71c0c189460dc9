"""Points of a sweep on a Ray cluster; the same replay of each point."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from dovetail.errors import DovetailError
from dovetail.host.gc import reduce_collections
from dovetail.replay.sweep.worker import Outcome, Point, SweepInput, Worker
from dovetail.trace.reader import load_trace

_MAX_RETRIES: Final = 3
"""Of a point whose worker or node is lost."""


def run_on_ray(
    shared: SweepInput, points: Sequence[Point], *, address: str
) -> Iterator[tuple[int, Outcome | str]]:
    """Yield the number of each point and its outcome, as they finish.

    The trace is sent to the cluster once. Ray repeats points whose worker was lost. Closing the
    iterator cancels what still runs.
    """
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise DovetailError(f"the Ray cluster at {address!r} cannot be reached: {error}") from error
    try:
        trace = ray.put(load_trace(Path(shared.trace)))
        context = ray.put(shared)
        replay = ray.remote(max_retries=_MAX_RETRIES, num_cpus=1)(_replay)
        running = {replay.remote(context, trace, point): number for number, point in enumerate(points)}
        while running:
            ready, _ = ray.wait(list(running), num_returns=1)
            for reference in ready:
                number = running.pop(reference)
                try:
                    yield number, ray.get(reference)
                except ray.exceptions.RayError as error:
                    raise DovetailError(
                        f"the Ray cluster lost a point {_MAX_RETRIES} times: {error}"
                    ) from error
    finally:
        ray.shutdown()


def _replay(shared: SweepInput, trace: Any, point: Point) -> Outcome | str:
    reduce_collections()
    return Worker(shared, trace).run(point)
