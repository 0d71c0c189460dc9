"""What the fields of cluster.yaml must be to each other and to the world."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from dovetail.codec.paths import Path
from dovetail.infra.spec.cluster import ClusterSpec
from dovetail.model.machines import Catalog

Finding = tuple[Path, str]
Check = Callable[[ClusterSpec, Catalog], Iterable[Finding]]

CHECKS: Final[tuple[tuple[Check, frozenset[str]], ...]] = ()
"""Each check, and the fields without which it cannot be made."""


def check(spec: ClusterSpec, catalog: Catalog, unsure: Collection[str] = ()) -> Iterator[Finding]:
    """Hand out everything that is wrong; ``unsure`` are fields that could not be read."""
    for one, needs in CHECKS:
        if not needs.intersection(unsure):
            yield from one(spec, catalog)
