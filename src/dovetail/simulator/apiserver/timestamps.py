"""Moments as Kubernetes writes them."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def timestamp(moment: datetime) -> str:
    """Write a moment in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
