"""Results of the bundled scenarios: documented numbers and golden files.

``GOLDEN=write pytest tests/cli/demo/test_scenarios.py`` rewrites the golden files.
"""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dovetail.cli.demo.report import outcome_lines
from dovetail.data.bundled import bundled_prices, bundled_scenario_names
from dovetail.simulator.latencies import INSTANT_API
from tests.cli.demos import as_golden, bundled, outcome_of, phase_of, played

GOLDEN = Path(__file__).parents[2] / "golden" / "demo"
LONG = ("churn",)
"""Scenarios of a whole day, which take minutes."""
EVERY = [
    pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in bundled_scenario_names()
]


@pytest.mark.parametrize("name", EVERY)
def test_scenario_report_equals_its_golden_file(name: str) -> None:
    file = GOLDEN / f"{name}.txt"

    text = as_golden(outcome_of(name))

    if os.environ.get("GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("name", EVERY)
def test_scenario_reaches_its_goals_and_violates_no_invariant(name: str) -> None:
    outcome = outcome_of(name)

    assert outcome.report.reached
    assert list(outcome.violations) == []


def test_hundred_pods_run_within_ten_seconds_plus_boot_time() -> None:
    scenario = bundled("scale-100")
    boot = scenario.cloud.start + scenario.cloud.boot + scenario.kubelet.node_ready

    up = phase_of(outcome_of("scale-100"), "scale to 100")

    assert up.pods_running == 100
    assert up.virtual_seconds <= boot.total_seconds() + 10


def test_hundred_pods_scale_down_to_four_within_thirty_five_seconds() -> None:
    start = phase_of(outcome_of("scale-100"), "start")

    down = phase_of(outcome_of("scale-100"), "scale back to 4")

    assert (down.pods_running, down.nodes) == (4, 4)
    assert down.price_per_hour == start.price_per_hour
    assert 30 <= down.virtual_seconds <= 35


def test_dovetail_takes_a_small_part_of_the_startup_time() -> None:
    startup = phase_of(outcome_of("scale-100"), "scale to 100").startup

    assert startup is not None
    assert startup.own < 2
    assert startup.own < 0.05 * sum(msgspec.structs.astuple(startup))


def test_empty_nodes_are_gone_thirty_seconds_later() -> None:
    outcome = outcome_of("inflate")

    assert phase_of(outcome, "inflate to 10").launched > 0
    assert 30 <= phase_of(outcome, "deflate to 0").virtual_seconds <= 35


def test_each_architecture_gets_its_own_nodes() -> None:
    types = phase_of(outcome_of("arm-and-x86"), "deploy to both").instance_types

    graviton = {name for name in types if "g" in name.partition(".")[0]}
    assert graviton
    assert types.keys() - graviton


def test_deleted_node_is_drained_and_replaced() -> None:
    deleted = phase_of(outcome_of("delete-node"), "delete a node")

    assert deleted.terminated == 1
    assert deleted.evictions > 0
    assert deleted.pods_running == 9


def test_spot_storm_respects_pod_disruption_budgets() -> None:
    storm = phase_of(outcome_of("spot-storm"), "storm")

    assert storm.terminated >= 3
    assert storm.evictions > 0
    assert storm.pods_running == 70


def test_capacity_error_is_retried_with_other_offerings_within_milliseconds() -> None:
    """EC2 responds at once, so that only the time of Dovetail is measured."""
    scenario = msgspec.structs.replace(bundled("sold-out"), cloud=INSTANT_API)

    outcome = played(scenario)

    for name in ("spot is sold out", "and so are two families and a zone"):
        startup = phase_of(outcome, name).startup
        assert startup is not None
        assert startup.launching < 0.01


def test_unavailable_offerings_are_not_launched() -> None:
    outcome = outcome_of("sold-out")
    last = phase_of(outcome, "and so are two families and a zone").instance_types

    assert last
    assert not [name for name in last if name.startswith(("t3", "c"))]


def test_another_hash_seed_gives_the_same_output() -> None:
    command = [sys.executable, "-m", "dovetail", "demo", "delete-node"]

    first, second = (
        subprocess.run(
            command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout.partition("Simulated:")[0]
        for seed in ("1", "2")
    )

    assert first == second
    assert "disrupt" in first or "deleted node" in first


def test_underutilized_cluster_is_consolidated_to_less_than_half_the_cost() -> None:
    full = phase_of(outcome_of("consolidate"), "fill")

    thin = phase_of(outcome_of("consolidate"), "thin")

    assert thin.pods_running == 56
    assert thin.price_per_hour < full.price_per_hour / 2
    assert thin.evictions > 0


def test_new_ami_replaces_every_node_and_leaves_the_cluster_unchanged() -> None:
    full = phase_of(outcome_of("drift-ami"), "fill")

    roll = phase_of(outcome_of("drift-ami"), "roll")

    assert roll.launched == roll.terminated == full.launched
    assert roll.price_per_hour == full.price_per_hour


def test_the_report_fits_a_narrow_terminal_with_changes_in_a_line_below_each_phase() -> None:
    lines = [line.plain for line in outcome_lines(outcome_of("scale-100"), bundled_prices(), width=80)]

    tables = lines[: lines.index("Invariants: none broken.")]
    assert max(len(line) for line in tables if not line.startswith("  ")) <= 80
    assert tables[0].split() == ["PHASE", "TIME", "PODS", "NODES", "$/HOUR", "COST"]
    assert tables[2] == "  4 launched (4 × t3a.micro), 0 terminated, 0 evictions"
    assert "UNTIL THE LAST POD RAN" in tables
    assert not any("WAITING" in line for line in tables)
