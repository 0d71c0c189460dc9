"""Mark all tests of this folder as live, and run those of the slowest files first."""

from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_SLOWEST = (
    "test_cluster.py",
    "test_image.py",
    "test_scheduler_binding.py",
    "test_refused_pods.py",
    "test_leader.py",
    "test_preview.py",
    "test_scenarios.py",
    "test_recovery.py",
    "test_scale_up.py",
    "test_chaos.py",
    "test_crds.py",
    "test_startup_errors.py",
)
"""More than a minute each, the slowest first. Otherwise one process could run such a file alone at last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.live)
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    """Return the place of a test's file; the order within it stays."""
    is_slow = item.path.parent == _HERE and item.path.name in _SLOWEST
    return _SLOWEST.index(item.path.name) if is_slow else len(_SLOWEST)
