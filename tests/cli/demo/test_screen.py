"""The picture of a scenario: what it shows, and that it fits."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cli.demo.cluster_view import Machine, MachineState
from dovetail.cli.demo.object_view import PodSeen, PodState
from dovetail.cli.demo.playback import LONGEST, Steady, Warping
from dovetail.cli.demo.screen import View, picture_lines

WORKLOADS = {"shop/api": 0, "worker": 1}


def pods(
    count: int, workload: str = "worker", state: PodState = PodState.RUNNING
) -> tuple[PodSeen, ...]:
    return (PodSeen(workload=workload, state=state),) * count


def a_machine(
    name: str = "ip-10-0-0-10",
    state: MachineState = MachineState.READY,
    on_it: tuple[PodSeen, ...] = (),
) -> Machine:
    return Machine(
        name=name,
        state=state,
        instance_type="m5.large",
        zone="us-east-1a",
        capacity_type="spot",
        price=0.0365,
        pods=on_it,
        filled=0.5,
    )


def a_view(
    *machines: Machine,
    waiting: tuple[PodSeen, ...] = (),
    events: tuple[str, ...] = (),
    most: int = 0,
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
        nodes=len(machines),
        price=1.25,
        spent=0.0123,
        machines=machines,
        most=max(most, len(machines)),
        waiting=waiting,
        counts={"worker": 8},
        workloads=WORKLOADS,
        events=events,
    )


def drawn(view: View, width: int = 80, height: int = 24) -> str:
    return "\n".join(line.plain for line in picture_lines(view, width=width, height=height))


def test_the_head_tells_time_phase_progress_and_cost() -> None:
    title, phase, totals = drawn(a_view(a_machine(), waiting=pods(28))).splitlines()[:3]

    assert title.startswith("dovetail demo scale-100 ")
    assert title.endswith(" us-east-1  virtual time 01:14.2")
    assert phase == f"2/3 scale to 100  {'━' * 12}{'─' * 12}  72/100 pods"
    assert totals == "72 pods running, 28 waiting   1 node   $1.2500/h   $0.0123 spent"


def test_a_machine_is_a_box_with_a_cell_for_each_pod() -> None:
    filling = pods(3, "shop/api") + pods(2) + pods(1, state=PodState.STARTING)

    box = drawn(a_view(a_machine(on_it=filling))).splitlines()[4:10]

    assert box == [
        "╭ ip-10-0-0-10 ─── ready ╮",
        "│ m5.large       $0.0365 │",
        "│ ■■■■■▣                 │",
        "│                        │",
        "│                        │",
        "╰ 1a spot ────── cpu 50% ╯",
    ]


def test_pods_have_the_colour_of_their_workload() -> None:
    machine = a_machine(on_it=pods(1, "shop/api") + pods(1))

    lines = picture_lines(a_view(machine), width=80, height=24)

    cells = next(line for line in lines if "■■" in line.plain)
    styles = {str(span.style) for span in cells.spans if cells.plain[span.start] == "■"}
    assert len(styles) == 2


def test_a_machine_that_ec2_has_not_sold_yet_says_so() -> None:
    asked = Machine(name="default-x7k2p", state=MachineState.PENDING)

    shown = drawn(a_view(asked))

    assert "╭ default-x7k2p  pending ╮" in shown
    assert "asking EC2" in shown


def test_pods_beyond_the_room_of_a_box_are_counted() -> None:
    shown = drawn(a_view(a_machine(on_it=pods(200))))

    cells = "".join(line for line in shown.splitlines() if line.startswith("│ ■"))
    assert f"+{200 - cells.count('■')} " in cells


def test_machines_that_do_not_fit_as_boxes_become_lines_and_then_a_number() -> None:
    some = drawn(a_view(*(a_machine(f"node-{number}") for number in range(20))))
    many = drawn(a_view(*(a_machine(f"node-{number}") for number in range(500))))

    assert some.count("ready    1a m5.large") == 20
    assert "╭" not in some
    assert "more: " in many


def test_the_way_machines_are_drawn_does_not_change_back_when_they_become_few() -> None:
    shown = drawn(a_view(a_machine(), most=20))

    assert "ready    1a m5.large" in shown
    assert "╭" not in shown


def test_the_latest_events_are_at_the_bottom() -> None:
    shown = drawn(a_view(events=tuple(f"event {number}" for number in range(50))))

    assert shown.splitlines()[-2:] == ["event 48", "event 49"]


@settings(deadline=None)
@given(
    width=st.integers(1, 220),
    height=st.integers(1, 70),
    machines=st.integers(0, 60),
    each=st.integers(0, 120),
)
def test_a_picture_fits_any_terminal(width: int, height: int, machines: int, each: int) -> None:
    view = a_view(
        *(a_machine(on_it=pods(each)) for _ in range(machines)),
        waiting=pods(each),
        events=("a line that is rather long " * 5,) * 9,
    )

    lines = picture_lines(view, width=width, height=height)

    assert len(lines) == height
    assert all(line.cell_len <= width for line in lines)


@given(st.lists(st.booleans(), max_size=2000))
def test_a_picture_at_its_own_pace_never_takes_longer_than_promised(busy: list[bool]) -> None:
    pace = Warping()

    took = sum(pace.lasts(busy=one) + pace.dwells() for one in busy)

    assert took <= LONGEST


def test_waits_pass_faster_the_longer_they_are_and_what_happens_is_shown_slowly() -> None:
    pace = Warping()

    event, soon, *_, late = [pace.lasts(busy=at == 0) for at in range(150)]

    assert event > soon > late


def test_a_steady_pace_shows_so_many_virtual_seconds_a_second() -> None:
    pace = Steady(6)

    shown = timedelta(seconds=6) / pace.step * pace.lasts(busy=True)

    assert round(shown, 6) == 1
