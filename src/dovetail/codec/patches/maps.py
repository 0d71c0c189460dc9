"""Merge patches of maps."""

from collections.abc import Mapping


def diff_maps(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    """Return the merge patch from one map to another: None removes a key."""
    gone: dict[str, str | None] = {key: None for key in old if key not in new}
    return gone | {key: value for key, value in new.items() if old.get(key) != value}
