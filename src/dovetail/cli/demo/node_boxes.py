"""Instances as boxes with a cell for each pod, or as lines if there are too many."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.text import Text

from dovetail.cli.demo.cluster_view import InstanceState, InstanceView
from dovetail.cli.demo.object_view import PodState, PodView

COLOURS: Final = ("cyan", "magenta", "yellow", "blue", "green", "bright_red", "bright_cyan")
"""Colours of workloads, in order of appearance."""
CELLS: Final = {PodState.WAITING: "□", PodState.STARTING: "▣", PodState.RUNNING: "■", PodState.STOPPING: "◌"}
STYLES: Final = {
    InstanceState.PENDING: "dim yellow",
    InstanceState.BOOTING: "yellow",
    InstanceState.READY: "green",
    InstanceState.DRAINING: "magenta",
    InstanceState.LOST: "red",
}
_WIDTH: Final = 26
_GAP: Final = 1
_FRAME: Final = 3
"""Lines of a box without those for pods."""
_MAX_CELL_LINES: Final = 3
_MIN_ENTRY_WIDTH: Final = 34
"""Minimum width of an instance in the list."""
_PRICE_WIDTH: Final = 60
"""Width from which the price is shown."""


def instance_lines(
    instances: Sequence[InstanceView],
    *,
    max_instances: int,
    width: int,
    height: int,
    workloads: Mapping[str, int],
) -> list[Text]:
    """Draw instances in at most ``height`` lines.

    ``max_instances`` so far decides the layout, so that it does not jump.
    """
    if height < 1:
        return []
    columns = max(1, (width + _GAP) // (_WIDTH + _GAP))
    rows = -(-max_instances // columns)
    cell_lines = min(_MAX_CELL_LINES, height // rows - _FRAME) if rows else 1
    if width < _WIDTH or cell_lines < 1:
        return _list(instances, max_instances, (width, height), workloads)
    boxes = [_draw_box(instance, cell_lines, workloads) for instance in instances]
    lines = []
    for first in range(0, len(boxes), columns):
        for parts in zip(*boxes[first : first + columns], strict=True):
            lines.append(Text(" " * _GAP).join(parts))
    return lines


def cells(pods: Sequence[PodView], width: int, workloads: Mapping[str, int]) -> Text:
    """Draw one cell per pod in ``width`` columns, and the number of omitted pods."""
    shown = list(pods)
    overflow = ""
    if len(pods) > width:
        overflow = f"+{len(pods)}"
        shown = shown[: max(0, width - len(overflow))]
        overflow = f"+{len(pods) - len(shown)}"
    text = Text()
    for pod in shown:
        text.append(CELLS[pod.state], style=colour(pod.workload, workloads))
    return text.append(overflow)


def colour(workload: str, workloads: Mapping[str, int]) -> str:
    """Return the colour of a workload."""
    return COLOURS[workloads[workload] % len(COLOURS)]


def _draw_box(instance: InstanceView, cell_lines: int, workloads: Mapping[str, int]) -> list[Text]:
    style, inner = STYLES[instance.state], _WIDTH - 4
    price = f"${instance.price:.4f}" if instance.instance_type else ""
    kind = instance.instance_type or "requested"
    lines = [_border("╭", instance.name, str(instance.state), "╮", style)]
    bodies = [Text(kind.ljust(inner - len(price)) + price)]
    pods = cells(instance.pods, inner * cell_lines, workloads)
    bodies.extend(pods[row * inner : (row + 1) * inner] for row in range(cell_lines))
    for body in bodies:
        body.truncate(inner, pad=True)
        lines.append(Text.assemble(("│ ", style), body, (" │", style)))
    location = f"{_short(instance.zone)} {instance.capacity_type}".strip()
    cpu_share = f"cpu {instance.cpu_share:.0%}" if instance.pods else ""
    lines.append(_border("╰", location, cpu_share, "╯", style))
    return lines


def _border(left_corner: str, name: str, note: str, right_corner: str, style: str) -> Text:
    """Draw a border with a name and a note."""
    max_name = _WIDTH - 4 - (len(note) + 2 if note else 0)
    name = name if len(name) <= max_name else name[: max_name - 1] + "…"
    text = Text(left_corner, style=style)
    text.append(f" {name} " if name else "", style="bold" if left_corner == "╭" else "")
    tail = f" {note} {right_corner}" if note else right_corner
    text.append("─" * (_WIDTH - len(text) - len(tail)) + tail)
    return text


def _short(zone: str) -> str:
    """Return the short name of a zone: 1a for us-east-1a."""
    return zone.rpartition("-")[2]


def _list(
    instances: Sequence[InstanceView], max_instances: int, size: tuple[int, int], workloads: Mapping[str, int]
) -> list[Text]:
    """Draw one line per instance, in several columns if needed."""
    width, height = size
    columns = max(1, min(width // (_MIN_ENTRY_WIDTH + _GAP), -(-max_instances // height)))
    entry_width = (width - _GAP * (columns - 1)) // columns
    capacity = columns * height
    shown = instances if len(instances) <= capacity else instances[: capacity - 1]
    entries = [_entry(instance, entry_width, workloads) for instance in shown]
    if len(shown) < len(instances):
        entries.append(Text(f"and {_summary(instances[len(shown) :])}", style="dim"))
    for entry in entries:
        entry.truncate(entry_width, overflow="ellipsis", pad=True)
    lines = -(-len(entries) // columns)
    return [Text(" " * _GAP).join(entries[row::lines]) for row in range(lines)]


def _entry(instance: InstanceView, width: int, workloads: Mapping[str, int]) -> Text:
    text = Text.assemble(
        (f"{instance.state:9}", STYLES[instance.state]),
        f"{_short(instance.zone):3}{instance.instance_type:12.12} ",
    )
    if width >= _PRICE_WIDTH:
        text.append(
            f"{instance.capacity_type:9} ${instance.price:<7.4f} " if instance.instance_type else " " * 19
        )
    return text.append(cells(instance.pods, max(4, width - len(text)), workloads))


def _summary(instances: Iterable[InstanceView]) -> str:
    states = Counter(instance.state for instance in instances)
    parts = (f"{states[state]} {state}" for state in InstanceState if states[state])
    return f"{states.total()} more: {', '.join(parts)}"
