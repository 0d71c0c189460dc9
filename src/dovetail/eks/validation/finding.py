"""What a check hands out."""

from collections.abc import Callable, Iterable

from dovetail.codec.text.field_path import Path
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.model.cloud.ec2_catalog import Catalog

Finding = tuple[Path, str]
"""The way to a field in the file, and what is wrong with it."""
Check = Callable[[ClusterSpec, Catalog], Iterable[Finding]]
