"""``dovetail demo``: what it takes, what it tells, how it ends."""

import json
import subprocess
import sys
from pathlib import Path

from click.shell_completion import ShellComplete

from dovetail.cli.main import cli
from dovetail.data.bundled import scenarios
from tests.cli.demos import SMALL, as_golden, demo, demo_of, outcome_of

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "guides" / "demo.md").read_text(encoding="utf-8")

NEVER = SMALL.replace("until: {running: 1}", "until: {running: 2}\n    limit: 1m")


def test_the_list_names_every_scenario_and_what_it_is_about() -> None:
    table, data = demo("--list"), demo("--list", "-o", "json")

    assert [line.split()[0] for line in table.stdout.splitlines()] == scenarios()
    assert [one["name"] for one in json.loads(data.stdout)] == scenarios()
    assert all(one["about"] in table.stdout for one in json.loads(data.stdout))


def test_a_report_in_json_has_all_that_was_promised(tmp_path: Path) -> None:
    done = demo_of(tmp_path, SMALL, "-o", "json")

    told = json.loads(done.stdout)
    assert done.exit_code == 0
    assert told["scenario"] == "small"
    assert (told["region"], told["seed"], told["reached"]) == ("us-east-1", 1, True)
    assert told["own_seconds"] == 0
    assert told["wall_seconds"] > 0
    assert told["invariant_violations"] == []
    [phase] = told["phases"]
    assert phase["virtual_seconds"] == 2.5
    assert phase["price_per_hour"] == 0.096
    counts = ("pods_running", "nodes", "launched", "terminated", "evictions")
    assert [phase[name] for name in counts] == [1, 1, 0, 0, 0]


def test_lines_tell_phases_and_end_with_the_report(tmp_path: Path) -> None:
    done = demo_of(tmp_path, SMALL)

    lines = done.stdout.splitlines()
    assert lines[0] == "     0.0 s  one …"
    assert lines[1] == "     2.5 s  one: done in 2.5 s: 1 pod on 1 node, $0.0960/h"
    assert lines[3].split() == [
        *"PHASE TIME PODS NODES $/HOUR COST LAUNCHED TERMINATED EVICTIONS INSTANCE TYPES".split()
    ]
    assert "Invariants: none broken." in lines
    assert not any(line != line.rstrip() or "\x1b" in line for line in lines)


def test_log_lines_that_say_the_same_at_once_are_folded() -> None:
    lines = demo("sold-out").stdout.splitlines()

    launched = [line for line in lines if "launched nodeclaim" in line]
    assert launched[0].split("  ")[-1] == "capacity_type=spot"
    assert launched[3].endswith("… and 16 more")


def test_a_scenario_can_come_from_standard_input() -> None:
    done = demo("-", stdin=SMALL)

    assert done.exit_code == 0
    assert "one: done" in done.stdout


def test_a_goal_that_is_not_reached_is_told_and_ends_with_2(tmp_path: Path) -> None:
    table, data = demo_of(tmp_path, NEVER), demo_of(tmp_path, NEVER, "-o", "json")

    assert table.exit_code == data.exit_code == 2
    assert "one: NOT REACHED in 60.0 s: 1 pod on 1 node" in table.stdout
    assert "Not reached: one: 2 pods running within 1 min 0 s" in table.stdout
    assert json.loads(data.stdout)["reached"] is False


def test_a_misspelt_scenario_is_answered_with_a_guess() -> None:
    misspelt, unknown = demo("scale-10"), demo("blue-green")

    assert misspelt.exit_code == unknown.exit_code == 1
    assert misspelt.stderr == "scale-10 is no scenario; did you mean 'scale-100'?\n"
    assert unknown.stderr == f"blue-green is no scenario; known are {', '.join(scenarios())}\n"


def test_a_file_that_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    done = demo(str(tmp_path / "mine.yaml"))

    assert done.exit_code == 1
    assert done.stderr == f"{tmp_path / 'mine.yaml'} there is no such file\n"


def test_all_mistakes_of_a_scenario_are_told_at_once(tmp_path: Path) -> None:
    broken = (
        SMALL.replace("home: {count: 1, instanceType: m5.large}", "home: {instanceType: m5.larg}")
        .replace("about: One pod comes and goes.", "about: One pod.\nregion: us-esat-1")
        .replace("replicas: 1}", "replicas: many}")
    )

    done = demo_of(tmp_path, broken)

    assert done.exit_code == 1
    places = [line.removeprefix(f"{tmp_path}/") for line in done.stderr.splitlines()]
    assert [place.split(":")[1].split(" ")[0] for place in places] == ["3", "4", "17"]
    assert "region: 'us-esat-1' is no region of the catalogue" in places[0]
    assert "home.instanceType: 'm5.larg' is no instance type sold in us-east-1" in places[1]
    assert "did you mean 'm5.large'?" in places[1]
    assert "phases[0].do[0].scale.replicas" in places[2]


def test_a_scenario_without_phases_or_content_is_refused(tmp_path: Path) -> None:
    bare = demo_of(tmp_path, SMALL.partition("phases:")[0])
    empty = demo("-", stdin="{apiVersion: v1, kind: List, items: []}")

    assert bare.exit_code == empty.exit_code == 1
    assert bare.stderr.endswith("phases: is missing; a demo has at least one phase\n")
    assert empty.stderr == "<stdin> is empty; a scenario has a name and phases\n"


def test_an_action_on_something_that_is_not_there_names_the_phase(tmp_path: Path) -> None:
    done = demo_of(tmp_path, SMALL.replace("scale: {name: web", "scale: {name: wbe"))

    assert done.exit_code == 1
    assert 'phase one: deployments.apps "wbe" not found' in done.stderr


def test_a_speed_of_nothing_is_refused() -> None:
    done = demo("--speed", "0")

    assert done.exit_code == 1
    assert "--speed" in done.stderr


def test_a_reader_that_stops_early_sees_no_traceback() -> None:
    command = [sys.executable, "-m", "dovetail", "demo", "inflate"]

    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    complaints = running.stderr.read().decode()
    running.stderr.close()

    assert running.wait() == 141
    assert complaints == ""


def test_the_help_tells_the_exit_codes() -> None:
    told = " ".join(demo("--help").stdout.split())

    assert "Exit codes: 0 every phase reached its goal; 1 bad input; 2 a phase fell short" in told
    assert "130 interrupted" in told


def test_the_tab_key_knows_the_scenarios() -> None:
    completion = ShellComplete(cli, {}, "dovetail", "_DOVETAIL_COMPLETE")

    known = completion.get_completions(["demo"], "s")
    other = completion.get_completions(["demo"], "./mine")

    assert [one.value for one in known] == ["scale-100", "sold-out", "spot-storm"]
    assert [one.type for one in other] == ["file"]


def test_the_guide_lists_every_scenario_and_shows_todays_report() -> None:
    report = as_golden(outcome_of("scale-100")).splitlines()

    shown = [
        line.removeprefix("    ")
        for line in GUIDE.partition("## The report")[2].partition("The first table")[0].splitlines()
    ]

    assert [name for name in scenarios() if f"| `{name}` |" not in GUIDE] == []
    assert [line for line in shown if line not in report] == []


def test_the_scenario_of_the_guide_runs(tmp_path: Path) -> None:
    done = demo_of(tmp_path, GUIDE.partition("```yaml\n")[2].partition("```")[0], "-o", "json")

    assert done.exit_code == 0
    assert [one["name"] for one in json.loads(done.stdout)["phases"]] == ["open", "rush"]


def test_make_demo_runs_the_demo_and_says_what_to_try_next() -> None:
    done = subprocess.run([ROOT / "scripts" / "demo"], capture_output=True, text=True, check=True)

    assert "scale to 100: done" in done.stdout
    assert "dovetail simulate -f" in done.stdout
