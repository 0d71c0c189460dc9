"""Points of a sweep on a Ray cluster; the same replay of each point."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
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
        # In a dict, Ray passes references; arguments themselves would be copied for each point.
        shared_input = {"input": ray.put((shared, load_trace(Path(shared.trace))))}
        replay = ray.remote(max_retries=_MAX_RETRIES, num_cpus=1)(_replay)
        running = {replay.remote(shared_input, point): number for number, point in enumerate(points)}
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


def _replay(shared_input: Mapping[str, Any], point: Point) -> Outcome | str:
    return _open_worker(shared_input["input"]).run(point)


@lru_cache(maxsize=1)
def _open_worker(reference: Any) -> Worker:
    """Return the worker of this process; catalogue, trace and what is computed of them stay."""
    import ray

    reduce_collections()
    shared, trace = ray.get(reference)
    return Worker(shared, trace)
