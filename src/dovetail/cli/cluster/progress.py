"""Progress of a run: a bar with the remaining time, or plain lines if piped."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from dovetail.cli.output.console import may_animate, write_note
from dovetail.eks.apply.executor import ProgressListener
from dovetail.eks.plan.planner import Action, Step, critical_path_seconds
from dovetail.eks.plan.resource_kinds import KINDS

_PAST_TENSE: Final = {Action.CREATE: "created", Action.UPDATE: "updated", Action.DELETE: "deleted"}
_MAX_NAMED_STEPS: Final = 3
"""Running steps that the bar names; the others are counted."""


class LineProgress(ProgressListener):
    """Writes one line for each step that is done."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._total = len(steps)
        self._done = 0

    def step_done(self, step: Step) -> None:
        self._done += 1
        write_note(f"[{self._done}/{self._total}] {_PAST_TENSE[step.action]} {_resource_name(step)}")


class BarProgress(ProgressListener):
    """Shows a bar of seconds: one cluster takes as long as a hundred roles."""

    def __init__(self, steps: Sequence[Step], progress: Progress) -> None:
        self._progress = progress
        self._waiting = {step.id: step for step in steps}
        self._running: dict[str, str] = {}
        self._task: TaskID = progress.add_task(
            "", total=sum(step.seconds for step in steps), left="", doing=""
        )
        self._show()

    def step_started(self, step: Step) -> None:
        self._running[step.id] = _resource_name(step)
        self._show()

    def step_done(self, step: Step) -> None:
        self._running.pop(step.id, None)
        self._waiting.pop(step.id, None)
        self._progress.advance(self._task, step.seconds)
        self._show()

    def _show(self) -> None:
        seconds = critical_path_seconds(tuple(self._waiting.values()))
        names = ", ".join(list(self._running.values())[:_MAX_NAMED_STEPS])
        more = len(self._running) - _MAX_NAMED_STEPS
        self._progress.update(
            self._task,
            left=f"about {format_duration(seconds)} left" if seconds else "",
            doing=names + (f" and {more} more" if more > 0 else ""),
        )


@contextmanager
def show_progress(steps: Sequence[Step]) -> Iterator[ProgressListener]:
    """Yield a listener that shows progress while steps are executed."""
    if not may_animate():
        yield LineProgress(steps)
        return
    columns = (BarColumn(), TextColumn("{task.fields[left]}"), TextColumn("{task.fields[doing]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield BarProgress(steps, progress)


def _resource_name(step: Step) -> str:
    return f"{KINDS[step.kind].display_name} {step.name}"


def format_duration(seconds: int) -> str:
    """Return a duration in minutes, or in seconds if it is short."""
    return f"{round(seconds / 60)} min" if seconds >= 90 else f"{seconds} s"
