"""Random files, applied one after the other, with kills: see ``random_files``.

After the second file: the plan is empty, the account is as if the second file was
the first, and destroy leaves the account as it was.
"""

from collections.abc import Iterator
from functools import cache
from random import Random  # noqa: TID251 - seeded
from typing import Any

import pytest

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.errors import DovetailError
from tests.support.eks.kept import is_kept
from tests.support.eks.random_files import EXEMPT, Pair, random_pair, values_of
from tests.support.eks.schema_fields import schema_fields
from tests.support.memory_aws.account import MemoryAccount
from tests.support.memory_aws.canonical import canonical, differences
from tests.support.memory_aws.landscape import create_landscape
from tests.support.memory_aws.refusals import KilledError
from tests.support.moto.cluster_account import TestAccount

PAIRS = 520
PARTS = 10
SAMPLE = (2, 15, 28, 34, 61, 62, 98, 110, 128, 163)
"""Pairs that moto runs as well."""
MAX_WRITES = 60
"""Kills come within so many writes; most plans have fewer."""


def test_every_field_of_the_schema_has_edits() -> None:
    missing = [field for field in schema_fields() if field not in EXEMPT and len(values_of(field)) < 2]

    assert missing == [], "add their values to tests/support/eks/random_files.py"


@pytest.mark.slow
@pytest.mark.parametrize("number", SAMPLE)
def test_moto_over_http_agrees(account: TestAccount, number: int) -> None:
    """A sample of the pairs, with boto3, HTTP and an API server; killed between steps."""
    random = Random(number)  # noqa: S311
    names = create_landscape(account.client, with_cluster=False)
    pair = random_pair(_fields()[number % len(_fields())], random, names)
    inventory = account.inventory("us-east-1")

    account.apply(pair.before)
    account.apply(pair.after, steps=random.randrange(1, 10))
    account.apply(pair.after)

    assert [str(step) for step in account.plan(pair.after).steps] == []
    assert account.destroy(pair.after) == []
    assert account.inventory("us-east-1") == inventory


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_second_file_is_applied_as_if_it_was_the_first(part: int) -> None:
    pairs = refused = 0
    for number in range(part, PAIRS, PARTS):
        random = Random(number)  # noqa: S311
        pair = _pair(number, random)
        try:
            is_applied = _check(pair, random)
        except (AssertionError, DovetailError) as error:
            raise AssertionError(f"pair {number}, an edit of {pair.field}: {error}") from error
        pairs += 1
        refused += not is_applied
    assert refused < pairs / 2


def _pair(number: int, random: Random) -> Pair:
    """Return a pair; every field has its turn."""
    return random_pair(_fields()[number % len(_fields())], random, _landscape(False)[1])


@cache
def _fields() -> list[str]:
    return [field for field in schema_fields() if field not in EXEMPT]


@cache
def _landscape(with_cluster: bool) -> tuple[MemoryAccount, dict[str, str]]:
    account = MemoryAccount()
    return account, create_landscape(account.client, with_cluster=with_cluster)


def _check(pair: Pair, random: Random) -> bool:
    """Check a pair; return False if the second file was refused."""
    empty, _ = _landscape(pair.before.home.kind == "existing")
    account = empty.copy()
    account.apply(pair.before)
    _require_settled(account, pair.before)
    if not _is_possible(account, pair.after):
        return False
    for _ in range(random.choice((0, 1, 1, 2))):
        _apply_and_kill(account, pair.after, random.randrange(1, MAX_WRITES) / 2)
    account.apply(pair.after)
    _require_settled(account, pair.after)
    fresh = empty.copy()
    fresh.apply(pair.after)
    _require_equal(differences(canonical(account), canonical(fresh)), pair, "the account", "a fresh apply")
    assert account.destroy(pair.after) == []
    _require_equal(differences(canonical(account), canonical(empty)), pair, "after destroy", "before")
    return True


def _is_possible(account: MemoryAccount, config: ClusterConfig) -> bool:
    """Return False for an edit that ``plan`` refuses; nothing may have changed then."""
    before, writes = canonical(account), account.writes
    try:
        plan = account.plan(config)
    except DovetailError:
        assert (canonical(account), account.writes) == (before, writes)
        return False
    return not plan.missing


def _apply_and_kill(account: MemoryAccount, config: ClusterConfig, writes: float) -> None:
    try:
        account.apply(config, kill_after=writes)
    except KilledError:
        return


def _require_settled(account: MemoryAccount, config: ClusterConfig) -> None:
    assert [str(step) for step in account.plan(config).steps] == []


def _require_equal(changes: Iterator[Any], pair: Pair, left: str, right: str) -> None:
    wrong = [
        f"{' > '.join(path)}: {left} {before!r}, {right} {after!r}"
        for path, before, after in changes
        if not is_kept(path, before, after, pair.after)
    ]
    assert wrong == []
