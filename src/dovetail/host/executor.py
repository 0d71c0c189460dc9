"""Thread executors."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class ThreadExecutor:
    """``ports.executor.Executor`` with its own threads.

    asyncio's default pool is sized for computation (six threads on two cores);
    network I/O needs more threads.
    """

    def __init__(self, threads: int, *, name: str = "executor") -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        """Accept no more work; running work finishes."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class DetachedThreadPool(ThreadPoolExecutor):
    """Default executor of an asyncio loop that shutdown does not wait for.

    asyncio resolves host names in it; a DNS server that does not answer blocks a
    thread for half a minute.
    """

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)
