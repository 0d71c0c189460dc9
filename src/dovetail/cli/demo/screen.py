"""The live picture of a scenario: a pure function of what there is to see."""

from collections.abc import Mapping
from typing import Final

import msgspec
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from dovetail.cli.demo.cluster_view import Machine
from dovetail.cli.demo.node_boxes import CELLS, cells, colour, machine_lines
from dovetail.cli.demo.object_view import PodSeen, PodState
from dovetail.codec.text.suggestions import count_of

_EVENTS: Final = 8
"""The most log lines shown."""
_BAR: Final = 24
_ROOMY: Final = 18
"""Lines; on a terminal with fewer, machines come before niceties."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of a scenario."""

    scenario: str
    region: str
    seconds: float
    """Virtual, since the start."""
    phase: str
    number: int
    phases: int
    goal: str
    """What the phase waits for, in words."""
    progress: float
    """How much of it is there, up to 1."""
    running: int
    nodes: int
    price: float
    """USD per hour."""
    spent: float
    machines: tuple[Machine, ...]
    most: int
    """The most machines there ever were."""
    waiting: tuple[PodSeen, ...]
    counts: Mapping[str, int]
    """Workload → pods."""
    workloads: Mapping[str, int]
    """Workload → its number, which gives it its colour."""
    events: tuple[str, ...]


class Picture:
    """A view, drawn to fit whatever size the terminal has now."""

    def __init__(self, view: View) -> None:
        self._view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        yield from picture_lines(self._view, width=options.max_width, height=height)


def picture_lines(view: View, *, width: int, height: int) -> list[Text]:
    """Draw a view in exactly ``height`` lines, none wider than ``width``."""
    head = [_title(view, width), _phase(view), _totals(view)]
    foot = [_waiting(view, width)]
    log = max(1, min(_EVENTS, height // 4))
    if height >= _ROOMY:
        head.append(Text())
        foot = [Text(), *foot, _legend(view), Text("─" * width, style="dim")]
    room = height - len(head) - len(foot) - log
    machines = machine_lines(
        view.machines, most=view.most, width=width, height=room, workloads=view.workloads
    )
    machines += [Text()] * (room - len(machines))
    events = [Text(event, style="dim") for event in view.events[-log:]]
    events += [Text()] * (log - len(events))
    lines = [*head, *machines, *foot, *events][:height]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return lines


def _title(view: View, width: int) -> Text:
    minutes, seconds = divmod(view.seconds, 60)
    left, clock = f"dovetail demo {view.scenario}", f"{minutes:02.0f}:{seconds:04.1f}"
    room = width - len(left) - 1
    right = f"{view.region}  virtual time {clock}"
    right = right if len(right) <= room else clock
    return Text.assemble((left, "bold"), " ", right.rjust(max(0, room)))


def _phase(view: View) -> Text:
    filled = round(_BAR * max(0.0, min(1.0, view.progress)))
    return Text.assemble(
        f"{view.number}/{view.phases} ",
        (view.phase, "bold cyan"),
        "  ",
        ("━" * filled, "cyan"),
        ("─" * (_BAR - filled), "dim"),
        f"  {view.goal}",
    )


def _totals(view: View) -> Text:
    pods = f"{count_of(view.running, 'pod')} running, {len(view.waiting)} waiting"
    return Text.assemble(
        f"{pods}   {count_of(view.nodes, 'node')}   ",
        (f"${view.price:.4f}/h", "bold green"),
        f"   ${view.spent:.4f} spent",
    )


def _waiting(view: View, width: int) -> Text:
    if not view.waiting:
        return Text("no pod waits", style="dim")
    text = Text("waiting ")
    return text.append(cells(view.waiting, width - len(text), view.workloads))


def _legend(view: View) -> Text:
    text = Text()
    for workload in view.workloads:
        style = colour(workload, view.workloads)
        text.append(f"{CELLS[PodState.RUNNING]} ", style=style)
        text.append(f"{workload} {view.counts.get(workload, 0)}   ")
    states = (f"{CELLS[state]} {state}" for state in PodState)
    return text.append("  ".join(states), style="dim")
