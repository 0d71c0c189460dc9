"""The compiled kernel: None if it was not built, or not from this version.

A library in the tree may be older than ``_kernel.c``; it would lack functions. ``make kernel``
builds it again.
"""

from typing import Final

try:
    from dovetail.core.scheduling.fleet import _kernel as _built
except ImportError:  # Not built: there was no C compiler.
    _built = None  # type: ignore[assignment]

VERSION: Final = 2
"""That of ``_kernel.c``; changes with each function that is added or changed."""

kernel = _built
if getattr(_built, "VERSION", None) != VERSION:
    kernel = None  # type: ignore[assignment]
