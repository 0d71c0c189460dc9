"""Tuning of Python's cyclic garbage collector and of the C library's heap."""

import ctypes
import gc
import sys
from collections.abc import Callable
from typing import Final, Self

_YOUNG_THRESHOLD: Final = 50_000
"""Allocations between two collections of the youngest generation; Python's default is 700."""
_SHORT_YOUNG_THRESHOLD: Final = 5_000
_NEVER: Final = 1_000_000_000
_M_ARENA_MAX: Final = -8
"""Parameter of glibc's ``mallopt``, from ``malloc.h``."""
_FREED_SHARE: Final = 0.25
"""Share of all objects whose end is worth a full collection."""


def reduce_collections() -> None:
    """Collect garbage less often.

    A scan of a large cluster allocates some hundred thousand objects that live for
    half a second. With the default, they are promoted to the oldest generation.
    When a quarter of all objects is newly promoted, Python runs a full collection:
    a second or more with a cluster in memory, during which nothing else runs.
    """
    gc.set_threshold(_YOUNG_THRESHOLD, 10, 10)


class ShortPauses:
    """Keeps collections short, for a process that answers keys; a context manager.

    Young objects are collected often, 5,000 at a time, which takes milliseconds. All
    objects are collected only by ``collect``, while no key is pressed; those that
    existed at ``exempt_existing``, such as a whole cluster, never: most end by reference
    counting.
    """

    def __enter__(self) -> Self:
        self._thresholds = gc.get_threshold()
        gc.set_threshold(_SHORT_YOUNG_THRESHOLD, 10, _NEVER)
        return self

    def __exit__(self, *_: object) -> None:
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def exempt_existing(self) -> None:
        gc.freeze()

    def collect(self) -> None:
        gc.collect()


def use_one_heap() -> None:
    """Use one heap for all threads; call before the first thread starts.

    glibc gives each thread a heap of its own, so that threads need not wait for each
    other. Python's threads wait for each other anyway, and what a plan in a thread frees
    could not be used by the event loop. Other C libraries have no such function.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, 1)


def release_memory() -> None:
    """Return memory to the operating system after many objects were freed.

    A full collection also clears Python's free lists: without it, a few unused
    tuples keep most of the freed memory.
    """
    gc.collect()
    trim_heap()


def trim_heap() -> None:
    """Return free pages of the C library's heap to the operating system.

    glibc only returns what is free at the end of a heap. After a burst of large objects
    most of it is in between. Other C libraries have no such function, and need none.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class _HeapInfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks"),
            *("fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def get_heap_bytes() -> int:
    """Return the bytes in use of the C library's heap; 0 without glibc."""
    library = ctypes.CDLL(None)
    get_info = getattr(library, "mallinfo2", None)
    if get_info is None:
        return 0
    get_info.restype = _HeapInfo
    info = get_info()
    return int(info.uordblks + info.hblkhd)


def count_allocated() -> int:
    """Return the blocks that Python has allocated, or bytes of the C library.

    ``PYTHONMALLOC=malloc`` selects the latter.
    """
    return sys.getallocatedblocks() or get_heap_bytes()


class FreedMemory:
    """Returns freed memory to the operating system, whenever ``release`` is called.

    A full collection stops everything else: it runs only after many objects were freed.
    """

    def __init__(self, count: Callable[[], int] = count_allocated) -> None:
        self._count = count
        self._most = 0
        """Most that was allocated since the last full collection."""

    def release(self) -> None:
        allocated = self._count()
        self._most = max(self._most, allocated)
        if allocated > self._most * (1 - _FREED_SHARE):
            trim_heap()
        else:
            release_memory()
            self._most = allocated
