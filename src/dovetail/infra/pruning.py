"""A Kubernetes object as we know it: without what the cluster and others filled in.

A live object has defaults, statuses and fields of other writers all over it.
What we applied is kept beside it, as JSON in an annotation; seen through that,
only what we once wrote is left, at the values that it has now. So a field that
is no longer wanted shows, a field that somebody changed shows, and nothing else.
"""

from collections.abc import Mapping
from typing import Any, Final

APPLIED: Final = "dovetail.sh/applied"
"""The annotation that holds what was applied last, as JSON."""


def pruned(live: Any, applied: Any) -> Any:
    """Return the parts of ``live`` that ``applied`` has; what is gone is left out."""
    if isinstance(live, Mapping) and isinstance(applied, Mapping):
        return {key: pruned(live[key], applied[key]) for key in applied if key in live}
    lists = isinstance(live, list | tuple) and isinstance(applied, list | tuple)
    if lists and len(live) == len(applied):
        return [pruned(one, other) for one, other in zip(live, applied, strict=True)]
    return live
