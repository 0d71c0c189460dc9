"""Machines as boxes that fill with pods; as single lines where there are too many."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.text import Text

from dovetail.cli.demo.cluster_view import Machine, MachineState
from dovetail.cli.demo.object_view import PodSeen, PodState

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
_NARROWEST: Final = 34
"""Columns for a machine in the list …"""
_WIDE: Final = 60
"""… and from how many on there is room for its price."""


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
        return _list(machines, most, (width, height), workloads)
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
    machines: Sequence[Machine], most: int, size: tuple[int, int], workloads: Mapping[str, int]
) -> list[Text]:
    """Draw a line a machine, in several columns if they would not fit otherwise."""
    width, height = size
    across = max(1, min(width // (_NARROWEST + _GAP), -(-most // height)))
    each = (width - _GAP * (across - 1)) // across
    room = across * height
    shown = machines if len(machines) <= room else machines[: room - 1]
    entries = [_entry(one, each, workloads) for one in shown]
    if len(shown) < len(machines):
        entries.append(Text(f"and {_summary(machines[len(shown) :])}", style="dim"))
    for entry in entries:
        entry.truncate(each, overflow="ellipsis", pad=True)
    lines = -(-len(entries) // across)
    return [Text(" " * _GAP).join(entries[at::lines]) for at in range(lines)]


def _entry(one: Machine, width: int, workloads: Mapping[str, int]) -> Text:
    text = Text.assemble(
        (f"{one.state:9}", STYLES[one.state]), f"{_short(one.zone):3}{one.instance_type:12.12} "
    )
    if width >= _WIDE:
        text.append(f"{one.capacity_type:9} ${one.price:<7.4f} " if one.instance_type else " " * 19)
    return text.append(cells(one.pods, max(4, width - len(text)), workloads))


def _summary(machines: Iterable[Machine]) -> str:
    states = Counter(one.state for one in machines)
    parts = (f"{states[state]} {state}" for state in MachineState if states[state])
    return f"{states.total()} more: {', '.join(parts)}"
