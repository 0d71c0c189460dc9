"""Work of a call, counted: unlike time, it is the same on every host."""

import sys
from collections.abc import Callable


def count_calls(function: Callable[[], object]) -> int:
    """Return the number of Python and C functions that a call enters."""
    count = 0

    def record(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    previous = sys.getprofile()
    sys.setprofile(record)
    try:
        function()
    finally:
        sys.setprofile(previous)
    return count
