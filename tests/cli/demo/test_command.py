"""``dovetail demo``: arguments, output and exit codes."""

import json
import subprocess
import sys
from pathlib import Path

from click.shell_completion import ShellComplete

from dovetail.cli.main import cli
from dovetail.data.bundled import bundled_scenario_names
from tests.cli.demos import SMALL, as_golden, demo, demo_of, outcome_of

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "guides" / "demo.md").read_text(encoding="utf-8")

NEVER = SMALL.replace("until: {running: 1}", "until: {running: 2}\n    limit: 1m")


def test_list_has_every_scenario_with_its_description() -> None:
    table, data = demo("--list"), demo("--list", "-o", "json")

    assert [line.split()[0] for line in table.stdout.splitlines()] == bundled_scenario_names()
    assert [entry["name"] for entry in json.loads(data.stdout)] == bundled_scenario_names()
    assert all(entry["about"] in table.stdout for entry in json.loads(data.stdout))


def test_report_as_json(tmp_path: Path) -> None:
    done = demo_of(tmp_path, SMALL, "-o", "json")

    report = json.loads(done.stdout)
    assert done.exit_code == 0
    assert report["scenario"] == "small"
    assert (report["region"], report["seed"], report["reached"]) == ("us-east-1", 1, True)
    assert report["own_seconds"] == 0
    assert report["wall_seconds"] > 0
    assert report["invariant_violations"] == []
    [phase] = report["phases"]
    assert phase["virtual_seconds"] == 2.5
    assert phase["price_per_hour"] == 0.096
    counts = ("pods_running", "nodes", "launched", "terminated", "evictions")
    assert [phase[name] for name in counts] == [1, 1, 0, 0, 0]


def test_output_has_a_line_per_phase_and_ends_with_the_report(tmp_path: Path) -> None:
    done = demo_of(tmp_path, SMALL)

    lines = done.stdout.splitlines()
    assert lines[0] == "     0.0 s  one …"
    assert lines[1] == "     2.5 s  one: done in 2.5 s: 1 pod on 1 node, $0.0960/h"
    assert lines[3].split() == [
        *"PHASE TIME PODS NODES $/HOUR COST LAUNCHED TERMINATED EVICTIONS INSTANCE TYPES".split()
    ]
    assert "Invariants: none broken." in lines
    assert not any(line != line.rstrip() or "\x1b" in line for line in lines)


def test_equal_log_lines_are_folded() -> None:
    lines = demo("consolidate").stdout.splitlines()

    launched = [line for line in lines if "launched nodeclaim" in line]
    assert [line.split("  ")[-1] for line in launched[:3]] == ["capacity_type=on-demand"] * 3
    assert launched[3].endswith("… and 11 more")


def test_scenario_from_standard_input() -> None:
    done = demo("-", stdin=SMALL)

    assert done.exit_code == 0
    assert "one: done" in done.stdout


def test_goal_that_is_not_reached_is_reported_and_exits_with_2(tmp_path: Path) -> None:
    table, data = demo_of(tmp_path, NEVER), demo_of(tmp_path, NEVER, "-o", "json")

    assert table.exit_code == data.exit_code == 2
    assert "one: NOT REACHED in 60.0 s: 1 pod on 1 node" in table.stdout
    assert "Not reached: one: 2 pods running within 1 min 0 s" in table.stdout
    assert json.loads(data.stdout)["reached"] is False


def test_misspelt_scenario_gets_a_suggestion() -> None:
    misspelt, unknown = demo("scale-10"), demo("blue-green")

    assert misspelt.exit_code == unknown.exit_code == 1
    assert misspelt.stderr == "error: scale-10 is not a scenario; did you mean 'scale-100'?\n"
    assert (
        unknown.stderr
        == f"error: blue-green is not a scenario; known are {', '.join(bundled_scenario_names())}\n"
    )


def test_missing_file_is_reported(tmp_path: Path) -> None:
    done = demo(str(tmp_path / "mine.yaml"))

    assert done.exit_code == 1
    assert done.stderr == f"error: {tmp_path / 'mine.yaml'} does not exist\n"


def test_all_validation_errors_of_a_scenario_are_reported_at_once(tmp_path: Path) -> None:
    broken = (
        SMALL.replace("home: {count: 1, instanceType: m5.large}", "home: {instanceType: m5.larg}")
        .replace("about: One pod comes and goes.", "about: One pod.\nregion: us-esat-1")
        .replace("replicas: 1}", "replicas: many}")
    )

    done = demo_of(tmp_path, broken)

    assert done.exit_code == 1
    errors = [line.removeprefix(f"error: {tmp_path}/") for line in done.stderr.splitlines()]
    assert [error.split(":")[1].split(" ")[0] for error in errors] == ["3", "4", "17"]
    assert "region: 'us-esat-1' is not a valid region of the catalogue" in errors[0]
    assert "home.instanceType: 'm5.larg' is not a valid instance type in us-east-1" in errors[1]
    assert "did you mean 'm5.large'?" in errors[1]
    assert "phases[0].do[0].scale.replicas" in errors[2]


def test_scenario_without_phases_or_content_is_rejected(tmp_path: Path) -> None:
    bare = demo_of(tmp_path, SMALL.partition("phases:")[0])
    empty = demo("-", stdin="{apiVersion: v1, kind: List, items: []}")

    assert bare.exit_code == empty.exit_code == 1
    assert bare.stderr.endswith("phases: is missing; a demo has at least one phase\n")
    assert empty.stderr == "error: <stdin> is empty; a scenario has a name and phases\n"


def test_action_on_a_missing_object_is_reported_with_its_phase(tmp_path: Path) -> None:
    done = demo_of(tmp_path, SMALL.replace("scale: {name: web", "scale: {name: wbe"))

    assert done.exit_code == 1
    assert 'phase one: deployments.apps "wbe" not found' in done.stderr


def test_speed_of_zero_is_rejected() -> None:
    done = demo("--speed", "0")

    assert done.exit_code == 1
    assert "--speed" in done.stderr


def test_closed_pipe_gives_no_traceback() -> None:
    command = [sys.executable, "-m", "dovetail", "demo", "inflate"]

    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    stderr = running.stderr.read().decode()
    running.stderr.close()

    assert running.wait() == 141
    assert stderr == ""


def test_help_lists_the_exit_codes() -> None:
    text = " ".join(demo("--help").stdout.split())

    assert "Exit codes: 0 every phase reached its goal; 1 bad input; 2 a phase did not" in text
    assert "130 interrupted" in text


def test_shell_completion_offers_the_scenarios() -> None:
    completion = ShellComplete(cli, {}, "dovetail", "_DOVETAIL_COMPLETE")

    scenarios = completion.get_completions(["demo"], "s")
    files = completion.get_completions(["demo"], "./mine")

    assert [item.value for item in scenarios] == ["scale-100", "sold-out", "spot-storm"]
    assert [item.type for item in files] == ["file"]


def test_guide_lists_every_scenario_and_shows_the_current_report() -> None:
    report = as_golden(outcome_of("scale-100")).splitlines()

    shown = [
        line.removeprefix("    ")
        for line in GUIDE.partition("## The report")[2].partition("The first table")[0].splitlines()
    ]

    assert [name for name in bundled_scenario_names() if f"| `{name}` |" not in GUIDE] == []
    assert [line for line in shown if line not in report] == []


def test_scenario_of_the_guide_runs(tmp_path: Path) -> None:
    done = demo_of(tmp_path, GUIDE.partition("```yaml\n")[2].partition("```")[0], "-o", "json")

    assert done.exit_code == 0
    assert [phase["name"] for phase in json.loads(done.stdout)["phases"]] == ["open", "rush"]


def test_make_demo_runs_the_demo_and_suggests_commands() -> None:
    done = subprocess.run([ROOT / "scripts" / "demo"], capture_output=True, text=True, check=True)

    assert "scale to 100: done" in done.stdout
    assert "dovetail simulate -f" in done.stdout
