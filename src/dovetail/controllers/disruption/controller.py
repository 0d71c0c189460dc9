"""Disruption controller: removes or replaces nodes within disruption budgets.

A scan asks each method in turn (emptiness, drift, consolidation …) for
commands. The first method that starts one ends the scan::

    triggers.py     watch event, or time            -> scan
    candidates.py   disruptable nodes, budgets      -> candidates
    core            method.decide(candidates)       -> commands, keep reasons
                    [delay, method.validation]      -> commands that are still valid
    executor.py     taint, check again              -> delete, or create replacements
    queue.py        wait until they are initialized -> delete, or roll back

There is no fixed polling. A scan runs when a node becomes empty, consolidatable
or drifted, when a budget may allow more disruptions, and when the next node
becomes eligible by time alone. Methods that need the whole cluster run at most
once per scan interval. Methods with a validation wait before they start their
commands, and drop those that are not valid any more.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.disruption.candidates import (
    NODES_PER_SLICE,
    RESCAN_DELAY,
    CandidateFinder,
    CandidateScan,
)
from dovetail.controllers.disruption.events import DisruptionEvents
from dovetail.controllers.disruption.executor import CommandExecutor, DisruptionCause
from dovetail.controllers.disruption.fruitless_scans import FruitlessScans
from dovetail.controllers.disruption.policy_guard import PolicyGuard
from dovetail.controllers.disruption.savings import SavingsRecorder
from dovetail.controllers.disruption.triggers import DisruptionTriggers
from dovetail.controllers.runtime.manager import SINGLETON, SYNC_POLL, Controller, RequeueAfter
from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.method import Decision, Method, MethodInput, Validate, Validation
from dovetail.core.disruption.registry import get_enabled_methods
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from dovetail.ports.metrics import (
    DISRUPTION_EVALUATION_DURATION,
    DISRUPTION_FAILED_VALIDATIONS,
    ConsolidationLabels,
    EvaluationLabels,
)
from dovetail.state.cluster.cache import ObjectChange

NAME: Final = "disruption"

_NEXT_SCAN: Final = RequeueAfter(timedelta())


class _MethodResult(msgspec.Struct, frozen=True):
    """Result of one method in a scan."""

    started: bool = False
    """A command was started; the scan ends."""
    rescan_at: datetime | None = None


class _PendingValidation(msgspec.Struct, frozen=True):
    """Commands that wait for their validation."""

    commands: tuple[Command, ...]
    at: datetime
    validate: Validate


class DisruptionController(ControllerBase):
    """Runs one scan at a time over all disruption methods."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._keep_reasons = context.keep_reasons
        self._executor = context.executor
        self._scheduling_settings = context.scheduling_settings
        self._consolidation_settings = context.consolidation_settings
        self._disruption_events = DisruptionEvents(context.events)
        self.triggers = DisruptionTriggers(context)
        self._finder = CandidateFinder(context, triggers=self.triggers, events=self._disruption_events)
        self._commands = CommandExecutor(context)
        self._savings = SavingsRecorder(context)
        self._policy_guard = PolicyGuard(context)
        self._pending: dict[Method, _PendingValidation] = {}
        self._methods = get_enabled_methods(context.feature_gates)
        self._fruitless = {method: FruitlessScans(method) for method in self._methods if method.needs_context}

    def handle_node(self, change: ObjectChange) -> Iterable[str]:
        """Forget the keep reason of a deleted node, then apply the triggers."""
        if change.new is None:
            self._keep_reasons.remove(change.latest.name)
        return self.triggers.handle_node(change)

    async def reconcile(self, _: str) -> RequeueAfter | None:
        """Run a scan and requeue at the time of the next one."""
        if not self._cache.has_synced():
            return SYNC_POLL
        await self._commands.remove_stale_taints()
        self.triggers.exhausted_nodepools = frozenset()
        rescan_times: list[datetime] = []
        for method in self._methods:
            result = await self._run_method(method)
            if result.started:
                return _NEXT_SCAN
            if result.rescan_at is not None:
                rescan_times.append(result.rescan_at)
        return RequeueAfter(min(rescan_times) - self._loop.now()) if rescan_times else None

    async def _run_method(self, method: Method) -> _MethodResult:
        """Validate the method's pending commands, or evaluate it if a scan is due."""
        now = self._loop.now()
        pending = self._pending.get(method)
        if pending is not None and now < pending.at:
            return _MethodResult(rescan_at=pending.at)
        if pending is not None:
            return await self._validate(method, await self._finder.scan(method, now))
        interval = self.triggers.scan_intervals.get(method)
        if interval is not None:
            next_scan = interval.next_scan_at(now)
            if now < next_scan:
                return _MethodResult(rescan_at=next_scan)
            interval.start_scan()
        scan = await self._finder.scan(method, now)
        if not scan.candidates:
            if interval is not None:
                interval.finish_scan(now, nodes=0, found_commands=False, rescan_at=scan.rescan_at)
                self._fruitless[method].forget()
            return _MethodResult(rescan_at=scan.rescan_at)
        return await self._evaluate(method, scan)

    async def _evaluate(self, method: Method, scan: CandidateScan) -> _MethodResult:
        """Call the method; start its commands or schedule their validation."""
        now = self._loop.now()
        allowed = self._finder.get_allowed_disruptions(scan.candidates, method, now)
        self._note_exhausted_budgets(
            candidate for candidate in scan.candidates if not allowed[candidate.pool.name]
        )
        method_input = MethodInput(
            candidates=scan.candidates,
            allowed_disruptions=allowed,
            limit_headroom=self._finder.get_limit_headroom(scan.candidates),
            settings=self._consolidation_settings,
            scheduling=self._scheduling_settings,
            policy=self._policy_guard.get_policy(now),
        )
        decision = Decision()
        if any(allowed.values()):
            decision = await self._decide(method, method_input, scan.next_eligible_at)
        elif method.needs_context:
            # The scan was started and evaluated nothing: let the next one run.
            self.triggers.scan_intervals[method].notify_change()
        self._note_exhausted_budgets(decision.over_budget)
        self._keep_reasons.record(decision.keep_reasons)
        if method.validation is not None:
            return await self._schedule_validation(method, method.validation, scan, decision)
        self._disruption_events.publish_blocked_candidates(scan.candidates, decision.keep_reasons)
        started = await self._start(method, decision.commands)
        return _MethodResult(started, _earlier(scan.rescan_at, now + RESCAN_DELAY))

    async def _decide(
        self, method: Method, method_input: MethodInput, next_eligible_at: datetime | None
    ) -> Decision:
        """Call ``method.decide``; in a thread, with the whole cluster, if it needs that."""
        if not method.needs_context:
            return method.decide(method_input)
        now = self._loop.now()
        context = self._finder.get_context(method_input.candidates, now)
        full_input = replace(method_input, context=context)
        decision = await self._evaluate_if_changed(method, full_input)
        finished = self._loop.now()
        self.triggers.scan_intervals[method].finish_scan(
            finished,
            nodes=len(context.snapshot.nodes),
            found_commands=bool(decision.commands),
            rescan_at=finished if decision.over_budget else next_eligible_at,
        )
        return decision

    async def _evaluate_if_changed(self, method: Method, full_input: MethodInput) -> Decision:
        """Call ``method.decide``, unless scans that found nothing show that it finds nothing."""
        known = self._fruitless[method].find_decision(full_input)
        if known is not None:
            return known
        started = self._loop.now()
        decision = await self._executor.run(lambda: method.decide(full_input))
        if decision.policy_failure:
            self._policy_guard.record_failure(decision.policy_failure, full_input.candidates)
        elif decision.policy_answered:
            self._policy_guard.record_success()
        self._metrics.observe(
            DISRUPTION_EVALUATION_DURATION,
            (self._loop.now() - started).total_seconds(),
            EvaluationLabels(reason=method.reason.lower(), consolidation_type=method.consolidation_type(2)),
        )
        self._fruitless[method].record(full_input, decision)
        return decision

    async def _schedule_validation(
        self, method: Method, validation: Validation, scan: CandidateScan, decision: Decision
    ) -> _MethodResult:
        """Hold commands back: pods that are being created now may change the result."""
        candidates = {candidate.node.name: candidate for candidate in scan.candidates}
        # In slices, because thousands of nodes would block the event loop.
        for first in range(0, len(decision.keep_reasons), NODES_PER_SLICE):
            self._disruption_events.publish_keep_reasons(
                candidates, decision.keep_reasons[first : first + NODES_PER_SLICE]
            )
            await self._loop.sleep(timedelta())
        now = self._loop.now()
        if not decision.commands:
            next_scan = self.triggers.scan_intervals[method].next_scan_at(now)
            next_scan = max(next_scan, now + RESCAN_DELAY)
            return _MethodResult(rescan_at=_earlier(scan.rescan_at, next_scan))
        for command in decision.commands:
            self._disruption_events.publish_proposed(command)
        pending = _PendingValidation(decision.commands, now + validation.delay, validation.validate)
        self._pending[method] = pending
        return _MethodResult(rescan_at=pending.at)

    async def _validate(self, method: Method, scan: CandidateScan) -> _MethodResult:
        """Start the pending commands that are still valid."""
        now = self._loop.now()
        pending = self._pending.pop(method)
        allowed = self._finder.get_allowed_disruptions(scan.candidates, method, now)
        context = self._finder.get_context(scan.candidates, now)
        result = await self._executor.run(
            lambda: pending.validate(pending.commands, context, allowed, self._scheduling_settings)
        )
        for command, failure in result.failures:
            self._disruption_events.publish_rejected(command, failure.code, failure.message)
            if failure.code != "scheduling":
                count = len(command.candidates)
                self._metrics.inc(
                    DISRUPTION_FAILED_VALIDATIONS,
                    ConsolidationLabels(consolidation_type=method.consolidation_type(count)),
                    by=count,
                )
        started = await self._start(method, result.valid)
        next_scan = self.triggers.scan_intervals[method].next_scan_at(now)
        return _MethodResult(started, _earlier(scan.rescan_at, next_scan))

    async def _start(self, method: Method, commands: tuple[Command, ...]) -> bool:
        """Start commands concurrently; return True if any node is being disrupted."""
        commands = self._filter_by_budgets(method, commands)
        if not commands:
            return False
        # Before the first step: a crash must not lose a command that has started.
        await self._savings.record(commands, method.reason)

        def is_still_valid(candidate: Candidate) -> bool:
            return self._finder.is_still_valid(candidate, method, self._loop.now())

        results = await self._loop.gather(
            [
                self._commands.start(command, _get_cause(method, command), is_still_valid=is_still_valid)
                for command in commands
            ]
        )
        counts = [result for result in results if not isinstance(result, Exception)]
        errors = [result for result in results if isinstance(result, Exception)]
        if errors and not any(counts):
            raise errors[0]
        for error in errors:
            self._log.error("disrupting node", error=str(error))
        for command in commands:
            for candidate in command.candidates:
                self._keep_reasons.remove(candidate.node.name)
        if errors or not all(counts):
            await self._commands.remove_stale_taints()
        return any(counts)

    def _filter_by_budgets(self, method: Method, commands: tuple[Command, ...]) -> tuple[Command, ...]:
        """Drop commands over budget: budgets may have changed since the decision."""
        candidates = [candidate for command in commands for candidate in command.candidates]
        allowed = self._finder.get_allowed_disruptions(candidates, method, self._loop.now())
        kept: list[Command] = []
        for command in commands:
            pools = [candidate.pool.name for candidate in command.candidates]
            for pool in pools:
                allowed[pool] -= 1
            if min(allowed[pool] for pool in pools) >= 0:
                kept.append(command)
                continue
            for pool in pools:
                allowed[pool] += 1
        return tuple(kept)

    def _note_exhausted_budgets(self, candidates: Iterable[Candidate]) -> None:
        """Rescan when a node of these NodePools is gone and its budget allows another."""
        self.triggers.exhausted_nodepools |= {candidate.pool.name for candidate in candidates}


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = DisruptionController(context)
    return Controller(
        name=NAME,
        reconciler=reconciler,
        watches=(
            (NODE_CLAIMS, reconciler.triggers.handle_claim),
            (PODS, reconciler.triggers.handle_pod),
            (NODES, reconciler.handle_node),
            (NODE_POOLS, reconciler.triggers.handle_nodepool),
        ),
        sources=(
            lambda enqueue: context.capacity_buffers.subscribe_releases(lambda: enqueue(SINGLETON)),
            reconciler.triggers.watch_host_groups,
        ),
        initial_keys=(SINGLETON,),
        workers=1,
    )


def _get_cause(method: Method, command: Command) -> DisruptionCause:
    is_replacement = bool(command.replacements or command.template_nodepools)
    return DisruptionCause(
        method.reason,
        method.consolidation_type(len(command.candidates)),
        "replace" if is_replacement else "delete",
    )


def _earlier(first: datetime | None, second: datetime) -> datetime:
    return second if first is None else min(first, second)
