"""Timestamps in Kubernetes' wire format (metav1.Time)."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def format_timestamp(time: datetime) -> str:
    """Return a time in UTC as RFC 3339, with a resolution of one second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
