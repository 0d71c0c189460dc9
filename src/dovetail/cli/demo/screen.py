"""The live view of a scenario, as a pure function of its state."""

from collections.abc import Mapping
from typing import Final

import msgspec
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from dovetail.cli.demo.cluster_view import InstanceView
from dovetail.cli.demo.node_boxes import CELLS, cells, colour, instance_lines
from dovetail.cli.demo.object_view import PodState, PodView
from dovetail.codec.text.suggestions import pluralize

_EVENTS: Final = 8
"""Maximum number of log lines."""
_BAR: Final = 24
_MIN_LEGEND_HEIGHT: Final = 18
"""Lines; smaller terminals show no legend."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """State of a scenario at one instant."""

    scenario: str
    region: str
    seconds: float
    """Virtual seconds since the start."""
    phase: str
    number: int
    phases: int
    goal: str
    """Goal of the phase, as text."""
    progress: float
    """From 0 to 1."""
    running: int
    nodes: int
    price: float
    """USD per hour."""
    spent: float
    instances: tuple[InstanceView, ...]
    max_instances: int
    """Maximum number of instances so far."""
    pending: tuple[PodView, ...]
    counts: Mapping[str, int]
    """Workload → pods."""
    workloads: Mapping[str, int]
    """Workload → number, which determines its colour."""
    events: tuple[str, ...]


class Frame:
    """A view, drawn to fit the current size of the terminal."""

    def __init__(self, view: View) -> None:
        self._view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        yield from frame_lines(self._view, width=options.max_width, height=height)


def frame_lines(view: View, *, width: int, height: int) -> list[Text]:
    """Draw a view in exactly ``height`` lines, none wider than ``width``."""
    head = [_title(view, width), _phase(view), _totals(view)]
    foot = [_pending(view, width)]
    log = max(1, min(_EVENTS, height // 4))
    if height >= _MIN_LEGEND_HEIGHT:
        head.append(Text())
        foot = [Text(), *foot, _legend(view), Text("─" * width, style="dim")]
    instance_height = height - len(head) - len(foot) - log
    instances = instance_lines(
        view.instances,
        max_instances=view.max_instances,
        width=width,
        height=instance_height,
        workloads=view.workloads,
    )
    instances += [Text()] * (instance_height - len(instances))
    events = [Text(event, style="dim") for event in view.events[-log:]]
    events += [Text()] * (log - len(events))
    lines = [*head, *instances, *foot, *events][:height]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return lines


def _title(view: View, width: int) -> Text:
    minutes, seconds = divmod(view.seconds, 60)
    title, clock = f"dovetail demo {view.scenario}", f"{minutes:02.0f}:{seconds:04.1f}"
    max_details = width - len(title) - 1
    details = f"{view.region}  virtual time {clock}"
    details = details if len(details) <= max_details else clock
    return Text.assemble((title, "bold"), " ", details.rjust(max(0, max_details)))


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
    pods = f"{pluralize(view.running, 'pod')} running, {len(view.pending)} pending"
    return Text.assemble(
        f"{pods}   {pluralize(view.nodes, 'node')}   ",
        (f"${view.price:.4f}/h", "bold green"),
        f"   ${view.spent:.4f} spent",
    )


def _pending(view: View, width: int) -> Text:
    if not view.pending:
        return Text("no pending pods", style="dim")
    text = Text("pending ")
    return text.append(cells(view.pending, width - len(text), view.workloads))


def _legend(view: View) -> Text:
    text = Text()
    for workload in view.workloads:
        style = colour(workload, view.workloads)
        text.append(f"{CELLS[PodState.RUNNING]} ", style=style)
        text.append(f"{workload} {view.counts.get(workload, 0)}   ")
    states = (f"{CELLS[state]} {state}" for state in PodState)
    return text.append("  ".join(states), style="dim")
