"""Steps carried out: in order of need, side by side where nothing stands against it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.eks.plan.planner import Plan, Step, Verb
from dovetail.eks.plan.references import Reference, resolved
from dovetail.eks.plan.resolver import found
from dovetail.eks.plan.resource import Observed, Resource
from dovetail.eks.resources.handler import Attributes, Executor, Handler
from dovetail.errors import DovetailError

AT_ONCE: Final = 16
"""Steps under way at the same time; EC2 and IAM throttle those who ask for more."""


class StepFailed(DovetailError):
    """A step could not be done; those that were under way beside it have ended."""

    def __init__(self, failures: Sequence[tuple[Step, Exception]]) -> None:
        self.failures = tuple(failures)
        told = "; ".join(f"{step.id}: {error}" for step, error in failures)
        super().__init__(told)


class RealExecutor:
    """Does steps in the account, through a handler for each kind."""

    def __init__(
        self, handlers: Sequence[Handler], *, wanted: Sequence[Resource], observed: Observed
    ) -> None:
        self._handlers = {one.kind: one for one in handlers}
        self._wanted = {one.address: one for one in wanted}
        self._account = observed.account
        self._there = dict(observed.resources)
        self._made: dict[str, Attributes] = {}

    async def do(self, step: Step) -> Attributes:
        handler = self._handlers[step.kind]
        if step.verb is Verb.REMOVE:
            if step.existing is not None:
                await handler.remove(step.existing)
            self._there.pop(step.address, None)
            self._made.pop(step.address, None)
            return {}
        if step.wanted is None:
            raise ValueError(f"{step.id} does not say what is wanted")
        whole = self._resolved(step.wanted)
        if step.verb is Verb.CHANGE and step.existing is not None:
            attributes = await handler.change(step.existing, whole)
        else:
            attributes = await handler.create(whole)
        self._made[step.address] = attributes
        return attributes

    def look_up(self, reference: Reference) -> Any:
        """Return what a reference stands for by now."""
        live = Observed(account=self._account, resources=self._there)
        return found(reference, observed=live, wanted=self._wanted, made=self._made)

    def _resolved(self, one: Resource) -> Resource:
        return msgspec.structs.replace(one, properties=resolved(one.properties, self.look_up))


class DryExecutor:
    """Does nothing, and says what it would do."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    async def do(self, step: Step) -> Attributes:
        self._tell(str(step))
        return {}


class Teller:
    """Hears how a run goes; by default nobody does."""

    def begun(self, step: Step) -> None: ...

    def done(self, step: Step) -> None: ...


class Run(msgspec.Struct, frozen=True):
    """How far a run came."""

    done: tuple[Step, ...]
    left: tuple[Step, ...]


async def carry_out(
    plan: Plan,
    executor: Executor,
    *,
    stop: asyncio.Event | None = None,
    teller: Teller | None = None,
    at_once: int = AT_ONCE,
) -> Run:
    """Do a plan's steps, each once all that it needs is done; raises ``StepFailed``.

    After ``stop`` is set, or a step has failed, nothing new is begun, and what is
    under way is waited for: the next run starts from a clean edge.
    """
    return await _Run(plan, executor, stop or asyncio.Event(), teller or Teller(), at_once).run()


class _Run:
    def __init__(
        self, plan: Plan, executor: Executor, stop: asyncio.Event, teller: Teller, at_once: int
    ) -> None:
        self._waiting: dict[str, Step] = {one.id: one for one in plan.steps}
        self._executor = executor
        self._stop = stop
        self._teller = teller
        self._at_once = at_once
        self._tasks: dict[asyncio.Task[Attributes], Step] = {}
        self._done: dict[str, Step] = {}
        self._failures: list[tuple[Step, Exception]] = []

    async def run(self) -> Run:
        try:
            while self._begin() or self._tasks:
                ended, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    self._end(self._tasks.pop(task), task)
        finally:
            await self._drop()
        if self._failures:
            raise StepFailed(self._failures)
        return Run(tuple(self._done.values()), tuple(self._waiting.values()))

    def _begin(self) -> bool:
        """Start what can be started; tell whether anything was."""
        begun = False
        for step in tuple(self._waiting.values()):
            if self._stop.is_set() or self._failures or len(self._tasks) >= self._at_once:
                break
            if all(need in self._done for need in step.needs):
                del self._waiting[step.id]
                self._teller.begun(step)
                self._tasks[asyncio.ensure_future(self._executor.do(step))] = step
                begun = True
        return begun

    def _end(self, step: Step, task: asyncio.Task[Attributes]) -> None:
        error = task.exception()
        if isinstance(error, DovetailError):
            self._failures.append((step, error))
        elif error is not None:
            raise error
        else:
            self._done[step.id] = step
            self._teller.done(step)

    async def _drop(self) -> None:
        """End what is still under way; only an error that nobody foresaw leaves any."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def seconds_of(steps: Sequence[Step], kinds: Mapping[str, int]) -> float:
    """Return how long steps take at least: the longest way through what needs what."""
    ends: dict[str, float] = {}
    for step in steps:
        begin = max((ends.get(need, 0.0) for need in step.needs), default=0.0)
        ends[step.id] = begin + kinds.get(step.kind, 0)
    return max(ends.values(), default=0.0)
