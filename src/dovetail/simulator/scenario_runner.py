"""Scenario runner: runs a scenario phase by phase and measures each phase."""

from collections import Counter
from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.errors import ScenarioError
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.ec2.billing import LaunchRecord
from dovetail.simulator.scenario.model import Action, Phase, Scenario, Until, Wait
from dovetail.simulator.scenario_actions import perform

EVICTIONS: Final = "karpenter_pods_eviction_requests_total"
_MICROSECOND: Final = timedelta(microseconds=1)


class StartupBreakdown(msgspec.Struct, frozen=True, kw_only=True):
    """Time until the last pod of a phase ran on a new node, by step, in seconds."""

    waiting: float
    """Until the pod existed, and earlier nodes of this phase were seen to be full."""
    deciding: float
    """Batching pods and scheduling, until the NodeClaim was created."""
    launching: float
    """Until EC2 answered CreateFleet."""
    booting: float
    """From the launch until the node was Ready."""
    registering: float
    """From then until the NodeClaim was initialized."""
    starting: float
    """Binding the pod, pulling its image, starting it."""

    @property
    def own(self) -> float:
        """Seconds that Dovetail itself took."""
        return round(self.deciding + self.registering, 3)


class PhaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a phase; launches, terminations and evictions are its own."""

    name: str
    reached: bool
    virtual_seconds: float
    pods_running: int
    nodes: int
    price_per_hour: float
    """At the end of the phase, in USD."""
    cost: float
    """USD spent on instances during the phase."""
    launched: int
    terminated: int
    evictions: int
    instance_types: dict[str, int]
    """Instances launched, by type."""
    startup: StartupBreakdown | None = None
    """None if no pod started on an instance that was launched in this phase."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a scenario."""

    scenario: str
    phases: tuple[PhaseReport, ...]
    cost: float
    """USD spent on instances."""
    price_steps: tuple[tuple[float, float], ...] = ()
    """Seconds since the start, and the price per hour in USD from then on."""
    invariant_violations: tuple[str, ...] = ()

    @property
    def own_seconds(self) -> float:
        """Virtual seconds that Dovetail itself took until pods ran."""
        own = [phase.startup.own for phase in self.phases if phase.startup is not None]
        return round(sum(own), 3)

    @property
    def reached(self) -> bool:
        """True if every phase reached its goal in time."""
        return all(phase.reached for phase in self.phases)


class ScenarioRunner:
    """Runs a scenario on a simulated cluster; the caller decides how fast."""

    def __init__(self, cluster: SimulatedCluster, scenario: Scenario) -> None:
        self._cluster = cluster
        self._scenario = scenario
        self.phase: Phase | None = None
        self.listeners: list[Callable[[Phase | PhaseReport], None]] = []
        """Called with each phase when it begins, and with its report when it ends."""
        self._began = cluster.clock.now()
        self._last_change = cluster.clock.now()
        """Time of the last launch or termination."""
        self._price_steps: list[tuple[float, float]] = []
        self._recorded_price: float | None = None
        self._skip_idle = False
        cluster.ec2.billing.listeners.append(self._record_change)

    def _record_change(self, _: LaunchRecord) -> None:
        self._last_change = self._cluster.clock.now()
        self._schedule_quiet_check()

    def _schedule_quiet_check(self) -> None:
        """Stop the clock when a quiet phase is over, even if nothing else happens then."""
        quiet = None if self.phase is None else self.phase.until.quiet
        if quiet is not None:
            clock = self._cluster.clock
            clock.call_at(max(clock.now(), self._last_change + quiet), lambda: None)

    def _record_price(self) -> None:
        current = self._cluster.ec2.billing.price_per_hour()
        if current == self._recorded_price:
            return
        self._recorded_price = current
        price = round(current, 4)
        since = _seconds(self._cluster.clock.now() - self._began)
        if self._price_steps and self._price_steps[-1][0] == since:
            self._price_steps.pop()
        if not self._price_steps or self._price_steps[-1][1] != price:
            self._price_steps.append((since, price))

    def run(self) -> Report:
        """Run to the end, as fast as possible."""
        steps = self.steps(every=timedelta(days=365))
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                report: Report = stop.value
                return report

    def steps(self, *, every: timedelta, skip_idle: bool = False) -> Generator[datetime, None, Report]:
        """Run and yield each time ``every`` of virtual time has passed.

        With ``skip_idle``, do not yield in between while nothing is due.
        """
        self._skip_idle = skip_idle
        reports = []
        for phase in self._scenario.phases:
            self.phase = phase
            self._schedule_quiet_check()
            self._notify(phase)
            reports.append((yield from self._run_phase(phase, every)))
            self._notify(reports[-1])
        cluster = self._cluster
        return Report(
            scenario=self._scenario.name,
            phases=tuple(reports),
            cost=round(cluster.ec2.billing.cost(cluster.clock.now()), 6),
            price_steps=tuple(self._price_steps),
            invariant_violations=tuple(cluster.invariants.violations),
        )

    def _notify(self, item: Phase | PhaseReport) -> None:
        for listener in self.listeners:
            listener(item)

    def _run_phase(self, phase: Phase, every: timedelta) -> Generator[datetime, None, PhaseReport]:
        clock, billing = self._cluster.clock, self._cluster.ec2.billing
        start, before = clock.now(), self._counts()
        launches_before = len(billing.launches)
        cost_before = billing.cost(start)
        for action in phase.actions:
            if isinstance(action, Wait):
                yield from self._run_until(every, clock.now() + action.duration, lambda: False)
            else:
                self._perform(action, phase)
        deadline, reached = start + phase.limit, False
        if clock.now() <= deadline:
            reached = yield from self._run_until(every, deadline, lambda: self._is_reached(phase.until))
        after = self._counts()
        types = Counter(launch.instance_type for launch in billing.launches[launches_before:])
        return PhaseReport(
            name=phase.name,
            reached=reached,
            virtual_seconds=_seconds(clock.now() - start),
            pods_running=self._cluster.recorder.running,
            nodes=billing.instance_count,
            price_per_hour=round(billing.price_per_hour(), 4),
            cost=round(billing.cost(clock.now()) - cost_before, 6),
            launched=after["launched"] - before["launched"],
            terminated=after["terminated"] - before["terminated"],
            evictions=after["evictions"] - before["evictions"],
            instance_types=dict(sorted(types.items())),
            startup=self._startup_breakdown(start),
        )

    def _perform(self, action: Action, phase: Phase) -> None:
        try:
            perform(action, self._cluster)
        except ApiError as error:
            raise ScenarioError(f"phase {phase.name}: {error}") from error

    def _run_until(
        self, every: timedelta, limit: datetime, is_over: Callable[[], bool]
    ) -> Generator[datetime, None, bool]:
        clock = self._cluster.clock
        next_yield = clock.now() + every
        # Run what an action caused at this very instant before the first check.
        clock.run(until=clock.now())
        while not is_over():
            due = clock.next_due()
            is_last = due is None or due > limit
            idle_until = limit if due is None else min(due, limit)
            if idle_until >= next_yield:
                if self._skip_idle:
                    next_yield += (idle_until - next_yield) // every * every
                clock.run(until=next_yield - _MICROSECOND)
                yield next_yield  # The caller may schedule something earlier than ``due``.
                next_yield += every
            elif is_last:
                clock.run(until=limit)
                return is_over()
            else:
                clock.step()
                self._record_price()
        return True

    def _is_reached(self, until: Until) -> bool:
        cluster, recorder = self._cluster, self._cluster.recorder
        if until.nodes is not None and cluster.ec2.billing.instance_count != until.nodes:
            return False
        if until.drifted is not None and len(recorder.drifted) != until.drifted:
            return False
        if until.quiet is not None and cluster.clock.now() - self._last_change < until.quiet:
            return False
        if until.running is None:
            return True
        return recorder.running == until.running and not recorder.unsettled

    def _counts(self) -> dict[str, int]:
        billing = self._cluster.ec2.billing
        return {
            "launched": len(billing.launches),
            "terminated": len(billing.launches) - billing.instance_count,
            "evictions": int(self._cluster.metrics.total(EVICTIONS, code="200")),
        }

    def _startup_breakdown(self, start: datetime) -> StartupBreakdown | None:
        """Break down the start of the last pod, if it waited for an instance launched in this phase."""
        recorder, billing = self._cluster.recorder, self._cluster.ec2.billing
        pod = recorder.last_start
        if pod is None or pod.at < start:
            return None
        launches = {launch.provider_id: launch for launch in billing.launches if launch.launched >= start}
        launch = launches.get(recorder.provider_of.get(pod.node, ""))
        if launch is None or launch.claim not in recorder.claim_created:
            return None
        if recorder.node_ready.get(pod.node, pod.at) < pod.created:
            return None  # The node was there before the pod.
        # A claim may be older than the phase in which its instance is launched.
        created = max(start, recorder.claim_created[launch.claim])
        # A second round of launches begins once the nodes of the first are seen to be full.
        earlier_nodes_ready = [
            recorder.node_ready[node]
            for node, provider_id in recorder.provider_of.items()
            if node in recorder.node_ready
            and provider_id in launches
            and launches[provider_id].launched >= pod.created
            and recorder.node_ready[node] <= created
        ]
        pending = max(start, min(pod.created, created), *earlier_nodes_ready)
        # Pods with the right tolerations may start before the node is ready or initialized.
        ready = min(pod.at, recorder.node_ready.get(pod.node, pod.at))
        initialized = recorder.claim_initialized.get(launch.claim, ready)
        initialized = min(pod.at, max(ready, initialized))
        return StartupBreakdown(
            waiting=_seconds(pending - start),
            deciding=_seconds(created - pending),
            launching=_seconds(launch.launched - created),
            booting=_seconds(ready - launch.launched),
            registering=_seconds(initialized - ready),
            starting=_seconds(pod.at - initialized),
        )


def run_scenario(scenario: Scenario, *, catalog: Catalog, prices: PriceBook, **options: Any) -> Report:
    """Run a scenario on a new simulated cluster and return its report.

    ``options`` are those of ``SimulatedCluster``: settings, gates, discounts, burstable, start.
    """
    cluster = SimulatedCluster(scenario, catalog=catalog, prices=prices, **options)
    return ScenarioRunner(cluster, scenario).run()


def _seconds(span: timedelta) -> float:
    return round(span.total_seconds(), 3)
