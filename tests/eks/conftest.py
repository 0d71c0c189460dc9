"""Fixtures: a test account, and golden files."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.moto.cluster_account import TestAccount, an_account


@pytest.fixture
def golden() -> Callable[[Path, str], None]:
    """Return a check of a golden file; ``GOLDEN=write`` writes it instead."""

    def check(path: Path, text: str) -> None:
        if os.environ.get("GOLDEN") == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text

    return check


@pytest.fixture
def account() -> Iterator[TestAccount]:
    with an_account() as test_account:
        yield test_account
