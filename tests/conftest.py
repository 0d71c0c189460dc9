"""Settings of all tests."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadline: the duration depends on the load of the host; bench/ measures speed.
settings.register_profile("dovetail", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dovetail")

pytest_plugins = ["tests.live.fixtures", "tests.support.chromium"]

# Modules and collected tests live as long as the process.
gc.disable()


@pytest.fixture(scope="session", autouse=True)
def temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the locks of `dovetail cluster` in a directory of this test process.

    The temporary directory is common to all processes. Without this fixture, suites that run
    at the same time would wait for each other's clusters. Subprocesses inherit it.
    """
    directory = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(directory))
        yield directory


def pytest_collection_finish() -> None:
    """Exclude modules and collected tests from garbage collection.

    They are some 600,000 objects: with them, each full collection takes half a second.
    Collections are rarer than by default, as in `dovetail run`.
    """
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Record how the run ended: `.ci/run` retries failed tests only if all tests have run."""
    cache = getattr(session.config, "cache", None)
    if cache is not None and not hasattr(session.config, "workerinput"):
        cache.set("dovetail/exitstatus", int(exitstatus))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig", help="use the cluster of this file for tests marked live, not one of our own"
    )
