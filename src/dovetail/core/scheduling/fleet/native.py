"""The compiled kernel: None if it was not built, or not from this version.

A library in the tree may be older than ``_kernel.c``; it would lack functions. ``make kernel``
builds it again.
"""

from typing import Final, TypeVar

try:
    from dovetail.core.scheduling.fleet import _kernel as _built
except ImportError:  # Not built: there was no C compiler.
    _built = None  # type: ignore[assignment]

VERSION: Final = 2
"""That of ``_kernel.c``; changes with each function that is added or changed."""

Kernel = TypeVar("Kernel")


def select_kernel(built: Kernel) -> Kernel:
    """Return a library that is of this version, else None."""
    return built if getattr(built, "VERSION", None) == VERSION else None  # type: ignore[return-value]


kernel = select_kernel(_built)
