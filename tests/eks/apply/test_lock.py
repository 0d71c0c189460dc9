"""The cluster lock: one writing run at a time."""

import multiprocessing
from pathlib import Path

import pytest

from dovetail.eks.apply.lock import ClusterLockedError, cluster_lock
from dovetail.eks.plan.resource import Account
from tests.support.eks.configs import ACCOUNT


def test_second_run_is_rejected_with_the_process_of_the_first(tmp_path: Path) -> None:
    with (
        cluster_lock(ACCOUNT, "dev", directory=tmp_path),
        pytest.raises(ClusterLockedError, match=r"another run is changing dev in us-east-1 \(process \d+\)"),
        cluster_lock(ACCOUNT, "dev", directory=tmp_path),
    ):
        pass


def test_locks_of_other_clusters_and_accounts_are_independent(tmp_path: Path) -> None:
    other = Account(account="999999999999", region="us-east-1")

    with (
        cluster_lock(ACCOUNT, "dev", directory=tmp_path),
        cluster_lock(ACCOUNT, "staging", directory=tmp_path),
        cluster_lock(other, "dev", directory=tmp_path),
    ):
        pass


def test_runs_with_other_lock_directories_do_not_meet(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("first", "second")]
    for directory in directories:
        directory.mkdir()

    with (
        cluster_lock(ACCOUNT, "dev", directory=directories[0]),
        cluster_lock(ACCOUNT, "dev", directory=directories[1]),
    ):
        pass

    assert [len(list(directory.iterdir())) for directory in directories] == [1, 1]


def test_killed_run_leaves_no_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_hold, args=(tmp_path,))
    process.start()
    while not list(tmp_path.glob("*.held")):
        process.join(0.05)

    process.kill()
    process.join()

    with cluster_lock(ACCOUNT, "dev", directory=tmp_path):
        pass


def _hold(directory: Path) -> None:
    with cluster_lock(ACCOUNT, "dev", directory=directory):
        (directory / "cluster.held").touch()
        multiprocessing.Event().wait()
