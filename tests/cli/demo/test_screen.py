"""The live view of a scenario: its content, and that it fits the terminal."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cli.demo.cluster_view import InstanceState, InstanceView
from dovetail.cli.demo.object_view import PodState, PodView
from dovetail.cli.demo.playback import MAX_SECONDS, AdaptiveSpeed, FixedSpeed
from dovetail.cli.demo.screen import View, frame_lines

WORKLOADS = {"shop/api": 0, "worker": 1}


def pods(count: int, workload: str = "worker", state: PodState = PodState.RUNNING) -> tuple[PodView, ...]:
    return (PodView(workload=workload, state=state),) * count


def an_instance(
    name: str = "ip-10-0-0-10",
    state: InstanceState = InstanceState.READY,
    pods_on_it: tuple[PodView, ...] = (),
) -> InstanceView:
    return InstanceView(
        name=name,
        state=state,
        instance_type="m5.large",
        zone="us-east-1a",
        capacity_type="spot",
        price=0.0365,
        pods=pods_on_it,
        cpu_share=0.5,
    )


def a_view(
    *instances: InstanceView,
    pending: tuple[PodView, ...] = (),
    events: tuple[str, ...] = (),
    max_instances: int = 0,
) -> View:
    return View(
        scenario="scale-100",
        region="us-east-1",
        seconds=74.25,
        phase="scale to 100",
        number=2,
        phases=3,
        goal="72/100 pods",
        progress=0.5,
        running=72,
        nodes=len(instances),
        price=1.25,
        spent=0.0123,
        instances=instances,
        max_instances=max(max_instances, len(instances)),
        pending=pending,
        counts={"worker": 8},
        workloads=WORKLOADS,
        events=events,
    )


def draw(view: View, width: int = 80, height: int = 24) -> str:
    return "\n".join(line.plain for line in frame_lines(view, width=width, height=height))


def test_header_shows_time_phase_progress_and_cost() -> None:
    title, phase, totals = draw(a_view(an_instance(), pending=pods(28))).splitlines()[:3]

    assert title.startswith("dovetail demo scale-100 ")
    assert title.endswith(" us-east-1  virtual time 01:14.2")
    assert phase == f"2/3 scale to 100  {'━' * 12}{'─' * 12}  72/100 pods"
    assert totals == "72 pods running, 28 pending   1 node   $1.2500/h   $0.0123 spent"


def test_instance_is_a_box_with_a_cell_for_each_pod() -> None:
    filling = pods(3, "shop/api") + pods(2) + pods(1, state=PodState.STARTING)

    cluster = draw(a_view(an_instance(pods_on_it=filling))).splitlines()[4:10]

    assert cluster == [
        "╭ ip-10-0-0-10 ─── ready ╮",
        "│ m5.large       $0.0365 │",
        "│ ■■■■■▣                 │",
        "│                        │",
        "│                        │",
        "╰ 1a spot ────── cpu 50% ╯",
    ]


def test_pods_have_the_colour_of_their_workload() -> None:
    instance = an_instance(pods_on_it=pods(1, "shop/api") + pods(1))

    lines = frame_lines(a_view(instance), width=80, height=24)

    cells = next(line for line in lines if "■■" in line.plain)
    styles = {str(span.style) for span in cells.spans if cells.plain[span.start] == "■"}
    assert len(styles) == 2


def test_instance_that_is_not_launched_yet_is_shown_as_pending() -> None:
    pending = InstanceView(name="default-x7k2p", state=InstanceState.PENDING)

    shown = draw(a_view(pending))

    assert "╭ default-x7k2p  pending ╮" in shown
    assert "requested" in shown


def test_pods_that_do_not_fit_in_a_box_are_counted() -> None:
    shown = draw(a_view(an_instance(pods_on_it=pods(200))))

    cells = "".join(line for line in shown.splitlines() if line.startswith("│ ■"))
    assert f"+{200 - cells.count('■')} " in cells


def test_instances_that_do_not_fit_as_boxes_become_lines_and_then_a_number() -> None:
    some = draw(a_view(*(an_instance(f"node-{number}") for number in range(20))))
    many = draw(a_view(*(an_instance(f"node-{number}") for number in range(500))))

    assert some.count("ready    1a m5.large") == 20
    assert "╭" not in some
    assert "more: " in many


def test_instances_stay_lines_when_their_number_falls() -> None:
    shown = draw(a_view(an_instance(), max_instances=20))

    assert "ready    1a m5.large" in shown
    assert "╭" not in shown


def test_latest_events_are_at_the_bottom() -> None:
    shown = draw(a_view(events=tuple(f"event {number}" for number in range(50))))

    assert shown.splitlines()[-2:] == ["event 48", "event 49"]


@settings(deadline=None)
@given(
    width=st.integers(1, 220),
    height=st.integers(1, 70),
    instances=st.integers(0, 60),
    each=st.integers(0, 120),
)
def test_frame_fits_any_terminal(width: int, height: int, instances: int, each: int) -> None:
    view = a_view(
        *(an_instance(pods_on_it=pods(each)) for _ in range(instances)),
        pending=pods(each),
        events=("a line that is rather long " * 5,) * 9,
    )

    lines = frame_lines(view, width=width, height=height)

    assert len(lines) == height
    assert all(line.cell_len <= width for line in lines)


@given(st.lists(st.booleans(), max_size=2000))
def test_adaptive_playback_never_takes_longer_than_its_maximum(busy: list[bool]) -> None:
    playback = AdaptiveSpeed()

    took = sum(playback.step_seconds(busy=is_busy) + playback.phase_end_seconds() for is_busy in busy)

    assert took <= MAX_SECONDS


def test_adaptive_playback_accelerates_while_nothing_happens() -> None:
    playback = AdaptiveSpeed()

    event, soon, *_, late = [playback.step_seconds(busy=at == 0) for at in range(150)]

    assert event > soon > late


def test_fixed_speed_shows_that_many_virtual_seconds_per_second() -> None:
    playback = FixedSpeed(6)

    shown = timedelta(seconds=6) / playback.step * playback.step_seconds(busy=True)

    assert round(shown, 6) == 1
