"""Scenarios run: phases in order, what each came to, and where the time went."""

from datetime import datetime, timedelta
from itertools import pairwise

import msgspec
import pytest

from dovetail.errors import ScenarioError
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario.model import (
    Action,
    Delete,
    Interrupt,
    Phase,
    Scenario,
    Until,
    Wait,
)
from dovetail.simulator.scenario_runner import Driver, PhaseReport, Report, Way
from tests.support.boxes import a_box, a_story, an_app, scaled

SECOND = timedelta(seconds=1)
UP = Phase(name="up", actions=(scaled(2),), until=Until(running=2, nodes=3))
DOWN = Phase(name="down", actions=(scaled(0),), until=Until(running=0, nodes=1))
LULL = Phase(name="lull", actions=(Wait(30 * SECOND),))


def report_of(*phases: Phase) -> Report:
    story = a_story(*phases)
    return Driver(a_box(story), story).run()


def only(*phases: Phase) -> PhaseReport:
    """What the last of these phases came to."""
    return report_of(*phases).phases[-1]


def looks(box: Box, story: Scenario, every: timedelta) -> list[datetime]:
    """When a driver stops to be looked at."""
    seen = []
    for moment in Driver(box, story).steps(every=every):
        assert box.engine.now() < moment
        seen.append(moment)
    return seen


# Phases.


def test_phases_are_played_in_order_and_each_is_told_of_twice() -> None:
    story = a_story(UP, DOWN)
    driver = Driver(a_box(story), story)
    told: list[str] = []
    driver.listeners.append(lambda news: told.append(f"{type(news).__name__} {news.name}"))

    report = driver.run()

    assert told == ["Phase up", "PhaseReport up", "Phase down", "PhaseReport down"]
    assert [one.name for one in report.phases] == ["up", "down"]
    assert report.reached
    assert report.scenario == "small"
    assert driver.phase is DOWN


def test_a_phase_is_over_at_the_instant_at_which_its_goal_is_reached() -> None:
    story = a_story(UP)
    box = a_box(story)

    Driver(box, story).run()

    assert box.chronicle.last_start is not None
    assert box.engine.now() == box.chronicle.last_start.at


def test_a_phase_without_a_goal_is_over_when_everything_is_done() -> None:
    lull = only(LULL)

    assert (lull.reached, lull.virtual_seconds) == (True, 30)


def test_a_goal_that_is_there_already_takes_no_time() -> None:
    again = only(UP, msgspec.structs.replace(UP, name="again"))

    assert (again.reached, again.virtual_seconds) == (True, 0)


def test_pods_that_wait_or_stop_keep_a_phase_going() -> None:
    """One runs at once, but the goal is met only when the other has stopped."""
    down = Phase(name="fewer", actions=(scaled(1),), until=Until(running=1))

    fewer = only(UP, down)

    assert fewer.virtual_seconds == 1  # The time in which a container stops.


def test_a_goal_that_is_not_reached_fails_at_the_limit() -> None:
    never = Phase(name="never", until=Until(running=5), limit=90 * SECOND)

    report = report_of(never, LULL)

    assert [(one.reached, one.virtual_seconds) for one in report.phases] == [
        (False, 90),
        (True, 30),
    ]
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


def test_what_comes_after_a_wait_is_done_after_it() -> None:
    story = a_story(
        Phase(name="late", actions=(Wait(20 * SECOND), scaled(1)), until=Until(running=1))
    )
    box = a_box(story)
    start = box.engine.now()

    [late] = Driver(box, story).run().phases

    assert box.chronicle.last_start is not None
    assert box.chronicle.last_start.made == start + 20 * SECOND
    assert late.virtual_seconds > 20


def test_what_cannot_be_done_is_told_with_the_phase() -> None:
    story = a_story(Phase(name="oops", actions=(scaled(1, "nobody"),)))

    with pytest.raises(ScenarioError, match=r'phase oops: .*"nobody" not found'):
        Driver(a_box(story), story).run()


# Counts.


def test_counts_are_of_one_phase_and_standings_of_its_end() -> None:
    report = report_of(UP, DOWN)

    up, down = report.phases
    counts = [(one.launched, one.terminated, one.pods_running, one.nodes) for one in (up, down)]
    assert counts == [(2, 0, 2, 3), (0, 2, 0, 1)]
    assert (up.instance_types, down.instance_types) == ({"m5.large": 2}, {})
    assert up.price_per_hour > down.price_per_hour > 0
    assert report.cost > 0
    assert report.invariant_violations == ()


@pytest.mark.parametrize("action", [Delete(kind="Node"), Interrupt(0.5)], ids=["delete", "storm"])
def test_evictions_are_counted(action: Action) -> None:
    moved = only(
        UP, Phase(name="move", actions=(action, Wait(60 * SECOND)), until=Until(running=2))
    )

    assert (moved.launched, moved.terminated, moved.evictions) == (1, 1, 1)


# Where the time went.


def way_of(*phases: Phase) -> Way:
    way = only(*phases).way
    assert way is not None
    return way


def test_the_way_of_the_last_pod_adds_up_to_the_whole_phase() -> None:
    up = only(UP)

    assert up.way is not None
    assert sum(msgspec.structs.astuple(up.way)) == pytest.approx(up.virtual_seconds)
    assert up.way.booting == 2 + 5 + 1
    assert up.way.buying == 0.4
    assert up.way.starting == 2.5
    assert up.way.own == pytest.approx(up.way.deciding + up.way.joining)
    assert up.way.deciding <= 1.5


def test_what_is_waited_for_before_the_pod_is_there_is_nobodys_time() -> None:
    late = Phase(name="late", actions=(Wait(20 * SECOND), scaled(1)), until=Until(running=1))

    way = way_of(late)

    assert way.waiting == 20
    assert way.own < 2


def test_a_claim_that_is_older_than_the_phase_takes_no_time_to_decide() -> None:
    """The first phase ends at once; the claim is made before the second begins."""
    ask = Phase(name="ask", actions=(scaled(1), Wait(1.2 * SECOND)))
    story = a_story(ask, Phase(name="have", until=Until(running=1)))
    box = a_box(story)

    have = Driver(box, story).run().phases[-1]

    assert have.way is not None
    assert (have.way.waiting, have.way.deciding) == (0, 0)
    assert all(part >= 0 for part in msgspec.structs.astuple(have.way))
    assert sum(msgspec.structs.astuple(have.way)) == pytest.approx(have.virtual_seconds)


def test_pods_that_start_on_a_node_before_it_is_ready_make_no_part_negative() -> None:
    eager = an_app("eager", replicas=1)
    eager["spec"]["template"]["spec"] |= {
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": True,
    }
    story = a_story(Phase(name="up", until=Until(running=1)))
    slow = msgspec.structs.replace(story.kubelet, node_ready=10 * SECOND)
    story = msgspec.structs.replace(story, objects=(*story.objects, eager), kubelet=slow)

    [up] = Driver(a_box(story), story).run().phases

    assert up.way is not None
    assert up.way.starting == 0
    assert all(part >= 0 for part in msgspec.structs.astuple(up.way))


def test_where_nothing_was_bought_there_is_no_way() -> None:
    report = report_of(UP, DOWN, LULL)

    assert [one.way is None for one in report.phases] == [False, True, True]
    assert report.own_seconds == pytest.approx(
        report.phases[0].way.own if report.phases[0].way else 0
    )


# Looking on.


def test_a_driver_stops_to_be_looked_at_as_often_as_it_is_told() -> None:
    story = a_story(UP, LULL)
    box = a_box(story)
    start = box.engine.now()

    seen = looks(box, story, SECOND)

    assert seen[:12] == [start + number * SECOND for number in range(1, 13)]
    gaps = {later - earlier for earlier, later in pairwise(seen)}
    assert max(gaps) <= 2 * SECOND


def test_a_wait_in_which_nothing_happens_is_looked_at_just_the_same() -> None:
    story = a_story(LULL, objects=(), home=0)
    box = a_box(story)

    seen = looks(box, story, 10 * SECOND)

    assert len(seen) == 3


@pytest.mark.parametrize("every", [timedelta(milliseconds=100), 7 * SECOND], ids=str)
def test_being_looked_at_changes_nothing(every: timedelta) -> None:
    story = a_story(UP, DOWN)
    unseen = Driver(a_box(story), story).run()

    steps = Driver(a_box(story), story).steps(every=every)
    seen = None
    while seen is None:
        try:
            next(steps)
        except StopIteration as stop:
            seen = stop.value

    assert seen == unseen


def test_what_an_onlooker_sets_off_happens_in_its_time() -> None:
    story = a_story(LULL)
    box = a_box(story)
    happened: list[datetime] = []
    steps = Driver(box, story).steps(every=10 * SECOND)

    first = next(steps)
    box.engine.after(SECOND, lambda: happened.append(box.engine.now()))
    next(steps)

    assert happened
    assert first - SECOND <= happened[0] <= first + SECOND
