"""What the bundled scenarios come to: the numbers promised, and all others by golden file.

``GOLDEN=write pytest tests/cli/demo/test_scenarios.py`` writes them anew.
"""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dovetail.data.bundled import scenarios
from dovetail.simulator.ec2.latencies import INSTANT_API
from tests.cli.demos import as_golden, bundled, outcome_of, phase_of, played

GOLDEN = Path(__file__).parents[2] / "golden" / "demo"
LONG = ("churn",)
"""A whole day takes its time."""
EVERY = [pytest.param(one, marks=pytest.mark.slow if one in LONG else ()) for one in scenarios()]


@pytest.mark.parametrize("name", EVERY)
def test_a_scenario_ends_as_it_always_did(name: str) -> None:
    file = GOLDEN / f"{name}.txt"

    told = as_golden(outcome_of(name))

    if os.environ.get("GOLDEN") == "write":
        file.write_text(told)
    assert told == file.read_text()


@pytest.mark.parametrize("name", EVERY)
def test_a_scenario_reaches_its_goals_and_breaks_no_invariant(name: str) -> None:
    outcome = outcome_of(name)

    assert outcome.report.reached
    assert list(outcome.violations) == []


def test_a_hundred_pods_run_within_ten_seconds_beyond_the_boot_of_one_instance() -> None:
    story = bundled("scale-100")
    boot = story.cloud.until_kubelet + story.kubelet.node_ready

    up = phase_of(outcome_of("scale-100"), "scale to 100")

    assert up.pods_running == 100
    assert up.virtual_seconds <= boot.total_seconds() + 10


def test_a_hundred_pods_are_back_to_four_within_thirty_five_seconds() -> None:
    start = phase_of(outcome_of("scale-100"), "start")

    down = phase_of(outcome_of("scale-100"), "scale back to 4")

    assert (down.pods_running, down.nodes) == (4, 4)
    assert down.price_per_hour == start.price_per_hour
    assert 30 <= down.virtual_seconds <= 35


def test_what_dovetail_itself_takes_is_a_small_part_of_scaling_up() -> None:
    way = phase_of(outcome_of("scale-100"), "scale to 100").way

    assert way is not None
    assert way.own < 2
    assert way.own < 0.05 * sum(msgspec.structs.astuple(way))


def test_emptied_nodes_are_gone_thirty_seconds_later() -> None:
    outcome = outcome_of("inflate")

    assert phase_of(outcome, "inflate to 10").launched > 0
    assert 30 <= phase_of(outcome, "deflate to 0").virtual_seconds <= 35


def test_each_architecture_gets_its_own_nodes() -> None:
    bought = phase_of(outcome_of("arm-and-x86"), "deploy to both").instance_types

    graviton = {name for name in bought if "g" in name.partition(".")[0]}
    assert graviton
    assert bought.keys() - graviton


def test_a_deleted_node_is_drained_and_replaced() -> None:
    deleted = phase_of(outcome_of("delete-node"), "delete a node")

    assert deleted.terminated == 1
    assert deleted.evictions > 0
    assert deleted.pods_running == 9


def test_a_storm_is_survived_within_the_budgets() -> None:
    storm = phase_of(outcome_of("spot-storm"), "storm")

    assert storm.terminated >= 3
    assert storm.evictions > 0
    assert storm.pods_running == 70


def test_what_is_sold_out_is_replaced_within_milliseconds_of_the_refusal() -> None:
    """EC2's own time to answer is taken away, so that all that is left is ours."""
    story = msgspec.structs.replace(bundled("sold-out"), cloud=INSTANT_API)

    outcome = played(story)

    for name in ("spot is sold out", "and so are two families and a zone"):
        way = phase_of(outcome, name).way
        assert way is not None
        assert way.buying < 0.01


def test_what_is_sold_out_is_not_bought() -> None:
    outcome = outcome_of("sold-out")
    last = phase_of(outcome, "and so are two families and a zone").instance_types

    assert last
    assert not [name for name in last if name.startswith(("t3", "c"))]


def test_another_process_with_another_hash_seed_tells_the_same() -> None:
    command = [sys.executable, "-m", "dovetail", "demo", "delete-node"]

    first, second = (
        subprocess.run(
            command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout.partition("Simulated:")[0]
        for seed in ("1", "2")
    )

    assert first == second
    assert "disrupt" in first or "deleted node" in first


def test_a_thinned_cluster_is_moved_together_and_costs_less_than_half() -> None:
    full = phase_of(outcome_of("consolidate"), "fill")

    thin = phase_of(outcome_of("consolidate"), "thin")

    assert thin.pods_running == 56
    assert thin.price_per_hour < full.price_per_hour / 2
    assert thin.evictions > 0


def test_a_new_image_rolls_through_every_node_and_leaves_the_cluster_as_it_was() -> None:
    full = phase_of(outcome_of("drift-ami"), "fill")

    roll = phase_of(outcome_of("drift-ami"), "roll")

    assert roll.launched == roll.terminated == full.launched
    assert roll.price_per_hour == full.price_per_hour
