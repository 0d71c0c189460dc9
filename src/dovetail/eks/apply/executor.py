"""Execution of a plan: steps run concurrently, each after its dependencies."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from dovetail.eks.plan.planner import Action, Plan, Step
from dovetail.eks.plan.references import Reference, resolve_references
from dovetail.eks.plan.resolver import resolve_reference
from dovetail.eks.plan.resource import DesiredResource, ObservedState
from dovetail.eks.resources.handler import Attributes, Handler, StepExecutor
from dovetail.errors import DovetailError

MAX_CONCURRENT_STEPS: Final = 16
"""EC2 and IAM throttle clients that send more requests at once."""


class StepError(DovetailError):
    """Steps failed; the steps that ran beside them have ended."""

    def __init__(self, failures: Sequence[tuple[Step, Exception]]) -> None:
        self.failures = tuple(failures)
        super().__init__("; ".join(f"{step.id}: {error}" for step, error in failures))


class HandlerExecutor:
    """Executes steps in the account, with one handler per resource kind."""

    def __init__(
        self, handlers: Sequence[Handler], *, desired: Sequence[DesiredResource], observed: ObservedState
    ) -> None:
        self._handlers = {handler.kind: handler for handler in handlers}
        self._desired = {resource.address: resource for resource in desired}
        self._account = observed.account
        self._observed = dict(observed.resources)
        self._created: dict[str, Attributes] = {}

    async def execute(self, step: Step) -> Attributes:
        handler = self._handlers[step.kind]
        if step.action is Action.DELETE:
            if step.observed is not None:
                await handler.delete(step.observed)
            self._observed.pop(step.address, None)
            self._created.pop(step.address, None)
            return {}
        if step.desired is None:
            raise ValueError(f"{step.id} has no desired resource")
        resource = self._resolve(step.desired)
        if step.action is Action.UPDATE and step.observed is not None:
            attributes = await handler.update(step.observed, resource)
        else:
            attributes = await handler.create(resource)
        self._created[step.address] = attributes
        return attributes

    def lookup(self, reference: Reference) -> Any:
        """Return the current value of a reference."""
        current = ObservedState(account=self._account, resources=self._observed)
        return resolve_reference(reference, observed=current, desired=self._desired, created=self._created)

    def _resolve(self, resource: DesiredResource) -> DesiredResource:
        properties = resolve_references(resource.properties, self.lookup)
        return msgspec.structs.replace(resource, properties=properties)


class DryRunExecutor:
    """Reports steps and executes none."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report

    async def execute(self, step: Step) -> Attributes:
        self._report(str(step))
        return {}


class ProgressListener:
    """Notified of the progress of a run; ignores it by default."""

    def step_started(self, step: Step) -> None: ...

    def step_done(self, step: Step) -> None: ...


class ExecutionResult(msgspec.Struct, frozen=True):
    """Steps done, and steps that a stopped run did not start."""

    done: tuple[Step, ...]
    remaining: tuple[Step, ...]


async def execute_plan(
    plan: Plan,
    executor: StepExecutor,
    *,
    stop: asyncio.Event | None = None,
    listener: ProgressListener | None = None,
    max_concurrent: int = MAX_CONCURRENT_STEPS,
) -> ExecutionResult:
    """Execute the steps of a plan, each after its dependencies; raises ``StepError``.

    After ``stop`` is set, or a step has failed, no step starts, and running steps
    are awaited. The next run therefore finds no step half done.
    """
    execution = _Execution(
        plan, executor, stop or asyncio.Event(), listener or ProgressListener(), max_concurrent
    )
    return await execution.run()


class _Execution:
    def __init__(
        self,
        plan: Plan,
        executor: StepExecutor,
        stop: asyncio.Event,
        listener: ProgressListener,
        max_concurrent: int,
    ) -> None:
        self._waiting: dict[str, Step] = {step.id: step for step in plan.steps}
        self._executor = executor
        self._stop = stop
        self._listener = listener
        self._max_concurrent = max_concurrent
        self._tasks: dict[asyncio.Task[Attributes], Step] = {}
        self._done: dict[str, Step] = {}
        self._failures: list[tuple[Step, Exception]] = []

    async def run(self) -> ExecutionResult:
        try:
            while self._start_ready() or self._tasks:
                ended, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    self._finish(self._tasks.pop(task), task)
        finally:
            await self._cancel_running()
        if self._failures:
            raise StepError(self._failures)
        return ExecutionResult(tuple(self._done.values()), tuple(self._waiting.values()))

    def _start_ready(self) -> bool:
        """Start the steps that are ready; return True if any was started."""
        started = False
        for step in tuple(self._waiting.values()):
            if self._stop.is_set() or self._failures or len(self._tasks) >= self._max_concurrent:
                break
            if all(dependency in self._done for dependency in step.depends_on):
                del self._waiting[step.id]
                self._listener.step_started(step)
                self._tasks[asyncio.ensure_future(self._executor.execute(step))] = step
                started = True
        return started

    def _finish(self, step: Step, task: asyncio.Task[Attributes]) -> None:
        error = task.exception()
        if isinstance(error, DovetailError):
            self._failures.append((step, error))
        elif error is not None:
            raise error
        else:
            self._done[step.id] = step
            self._listener.step_done(step)

    async def _cancel_running(self) -> None:
        """Cancel running steps; there are some only after an unexpected error."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
