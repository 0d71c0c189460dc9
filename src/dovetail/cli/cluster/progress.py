"""How far a run has come: a bar with the time left, or plain lines when piped."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from dovetail.cli.output.console import say
from dovetail.eks.apply.executor import Teller, seconds_of
from dovetail.eks.plan.planner import Step, Verb
from dovetail.eks.plan.resource_kinds import KINDS

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
_SLOW: Final = {name: facts.slow for name, facts in KINDS.items()}
_DONE: Final = {Verb.CREATE: "made", Verb.CHANGE: "changed", Verb.REMOVE: "removed"}


class Lines(Teller):
    """One line for each step that is done."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._all = len(steps)
        self._done = 0

    def done(self, step: Step) -> None:
        self._done += 1
        say(f"[{self._done}/{self._all}] {_DONE[step.verb]} {_called(step)}")


class Bar(Teller):
    """A bar that counts seconds, since a cluster takes as long as a hundred roles."""

    def __init__(self, steps: Sequence[Step], progress: Progress) -> None:
        self._progress = progress
        self._waiting = {one.id: one for one in steps}
        self._under_way: dict[str, str] = {}
        self._task: TaskID = progress.add_task(
            "", total=sum(_SLOW[one.kind] for one in steps), left="", doing=""
        )
        self._show()

    def begun(self, step: Step) -> None:
        self._under_way[step.id] = _called(step)
        self._show()

    def done(self, step: Step) -> None:
        self._under_way.pop(step.id, None)
        self._waiting.pop(step.id, None)
        self._progress.advance(self._task, _SLOW[step.kind])
        self._show()

    def _show(self) -> None:
        left = seconds_of(tuple(self._waiting.values()), _SLOW)
        doing = ", ".join(list(self._under_way.values())[:3])
        more = len(self._under_way) - 3
        self._progress.update(
            self._task,
            left=f"about {_minutes(left)} left" if left else "",
            doing=doing + (f" and {more} more" if more > 0 else ""),
        )


@contextmanager
def told(steps: Sequence[Step]) -> Iterator[Teller]:
    """Show progress while steps are done."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield Lines(steps)
        return
    columns = (BarColumn(), TextColumn("{task.fields[left]}"), TextColumn("{task.fields[doing]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bar(steps, progress)


@asynccontextmanager
async def stoppable() -> AsyncIterator[asyncio.Event]:
    """Lead to an event that Ctrl-C or a polite kill sets; a second one ends all at once."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    main = asyncio.current_task()
    hurried = False

    def interrupted() -> None:
        nonlocal hurried
        if stop.is_set() and main is not None:
            hurried = True
            main.cancel()
        else:
            say("stopping once what is under way has ended; Ctrl-C again ends it at once")
            stop.set()

    for one in _ENDING:
        loop.add_signal_handler(one, interrupted)
    try:
        yield stop
    except asyncio.CancelledError:
        if not hurried:
            raise
        say("ended; what was under way may be half done: the same command goes on with it")
        raise click.Abort from None
    finally:
        for one in _ENDING:
            loop.remove_signal_handler(one)


def _called(step: Step) -> str:
    return f"{KINDS[step.kind].called} {step.name}"


def _minutes(seconds: float) -> str:
    return f"{round(seconds / 60)} min" if seconds >= 90 else f"{round(seconds)} s"
