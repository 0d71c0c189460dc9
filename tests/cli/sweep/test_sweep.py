"""``dovetail sweep``: many settings, and the one to choose."""

import csv
import json
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.trace.model import Scale, Set
from tests.replay.traces import deployment, write_trace


def run(folder: Path, *arguments: str) -> Result:
    results = ["--results", str(folder / "results.jsonl")]
    return CliRunner().invoke(cli, ["sweep", str(folder / "day.trace"), *results, *arguments])


def write_day(folder: Path) -> None:
    write_trace(
        folder / "day.trace",
        Set(t=0, object=deployment("web", 8)),
        Scale(t=60, kind="Deployment", namespace="shop", name="web", replicas=5),
        seconds=1800,
    )


@pytest.mark.slow
def test_a_sweep_marks_the_front_chooses_and_is_resumed_from_its_results(tmp_path: Path) -> None:
    write_day(tmp_path)
    vary = ("--vary", "consolidateAfter=30s,Never", "--vary", "consolidation-min-saving=0,100")

    table = run(tmp_path, *vary, "--max-evictions", "0")
    again = run(tmp_path, *vary, "--eviction-price", "0", "-o", "json")
    page = run(tmp_path, *vary, "-o", "html").stdout
    rows = list(csv.DictReader(StringIO(run(tmp_path, *vary, "-o", "csv").stdout)))

    assert table.exit_code == 0, table.output
    assert "5/5 " in table.stderr
    assert "Choose, for at most 0 evictions" in table.stdout
    assert max(map(len, table.stdout.splitlines())) <= 80
    assert "5 of 5 results are in" in again.stderr
    report = json.loads(again.stdout)
    assert len(report["points"]) == 5
    assert report["current"]["values"] == {}
    calm = [point for point in report["points"] if point["values"].get("consolidateAfter") == "Never"]
    assert [point["outcome"]["evictions"] for point in calm] == [0, 0]
    # At a price of zero the cheapest is chosen.
    assert report["chosen"]["outcome"]["cost"] == min(point["outcome"]["cost"] for point in report["points"])
    assert report["chosen"]["outcome"]["evictions"] > 0
    assert page.count("<circle") == 6
    assert "http" not in page
    assert [row["current"] for row in rows].count("true") == 1
    assert [float(row["cost"]) for row in rows] == sorted(float(row["cost"]) for row in rows)


@pytest.mark.slow
def test_an_interrupted_sweep_ends_its_workers_and_is_continued(tmp_path: Path) -> None:
    write_day(tmp_path)
    results = tmp_path / "results.jsonl"
    arguments = ["sweep", str(tmp_path / "day.trace"), "--results", str(results), "--workers", "2"]
    vary = ["--vary", "consolidateAfter=10s,30s,1m,2m,3m,4m,5m,6m,7m,Never"]
    command = [sys.executable, "-m", "dovetail", *arguments, *vary]

    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert "1/11" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        # Ends with the last process that holds the pipe: no worker is left.
        _, stderr = running.communicate(timeout=60)
    continued = CliRunner().invoke(cli, [*arguments, *vary, "-o", "json"])

    assert running.returncode == 130
    assert "of 11 results are in" in stderr
    assert "the same command continues" in stderr
    assert "of 11 results are in" in continued.stderr
    assert len(json.loads(continued.stdout)["points"]) == 11


def test_a_trace_without_nodepools_is_refused_before_any_replay(tmp_path: Path) -> None:
    write_trace(tmp_path / "day.trace", Set(t=0, object=deployment("web", 8)), has_pool=False, seconds=1800)

    result = run(tmp_path, "--vary", "consolidateAfter=30s,Never")

    assert result.exit_code == 1
    assert result.stderr == "error: the trace has no NodePool; name files with NodePools: -f PATH\n"
    assert not (tmp_path / "results.jsonl").exists()


def test_wrong_keys_and_values_are_named_together_with_the_nearest(tmp_path: Path) -> None:
    write_day(tmp_path)

    result = run(
        tmp_path,
        *("--vary", "consolidateafterr=1m", "--vary", "spot.budget=10%", "--vary", "capacityTypes=ondemand"),
        *("--vary", "node-cost=cheap", "--vary", "budget", "--vary", "policy=karpenter,paybak"),
        *("--vary", "spotshare=1", "--vary", "default.spotShare=0.5", "--vary", "colour=red"),
        *("--vary", "default.consolidateAftr=1m", "--vary", "default.budget=200%"),
    )

    assert result.exit_code == 1
    assert "did you mean 'consolidateAfter'?" in result.stderr
    assert "there is no NodePool 'spot'" in result.stderr
    assert "'ondemand' is not one of spot, on-demand, reserved" in result.stderr
    assert "node-cost: " in result.stderr
    assert "'budget' is not KEY=VALUE" in result.stderr
    assert "policy 'paybak' is not installed; did you mean 'payback'?" in result.stderr
    assert "did you mean 'spotShare'?" in result.stderr
    assert "default.spotShare: it is for all NodePools" in result.stderr
    assert "'colour' cannot be varied; known are consolidationPolicy, " in result.stderr
    assert "did you mean 'default.consolidateAfter'?" in result.stderr
    assert "default.budget: '200%' is neither a number of nodes nor a percentage" in result.stderr
    assert not (tmp_path / "results.jsonl").exists()


def test_a_wrong_option_of_a_policy_is_an_error_before_the_first_replay(tmp_path: Path) -> None:
    write_day(tmp_path)

    result = run(tmp_path, "--vary", "policy=dovetail,payback:prce=1")

    assert result.exit_code == 1
    assert result.stderr.endswith("policy 'payback' has no option 'prce'; did you mean 'price'?\n")
    assert not (tmp_path / "results.jsonl").exists()


@pytest.mark.slow
def test_a_value_that_leaves_pods_unschedulable_has_no_average(tmp_path: Path) -> None:
    write_day(tmp_path)

    result = run(tmp_path, "--vary", "architectures=amd64", "--vary", "instanceCategories=c,u")

    assert result.exit_code == 0
    assert "instanceCategories  u            -          -" in result.stdout
    assert "-: it leaves more pods unschedulable than others" in result.stdout


def test_an_unreachable_ray_cluster_is_named(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra dovetail[sweep] is not installed")
    write_day(tmp_path)

    result = run(tmp_path, "--vary", "budget=1", "--ray", "nonsense")

    assert result.exit_code == 1
    assert "the Ray cluster at 'nonsense' cannot be reached" in result.stderr
