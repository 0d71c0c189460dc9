"""An account for each test."""

from collections.abc import Iterator

import pytest

from tests.support.moto.account import TestAccount, an_account


@pytest.fixture
def account() -> Iterator[TestAccount]:
    with an_account() as made:
        yield made
