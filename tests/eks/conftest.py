"""Fixtures for what is rendered: files that are looked at when they change."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def golden() -> Callable[[Path, str], None]:
    """Return a check that a file holds a text; ``GOLDEN=write`` writes it instead."""

    def check(path: Path, text: str) -> None:
        if os.environ.get("GOLDEN") == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text

    return check
