"""One run at a time on one machine."""

import multiprocessing
from pathlib import Path

import pytest

from dovetail.eks.apply.lock import Busy, one_at_a_time
from dovetail.eks.plan.resource import Account
from tests.support.clusters import ACCOUNT


def test_a_second_run_is_refused_and_told_whose_the_first_is(tmp_path: Path) -> None:
    with (
        one_at_a_time(ACCOUNT, "dev", where=tmp_path),
        pytest.raises(Busy, match=r"another run changes dev in us-east-1 just now \(process \d+\)"),
        one_at_a_time(ACCOUNT, "dev", where=tmp_path),
    ):
        pass


def test_other_clusters_and_accounts_do_not_wait(tmp_path: Path) -> None:
    other = Account(account="999999999999", region="us-east-1")

    with (
        one_at_a_time(ACCOUNT, "dev", where=tmp_path),
        one_at_a_time(ACCOUNT, "staging", where=tmp_path),
        one_at_a_time(other, "dev", where=tmp_path),
    ):
        pass


def test_a_run_that_was_killed_leaves_no_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_hold, args=(tmp_path,))
    process.start()
    while not list(tmp_path.glob("*.held")):
        process.join(0.05)

    process.kill()
    process.join()

    with one_at_a_time(ACCOUNT, "dev", where=tmp_path):
        pass


def _hold(where: Path) -> None:
    with one_at_a_time(ACCOUNT, "dev", where=where):
        (where / "it.held").touch()
        multiprocessing.Event().wait()
