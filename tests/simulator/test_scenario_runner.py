"""Scenario runner: phases, reports and startup breakdown."""

from datetime import datetime, timedelta
from itertools import pairwise

import msgspec
import pytest

from dovetail.errors import ScenarioError
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import Action, Delete, Interrupt, Phase, Scenario, Until, Wait
from dovetail.simulator.scenario_runner import PhaseReport, Report, ScenarioRunner, StartupBreakdown
from tests.support.simulator.clusters import an_app, build_cluster, build_scenario, scaled

SECOND = timedelta(seconds=1)
UP = Phase(name="up", actions=(scaled(2),), until=Until(running=2, nodes=3))
DOWN = Phase(name="down", actions=(scaled(0),), until=Until(running=0, nodes=1))
LULL = Phase(name="lull", actions=(Wait(30 * SECOND),))


def report_of(*phases: Phase) -> Report:
    scenario = build_scenario(*phases)
    return ScenarioRunner(build_cluster(scenario), scenario).run()


def only(*phases: Phase) -> PhaseReport:
    """Report of the last of these phases."""
    return report_of(*phases).phases[-1]


def yields(cluster: SimulatedCluster, scenario: Scenario, every: timedelta) -> list[datetime]:
    """Times at which a runner yields."""
    times = []
    for moment in ScenarioRunner(cluster, scenario).steps(every=every):
        assert cluster.clock.now() < moment
        times.append(moment)
    return times


# Phases.


def test_phases_run_in_order_and_listeners_are_called_twice_for_each() -> None:
    scenario = build_scenario(UP, DOWN)
    runner = ScenarioRunner(build_cluster(scenario), scenario)
    calls: list[str] = []
    runner.listeners.append(lambda news: calls.append(f"{type(news).__name__} {news.name}"))

    report = runner.run()

    assert calls == ["Phase up", "PhaseReport up", "Phase down", "PhaseReport down"]
    assert [phase.name for phase in report.phases] == ["up", "down"]
    assert report.reached
    assert report.scenario == "small"
    assert runner.phase is DOWN


def test_a_phase_ends_at_the_instant_its_goal_is_reached() -> None:
    scenario = build_scenario(UP)
    cluster = build_cluster(scenario)

    ScenarioRunner(cluster, scenario).run()

    assert cluster.recorder.last_start is not None
    assert cluster.clock.now() == cluster.recorder.last_start.at


def test_a_quiet_phase_ends_exactly_when_it_has_been_quiet_for_long_enough() -> None:
    quiet = timedelta(minutes=7, milliseconds=123)
    scenario = build_scenario(UP, Phase(name="rest", until=Until(quiet=quiet)))
    cluster = build_cluster(scenario)
    runner = ScenarioRunner(cluster, scenario)

    report = runner.run()

    last_launch = max(launch.launched for launch in cluster.ec2.billing.launches)
    assert report.reached
    assert timedelta() <= cluster.clock.now() - (last_launch + quiet) < timedelta(microseconds=1)


def test_a_phase_without_a_goal_ends_after_its_actions() -> None:
    lull = only(LULL)

    assert (lull.reached, lull.virtual_seconds) == (True, 30)


def test_a_goal_that_is_reached_already_takes_no_time() -> None:
    again = only(UP, msgspec.structs.replace(UP, name="again"))

    assert (again.reached, again.virtual_seconds) == (True, 0)


def test_pending_or_terminating_pods_prolong_a_phase() -> None:
    """One runs at once, but the goal is reached only when the other has stopped."""
    down = Phase(name="fewer", actions=(scaled(1),), until=Until(running=1))

    fewer = only(UP, down)

    assert fewer.virtual_seconds == 1  # The stop latency of a container.


def test_a_goal_that_is_not_reached_fails_at_the_limit() -> None:
    never = Phase(name="never", until=Until(running=5), limit=90 * SECOND)

    report = report_of(never, LULL)

    assert [(phase.reached, phase.virtual_seconds) for phase in report.phases] == [(False, 90), (True, 30)]
    assert not report.reached


def test_a_goal_reached_at_the_very_limit_is_reached() -> None:
    took = only(UP).virtual_seconds

    exact = only(msgspec.structs.replace(UP, limit=timedelta(seconds=took)))
    short = only(msgspec.structs.replace(UP, limit=timedelta(seconds=took - 0.001)))

    assert exact.reached
    assert not short.reached


def test_waits_count_towards_the_limit() -> None:
    actions = (scaled(2), Wait(60 * SECOND))
    inside, beyond = (
        only(Phase(name="wait", actions=actions, until=Until(running=2), limit=limit * SECOND))
        for limit in (60, 59)
    )

    assert (inside.reached, inside.virtual_seconds) == (True, 60)
    assert (beyond.reached, beyond.virtual_seconds) == (False, 60)


def test_actions_after_a_wait_are_performed_after_it() -> None:
    scenario = build_scenario(
        Phase(name="late", actions=(Wait(20 * SECOND), scaled(1)), until=Until(running=1))
    )
    cluster = build_cluster(scenario)
    start = cluster.clock.now()

    [late] = ScenarioRunner(cluster, scenario).run().phases

    assert cluster.recorder.last_start is not None
    assert cluster.recorder.last_start.created == start + 20 * SECOND
    assert late.virtual_seconds > 20


def test_a_failed_action_is_reported_with_its_phase() -> None:
    scenario = build_scenario(Phase(name="oops", actions=(scaled(1, "missing"),)))

    with pytest.raises(ScenarioError, match=r'phase oops: .*"missing" not found'):
        ScenarioRunner(build_cluster(scenario), scenario).run()


# Counts.


def test_counts_are_of_one_phase_and_gauges_of_its_end() -> None:
    report = report_of(UP, DOWN)

    up, down = report.phases
    counts = [(phase.launched, phase.terminated, phase.pods_running, phase.nodes) for phase in (up, down)]
    assert counts == [(2, 0, 2, 3), (0, 2, 0, 1)]
    assert (up.instance_types, down.instance_types) == ({"m5.large": 2}, {})
    assert up.price_per_hour > down.price_per_hour > 0
    assert report.cost > 0
    assert report.invariant_violations == ()


@pytest.mark.parametrize("action", [Delete(kind="Node"), Interrupt(0.5)], ids=["delete", "storm"])
def test_evictions_are_counted(action: Action) -> None:
    moved = only(UP, Phase(name="move", actions=(action, Wait(60 * SECOND)), until=Until(running=2)))

    assert (moved.launched, moved.terminated, moved.evictions) == (1, 1, 1)


# Startup breakdown.


def startup_of(*phases: Phase) -> StartupBreakdown:
    startup = only(*phases).startup
    assert startup is not None
    return startup


def test_the_startup_breakdown_adds_up_to_the_whole_phase() -> None:
    up = only(UP)

    assert up.startup is not None
    assert sum(msgspec.structs.astuple(up.startup)) == pytest.approx(up.virtual_seconds)
    assert up.startup.booting == 2 + 5 + 1
    assert up.startup.launching == 0.4
    assert up.startup.starting == 2.5
    assert up.startup.own == pytest.approx(up.startup.deciding + up.startup.registering)
    assert up.startup.deciding <= 1.5


def test_time_before_the_pod_exists_counts_as_waiting() -> None:
    late = Phase(name="late", actions=(Wait(20 * SECOND), scaled(1)), until=Until(running=1))

    startup = startup_of(late)

    assert startup.waiting == 20
    assert startup.own < 2


def test_a_claim_older_than_the_phase_takes_no_time_to_decide() -> None:
    """The first phase ends at once; the claim is created before the second begins."""
    ask = Phase(name="ask", actions=(scaled(1), Wait(1.2 * SECOND)))
    scenario = build_scenario(ask, Phase(name="have", until=Until(running=1)))
    cluster = build_cluster(scenario)

    have = ScenarioRunner(cluster, scenario).run().phases[-1]

    assert have.startup is not None
    assert (have.startup.waiting, have.startup.deciding) == (0, 0)
    assert all(part >= 0 for part in msgspec.structs.astuple(have.startup))
    assert sum(msgspec.structs.astuple(have.startup)) == pytest.approx(have.virtual_seconds)


def test_pods_that_start_before_their_node_is_ready_give_no_negative_times() -> None:
    eager = an_app("eager", replicas=1)
    eager["spec"]["template"]["spec"] |= {"tolerations": [{"operator": "Exists"}], "hostNetwork": True}
    scenario = build_scenario(Phase(name="up", until=Until(running=1)))
    slow = msgspec.structs.replace(scenario.kubelet, node_ready=10 * SECOND)
    scenario = msgspec.structs.replace(scenario, objects=(*scenario.objects, eager), kubelet=slow)

    [up] = ScenarioRunner(build_cluster(scenario), scenario).run().phases

    assert up.startup is not None
    assert up.startup.starting == 0
    assert all(part >= 0 for part in msgspec.structs.astuple(up.startup))


def test_without_a_launch_there_is_no_startup_breakdown() -> None:
    report = report_of(UP, DOWN, LULL)

    assert [phase.startup is None for phase in report.phases] == [False, True, True]
    assert report.own_seconds == pytest.approx(
        report.phases[0].startup.own if report.phases[0].startup else 0
    )


def test_a_last_pod_on_a_node_that_was_there_before_has_no_startup_breakdown() -> None:
    again = Phase(
        name="again",
        actions=(scaled(1), Wait(60 * SECOND), scaled(0), Wait(3 * SECOND), scaled(1)),
        until=Until(running=1),
    )

    phase = only(again)

    assert (phase.launched, phase.startup) == (1, None)


# Yielding.


def test_a_runner_yields_at_the_given_interval() -> None:
    scenario = build_scenario(UP, LULL)
    cluster = build_cluster(scenario)
    start = cluster.clock.now()

    times = yields(cluster, scenario, SECOND)

    assert times[:12] == [start + number * SECOND for number in range(1, 13)]
    gaps = {later - earlier for earlier, later in pairwise(times)}
    assert max(gaps) <= 2 * SECOND


def test_a_runner_yields_during_a_wait_in_which_nothing_happens() -> None:
    scenario = build_scenario(LULL, objects=(), node_group=0)
    cluster = build_cluster(scenario)

    times = yields(cluster, scenario, 10 * SECOND)

    assert len(times) == 3


@pytest.mark.parametrize("every", [timedelta(milliseconds=100), 7 * SECOND], ids=str)
def test_yielding_changes_nothing(every: timedelta) -> None:
    scenario = build_scenario(UP, DOWN)
    unseen = ScenarioRunner(build_cluster(scenario), scenario).run()

    steps = ScenarioRunner(build_cluster(scenario), scenario).steps(every=every)
    previous = None
    while previous is None:
        try:
            next(steps)
        except StopIteration as stop:
            previous = stop.value

    assert previous == unseen


def test_calls_scheduled_by_the_caller_run_in_time() -> None:
    scenario = build_scenario(LULL)
    cluster = build_cluster(scenario)
    happened: list[datetime] = []
    steps = ScenarioRunner(cluster, scenario).steps(every=10 * SECOND)

    first = next(steps)
    cluster.clock.call_later(SECOND, lambda: happened.append(cluster.clock.now()))
    next(steps)

    assert happened
    assert first - SECOND <= happened[0] <= first + SECOND
