"""The indexes of an Indexed Job, as its status writes them: ``0-3,5``."""

from collections.abc import Iterable, Iterator
from typing import Final

from dovetail.simulator.apiserver.storage.frozen_object import Object

INDEX: Final = "batch.kubernetes.io/job-completion-index"


def read_indexes(text: str) -> set[int]:
    """Read a list of indexes and of ranges."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def write_indexes(indexes: Iterable[int]) -> str:
    """Write indexes as short as possible."""
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _ranges(indexes)
    )


def _ranges(indexes: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for index in sorted(indexes):
        if first is None or last is None:
            first = last = index
        elif index == last + 1:
            last = index
        else:
            yield first, last
            first = last = index
    if first is not None and last is not None:
        yield first, last


def index_of(pod: Object) -> int | None:
    """Return the index that a pod of an Indexed Job works on."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None
