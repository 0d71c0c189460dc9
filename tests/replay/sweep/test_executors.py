"""Points of a sweep in processes and on Ray: the same outcomes, also when workers die."""

import gc
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from dovetail.errors import InvalidInputError
from dovetail.model.settings import ControllerSettings
from dovetail.replay.sweep.nodepool_keys import PoolChanges
from dovetail.replay.sweep.processes import run_in_processes
from dovetail.replay.sweep.results import ResultFile, hash_points, hash_sweep
from dovetail.replay.sweep.worker import Point, SweepInput, Worker
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.trace.model import Scale, Set
from tests.replay.traces import deployment, options, write_trace
from tests.support.plugins import install_plugin
from tests.support.sweep import an_outcome


def an_input(folder: Path, replicas: int = 4) -> SweepInput:
    path = write_trace(
        folder / "day.trace",
        Set(t=0, object=deployment("web", 8)),
        Scale(t=60, kind="Deployment", namespace="shop", name="web", replicas=replicas),
        seconds=1200,
    )
    return SweepInput(trace=str(path), options=options())


def points(*after: str) -> list[Point]:
    return [
        Point(
            values=(("consolidateAfter", value),),
            settings=ControllerSettings(),
            pools=PoolChanges((("", "consolidateAfter", value),)),
        )
        for value in after
    ]


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_point_replayed_again(tmp_path: Path) -> None:
    shared, swept = an_input(tmp_path), points("10s", "1m", "5m", "Never")
    worker = Worker(shared)
    expected = {number: worker.run(point) for number, point in enumerate(swept)}

    outcomes = {}
    for number, outcome in run_in_processes(shared, swept, workers=2):
        if not outcomes:
            multiprocessing.active_children()[0].kill()
        outcomes[number] = outcome

    assert outcomes == expected
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_a_sweep_that_is_abandoned_leaves_no_process(tmp_path: Path) -> None:
    running = run_in_processes(an_input(tmp_path), points("10s", "1m", "5m"), workers=2)
    next(running)

    running.close()

    assert not multiprocessing.active_children()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds workers in /proc")
def test_workers_end_with_a_sweep_that_is_killed(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "year.trace", Set(t=0, object=deployment("web", 8)), seconds=3e7)
    command = [sys.executable, "-m", "dovetail", "sweep", str(path), "--vary", "consolidateAfter=10s,1m"]
    sweep = subprocess.Popen([*command, "--workers", "2"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    listed = Path(f"/proc/{sweep.pid}/task/{sweep.pid}/children")
    # The two workers, and the process of the standard library that cleans up after them.
    wait_until(lambda: len(listed.read_text().split()) >= 3)
    children = [Path(f"/proc/{pid}") for pid in listed.read_text().split()]

    sweep.kill()
    sweep.wait()

    wait_until(lambda: not any(child.exists() for child in children))


def wait_until(condition: Callable[[], bool], *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.1)


def test_a_worker_frees_the_cluster_of_each_point(tmp_path: Path) -> None:
    worker, clusters = Worker(an_input(tmp_path)), count_clusters()

    worker.run(points("1m")[0])

    assert count_clusters(collect=False) <= clusters


def count_clusters(*, collect: bool = True) -> int:
    if collect:
        gc.collect()
    return sum(isinstance(known, SimulatedCluster) for known in gc.get_objects())


def test_settings_that_cannot_be_replayed_are_an_outcome_of_their_own(tmp_path: Path) -> None:
    shared = an_input(tmp_path)
    shared = msgspec.structs.replace(shared, options=msgspec.structs.replace(shared.options, region="mars-1"))

    outcome = Worker(shared).run(points("1m")[0])

    assert isinstance(outcome, str)
    assert "no region 'mars-1'" in outcome


def test_an_internal_error_is_the_outcome_of_its_point_with_its_location(tmp_path: Path) -> None:
    shared = an_input(tmp_path)
    no_catalog = msgspec.structs.replace(shared.options, catalog=None)

    outcome = Worker(msgspec.structs.replace(shared, options=no_catalog)).run(points("1m")[0])

    assert isinstance(outcome, str)
    assert outcome.startswith("internal error: AttributeError: ")
    assert outcome.endswith("; this is a bug in Dovetail")
    assert ".py:" in outcome


def test_a_policy_that_fails_is_not_compared_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "class Plugin:\n    def __call__(self, offer):\n        return 1 / 0\n"
    install_plugin(tmp_path, monkeypatch, "broken", source)
    (point,) = points("1m")

    outcome = Worker(an_input(tmp_path, replicas=5)).run(msgspec.structs.replace(point, policy="broken"))

    assert isinstance(outcome, str)
    assert "policy 'broken' failed " in outcome
    assert "first failure: it raised ZeroDivisionError: division by zero" in outcome


OUTCOME = an_outcome(1.5, 2)


def test_results_survive_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultFile(path) as results:
        results.add("a", points("1m")[0], OUTCOME)
        results.add("b", points("5m")[0], OUTCOME)
    path.write_bytes(path.read_bytes()[:-10])

    with ResultFile(path) as results:
        assert results.outcomes == {"a": OUTCOME}
        results.add("c", points("9m")[0], OUTCOME)

    with ResultFile(path) as results:
        assert results.outcomes == {"a": OUTCOME, "c": OUTCOME}


def test_a_file_of_another_kind_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("shopping list\n")

    with pytest.raises(InvalidInputError, match=r"notes.txt:1 this is not a result of a sweep"):
        ResultFile(path)

    assert path.read_text() == "shopping list\n"


def test_the_key_of_a_point_changes_with_trace_settings_policy_and_seed(tmp_path: Path) -> None:
    shared = an_input(tmp_path)
    trace = Path(shared.trace)
    base = hash_sweep(trace, shared.options, (None,))

    other_seed = hash_sweep(trace, msgspec.structs.replace(shared.options, seed=2), (None,))
    write_trace(trace, Set(t=0, object=deployment("web", 9)))
    other_trace = hash_sweep(trace, shared.options, (None,))

    short, long = points("1m", "5m")
    keys = {hashed for key in (base, other_seed, other_trace) for hashed in hash_points(key, (short, long))}
    assert len(keys) == 6
    assert hash_points(base, [short]) == hash_points(base, points("1m"))
    (other_policy,) = hash_points(base, [msgspec.structs.replace(short, policy="karpenter")])
    assert other_policy not in keys


def test_the_key_of_a_point_changes_with_the_code_of_its_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin(tmp_path, monkeypatch, "mine", "class Plugin: ...\n")
    point = msgspec.structs.replace(points("1m")[0], policy="mine")
    before = hash_points("", [point])

    (tmp_path / "plugin_mine.py").write_text("class Plugin:\n    limit = 3\n")

    assert hash_points("", [point]) != before


@pytest.mark.parametrize("namespace", ["", "shared_namespace"])
def test_the_key_of_a_point_changes_with_any_file_of_its_package_which_is_not_imported(
    namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "in-namespace" if namespace else "in-package"
    install_plugin(tmp_path, monkeypatch, name, "")
    module = f"plugin_{name.replace('-', '_')}"
    package = tmp_path / namespace / f"{module}_code"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "impl.py").write_text("class Plugin: ...\n")
    path = ".".join(filter(None, (namespace, package.name)))
    entry_points = tmp_path / f"{module}-1.0.dist-info" / "entry_points.txt"
    entry_points.write_text(f"[dovetail.policies]\n{name} = {path}.impl:Plugin\n")
    point = msgspec.structs.replace(points("1m")[0], policy=name)
    before = hash_points("", [point])

    (package / "weights.json").write_text("[1, 2]")

    assert hash_points("", [point]) != before


@pytest.fixture
def ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Ray cluster of one head."""
    ray = pytest.importorskip("ray", reason="the extra dovetail[sweep] is not installed")
    from ray.cluster_utils import Cluster

    # Paths of sockets are limited to 107 bytes; those of pytest are longer.
    with TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.slow
def test_a_ray_cluster_has_the_same_outcomes_and_survives_a_lost_node(
    tmp_path: Path, ray_cluster: Any
) -> None:
    from dovetail.replay.sweep.ray_cluster import run_on_ray

    shared, swept = an_input(tmp_path), points("10s", "1m", "5m", "Never")
    worker = Worker(shared)
    expected = {number: worker.run(point) for number, point in enumerate(swept)}
    lost = ray_cluster.add_node(num_cpus=1)

    outcomes = {}
    for number, outcome in run_on_ray(shared, swept, address=ray_cluster.address):
        if not outcomes:
            ray_cluster.remove_node(lost, allow_graceful=False)
        outcomes[number] = outcome

    assert outcomes == expected
