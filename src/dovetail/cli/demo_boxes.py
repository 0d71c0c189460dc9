"""Machines as boxes that fill with pods; as single lines where there are too many."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.text import Text

from dovetail.cli.demo_scene import Machine, MachineState
from dovetail.cli.demo_seen import PodSeen, PodState

COLOURS: Final = ("cyan", "magenta", "yellow", "blue", "green", "bright_red", "bright_cyan")
"""Of workloads, in the order of their appearance."""
CELLS: Final = {
    PodState.WAITING: "□",
    PodState.STARTING: "▣",
    PodState.RUNNING: "■",
    PodState.STOPPING: "◌",
}
STYLES: Final = {
    MachineState.PENDING: "dim yellow",
    MachineState.BOOTING: "yellow",
    MachineState.READY: "green",
    MachineState.DRAINING: "magenta",
    MachineState.LOST: "red",
}
_WIDTH: Final = 26
_GAP: Final = 1
_FRAME: Final = 3
"""Lines of a box beside those for pods."""
_MOST_CELL_LINES: Final = 3


def machine_lines(
    machines: Sequence[Machine], *, most: int, width: int, height: int, workloads: Mapping[str, int]
) -> list[Text]:
    """Draw machines in at most ``height`` lines.

    How is decided by ``most``, the most machines so far, so that the picture
    does not jump to and fro.
    """
    if height < 1:
        return []
    across = max(1, (width + _GAP) // (_WIDTH + _GAP))
    rows = -(-most // across)
    cell_lines = min(_MOST_CELL_LINES, height // rows - _FRAME) if rows else 1
    if width < _WIDTH or cell_lines < 1:
        return _list(machines, height, width, workloads)
    boxes = [_box(one, cell_lines, workloads) for one in machines]
    lines = []
    for first in range(0, len(boxes), across):
        for parts in zip(*boxes[first : first + across], strict=True):
            lines.append(Text(" " * _GAP).join(parts))
    return lines


def cells(pods: Sequence[PodSeen], room: int, workloads: Mapping[str, int]) -> Text:
    """Draw one cell a pod in ``room`` columns; the rest as a number."""
    shown = list(pods)
    left = ""
    if len(pods) > room:
        left = f"+{len(pods)}"
        shown = shown[: max(0, room - len(left))]
        left = f"+{len(pods) - len(shown)}"
    text = Text()
    for pod in shown:
        text.append(CELLS[pod.state], style=colour(pod.workload, workloads))
    return text.append(left)


def colour(workload: str, workloads: Mapping[str, int]) -> str:
    """Return the colour that a workload keeps."""
    return COLOURS[workloads[workload] % len(COLOURS)]


def _box(one: Machine, cell_lines: int, workloads: Mapping[str, int]) -> list[Text]:
    style, inner = STYLES[one.state], _WIDTH - 4
    price = f"${one.price:.4f}" if one.instance_type else ""
    kind = one.instance_type or "asking EC2"
    lines = [_border("╭", one.name, str(one.state), "╮", style)]
    bodies = [Text(kind.ljust(inner - len(price)) + price)]
    pods = cells(one.pods, inner * cell_lines, workloads)
    bodies.extend(pods[at * inner : (at + 1) * inner] for at in range(cell_lines))
    for body in bodies:
        body.truncate(inner, pad=True)
        lines.append(Text.assemble(("│ ", style), body, (" │", style)))
    where = f"{_short(one.zone)} {one.capacity_type}".strip()
    filled = f"cpu {one.filled:.0%}" if one.pods else ""
    lines.append(_border("╰", where, filled, "╯", style))
    return lines


def _border(left: str, name: str, note: str, right: str, style: str) -> Text:
    """Draw a border with words in it: what it is, and how it is."""
    room = _WIDTH - 4 - (len(note) + 2 if note else 0)
    name = name if len(name) <= room else name[: room - 1] + "…"
    text = Text(left, style=style)
    text.append(f" {name} " if name else "", style="bold" if left == "╭" else "")
    tail = f" {note} {right}" if note else right
    text.append("─" * (_WIDTH - len(text) - len(tail)) + tail)
    return text


def _short(zone: str) -> str:
    """Return the end of a zone's name that differs within a region: 1a of us-east-1a."""
    return zone.rpartition("-")[2]


def _list(
    machines: Sequence[Machine], height: int, width: int, workloads: Mapping[str, int]
) -> list[Text]:
    shown = machines if len(machines) <= height else machines[: height - 1]
    lines = []
    for one in shown:
        line = Text.assemble(
            (f"{one.state:9} ", STYLES[one.state]),
            f"{_short(one.zone):3}{one.instance_type:15.15} {one.capacity_type:9} ",
            f"${one.price:<7.4f} " if one.instance_type else " " * 9,
        )
        line.append(cells(one.pods, max(4, width - len(line)), workloads))
        lines.append(line)
    if len(shown) < len(machines):
        lines.append(Text(f"and {_summary(machines[len(shown) :])}", style="dim"))
    return lines


def _summary(machines: Iterable[Machine]) -> str:
    states = Counter(one.state for one in machines)
    parts = (f"{states[state]} {state}" for state in MachineState if states[state])
    return f"{states.total()} more: {', '.join(parts)}"
