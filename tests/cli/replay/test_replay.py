"""``dovetail replay``: a trace in, a report out."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.trace.model import Interruption, Scale, Set
from tests.replay.traces import deployment, nodepool, write_trace
from tests.support.plugins import install_plugin


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["replay", *arguments])


def a_day(folder: Path) -> str:
    path = write_trace(
        folder / "day.trace",
        Set(t=0, object=deployment("web", 4)),
        Scale(t=300, kind="Deployment", namespace="shop", name="web", replicas=9),
        Interruption(t=900, count=1),
        seconds=1800,
    )
    return str(path)


def test_the_table_has_cost_evictions_and_waiting_times_and_fits_80_columns(tmp_path: Path) -> None:
    result = run(a_day(tmp_path), "--set", "consolidation-min-saving=1")

    assert result.exit_code == 0, result.output
    assert "Replay of shop: 30m00s from 2026-03-02 00:00 UTC" in result.stdout
    assert "Setting consolidation-min-saving=1" in result.stdout
    for row in ("cost", "node hours", "peak", "nodes launched", "evictions", "pods' waiting time"):
        assert f"\n  {row}" in result.stdout
    assert "shop/web" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_installed_policy_with_a_name_of_dovetail_is_noted_once_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = a_day(tmp_path)
    before = run(trace)

    install_plugin(tmp_path, monkeypatch, "dovetail", "class Plugin: pass")
    after = run(trace)

    assert (after.exit_code, after.stdout) == (0, before.stdout)
    assert after.stderr == (
        "note: policy 'dovetail' is that of Dovetail; rename plugin_dovetail:Plugin in its package\n"
    )


def test_json_has_the_same_result_each_time_and_html_has_charts_and_loads_nothing(tmp_path: Path) -> None:
    trace = a_day(tmp_path)

    first, second = (run(trace, "-o", "json").stdout for _ in range(2))
    page = run(trace, "-o", "html").stdout

    assert first == second
    report = json.loads(first)
    assert report["launched"] >= 2
    assert report["waiting"]["pods"] >= 5
    assert report["evictions_by_reason"].keys() <= {"Interrupted", "Underutilized"}
    assert page.count("<svg") == 5
    # Half an hour has labels at round times.
    assert page.count(">5m00s</text>") == page.count(">25m00s</text>") == 5
    assert "http" not in page
    assert "<script" not in page


def test_nodepools_of_files_are_used(tmp_path: Path) -> None:
    trace = a_day(tmp_path)
    file = tmp_path / "pool.yaml"
    file.write_text(yaml.safe_dump(nodepool("stable", "on-demand")))

    spot = json.loads(run(trace, "-o", "json").stdout)
    on_demand = json.loads(run(trace, "-f", str(file), "-o", "json").stdout)

    assert on_demand["cost"] > 1.5 * spot["cost"]
    assert any("Interruptions that found no instance" in note for note in on_demand["notes"])


def test_all_errors_are_reported_at_once_with_file_and_line(tmp_path: Path) -> None:
    trace = tmp_path / "bad.trace"
    trace.write_text('{"format":"dovetail-trace","version":9}\n')
    file = tmp_path / "pool.yaml"
    file.write_text("kind: NodePool\napiVersion: karpenter.sh/v1\nmetadata: {name: a}\nspec: {weigth: 1}\n")

    result = run(str(trace), "-f", str(file))

    assert result.exit_code == 1
    assert f"error: {trace}:1 format version 9 is unknown" in result.stderr
    assert f"error: {file}:4 spec.weigth" in result.stderr
    assert "Traceback" not in result.output


def test_an_unknown_setting_names_the_nearest(tmp_path: Path) -> None:
    result = run(a_day(tmp_path), "--set", "consolidation-min-savings=1")

    assert result.exit_code == 1
    assert "did you mean 'consolidation-min-saving'?" in result.stderr


def test_one_node_and_one_pod_are_in_the_singular(tmp_path: Path) -> None:
    trace = write_trace(
        tmp_path / "huge.trace",
        Set(t=0, object=deployment("web", 1)),
        Set(t=60, object=deployment("huge", 1, cpu="1k")),
        seconds=1800,
    )

    table = run(str(trace)).stdout

    assert "1 node " in table
    assert "1 pod waits at the end" in table


def test_an_unknown_region_is_named(tmp_path: Path) -> None:
    result = run(a_day(tmp_path), "--region", "mars-1")

    assert result.exit_code == 1
    assert "the catalogue has no region 'mars-1'" in result.stderr


def test_the_first_failure_of_a_policy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "class Plugin:\n    def __call__(self, offer):\n        return None\n"
    install_plugin(tmp_path, monkeypatch, "broken", source)

    trace = write_trace(
        tmp_path / "fewer.trace",
        Set(t=0, object=deployment("web", 8)),
        Scale(t=60, kind="Deployment", namespace="shop", name="web", replicas=5),
    )

    result = json.loads(run(str(trace), "--policy", "broken", "-o", "json").stdout)

    assert result["policy_failures"] >= 1
    assert result["policy_error"] == "it raised TypeError: 'NoneType' object is not iterable"
    assert any(note.endswith(f"First failure: {result['policy_error']}") for note in result["notes"])


def test_a_policy_chooses_the_moves_and_is_named_in_the_report(tmp_path: Path) -> None:
    trace = a_day(tmp_path)

    quiet = json.loads(run(trace, "--policy", "quiet-hours:start=0:end=24", "-o", "json").stdout)
    wrong = run(trace, "--policy", "paybak")

    assert quiet["settings"] == ["policy=quiet-hours:start=0:end=24"]
    assert "Underutilized" not in quiet["evictions_by_reason"]
    assert wrong.exit_code == 1
    assert "policy 'paybak' is not installed; did you mean 'payback'?" in wrong.stderr
