"""Work in threads, so that the loop goes on meanwhile."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class ThreadOffload:
    """``ports.executor.Offload`` on threads of its own.

    asyncio's default pool is sized for computing (six threads on two cores);
    threads that wait for a network may be many more.
    """

    def __init__(self, threads: int, *, name: str = "offload") -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Take no more work; what has begun goes on to its end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Unawaited(ThreadPoolExecutor):
    """Threads that an asyncio loop does not wait for at its end.

    Names are looked up in the loop's own threads, where a server for names that does not
    answer holds one up for half a minute.
    """

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)
