"""What a check hands out."""

from collections.abc import Callable, Iterable

from dovetail.codec.paths import Path
from dovetail.infra.spec.cluster import ClusterSpec
from dovetail.model.machines import Catalog

Finding = tuple[Path, str]
"""The way to a field in the file, and what is wrong with it."""
Check = Callable[[ClusterSpec, Catalog], Iterable[Finding]]
