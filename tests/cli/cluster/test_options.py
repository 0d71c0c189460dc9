"""Options of the ``dovetail cluster`` commands."""

import tempfile
from pathlib import Path

import pytest

from dovetail.cli.cluster.options import lock_directory


def test_locks_are_in_the_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    assert lock_directory() == tmp_path


@pytest.mark.parametrize("runtime_directory", ["", "/run/user/1000"])
def test_sessions_with_and_without_a_runtime_directory_share_the_locks(
    runtime_directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime_directory)

    assert lock_directory() == Path(tempfile.gettempdir())


def test_locks_of_tests_are_in_the_directory_of_their_own_process(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    assert lock_directory().is_relative_to(tmp_path_factory.getbasetemp())
