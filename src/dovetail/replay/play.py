"""Play of a trace in a simulated cluster, from its start to its end."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.codec.text.suggestions import pluralize
from dovetail.core.disruption.policy import DEFAULT_POLICY, Offer, Policy, PolicyError
from dovetail.errors import DovetailError
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.settings import ControllerSettings
from dovetail.ports.metrics import CONSOLIDATION_POLICY_FAILURES
from dovetail.preview.durations import find_round_part
from dovetail.preview.observer import Observer
from dovetail.preview.report import thin_samples
from dovetail.replay.demand import Demand
from dovetail.replay.report import EvictedWorkload, Interval, Replay, count_reasons, measure_waits
from dovetail.replay.start import PoolChange, Start, prepare_start
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.trace.model import Delete, Event, Gap, Object, Scale, Tasks, Template
from dovetail.trace.reader import Trace

WARM_UP: Final = timedelta(hours=1)
"""A replay that begins without nodes launches them before its time begins."""
_SLICE: Final = timedelta(minutes=5)
"""Virtual time between two reports of progress."""
_MAX_INTERVALS: Final = 24
"""Of a report."""
_DEFAULT_REGION: Final = "us-east-1"
_DAY: Final = 86_400.0

Progress = Callable[[float, Observer | None], None]
"""Called with the share that was played, and the observer once the time of the trace begins."""


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, prices and length of a replay."""

    catalog: Catalog
    prices: PriceBook
    discounts: DiscountBook = NO_DISCOUNTS
    settings: ControllerSettings = ControllerSettings()
    policy: Policy = DEFAULT_POLICY
    """Finds and chooses the moves of consolidation; see ``policies.process.open_policy``."""
    described: tuple[str, ...] = ()
    """Settings as text, for the report."""
    manifests: tuple[Object, ...] = ()
    """Objects of files; NodePools among them replace all of the trace."""
    change_pool: PoolChange | None = None
    """Returns a NodePool of the trace or the files with other settings."""
    empty: bool = False
    """Begin without the recorded nodes."""
    limit: timedelta | None = None
    """Time to play; None: the whole trace."""
    region: str = ""
    """Default: that of the trace."""
    seed: int = 1
    name: str = ""
    """Path of the trace, for the report."""
    source_of_prices: str = ""


def replay_trace(trace: Trace, options: ReplayOptions, *, progress: Progress | None = None) -> Replay:
    """Play a trace; equal traces, options and seeds give equal reports."""
    start = prepare_start(
        trace, manifests=options.manifests, change_pool=options.change_pool, empty=options.empty
    )
    seconds = trace.seconds
    if options.limit is not None:
        seconds = min(seconds, options.limit.total_seconds())
    if seconds <= 0:
        raise DovetailError("the trace has no length: all its events are at t=0 and it has no end")
    player = _Player(trace, start, options, seconds)
    return player.play(progress)


class _Player:
    def __init__(self, trace: Trace, start: Start, options: ReplayOptions, seconds: float) -> None:
        self._trace = trace
        self._start = start
        self._options = options
        self._seconds = seconds
        self._warm_up = timedelta() if start.recorded else WARM_UP
        self._began = trace.header.start
        self._policy_error = ""
        """First failure of the policy."""
        self._cluster = self._build_cluster()
        self._demand = Demand(self._cluster, seconds=trace.seconds, recorded=start.recorded)

    def play(self, progress: Progress | None) -> Replay:
        cluster, clock = self._cluster, self._cluster.clock
        for obj in self._start.objects:
            self._demand.apply(obj)
        clock.run(until=clock.now())
        events = self._start.events
        if self._warm_up:
            # Demand of the first instant has its nodes when time begins.
            for event in events:
                if _is_first_demand(event):
                    self._demand.perform(self._prolong(event))
            events = tuple(event for event in events if not _is_first_demand(event))
            self._run(clock.now() + self._warm_up, progress, None)
        observer = Observer(cluster)
        spent = cluster.ec2.billing.cost(clock.now())
        costs = _CostMeter(cluster, self._began, self._seconds)
        for event in events:
            if event.t > self._seconds:
                break
            self._run(self._began + timedelta(seconds=event.t), progress, observer)
            self._demand.perform(event)
        self._run(self._began + timedelta(seconds=self._seconds), progress, observer)
        observer.finish()
        observer.stop()
        cost = cluster.ec2.billing.cost(clock.now()) - spent
        return self._report(observer, cost, costs.finish(), costs.width)

    def _prolong(self, event: Event) -> Event:
        """Return tasks that run through the warm-up first."""
        if not isinstance(event, Tasks) or event.seconds is None:
            return event
        return msgspec.structs.replace(event, seconds=event.seconds + self._warm_up.total_seconds())

    def _run(self, until: datetime, progress: Progress | None, observer: Observer | None) -> None:
        clock = self._cluster.clock
        if progress is None:
            clock.run(until=until)
            return
        total = self._warm_up.total_seconds() + self._seconds
        while clock.now() < until:
            clock.run(until=min(until, clock.now() + _SLICE))
            progress((clock.now() - self._began + self._warm_up).total_seconds() / total, observer)

    def _build_cluster(self) -> SimulatedCluster:
        options = self._options
        settings = options.settings
        region = options.region or self._trace.header.region
        return SimulatedCluster.from_snapshot(
            self._start.recorded,
            now=self._began - self._warm_up,
            catalog=options.catalog,
            prices=options.prices,
            discounts=options.discounts,
            settings=settings.scheduling,
            gates=settings.gates,
            consolidation=settings.consolidation,
            policy=self._watch_policy(options.policy),
            burstable=settings.burstable,
            region=region or ("" if self._start.recorded else _DEFAULT_REGION),
            seed=options.seed,
        )

    def _watch_policy(self, policy: Policy) -> Policy:
        """Return the policy with its first failure remembered, for the report."""
        choose = policy.choose
        if choose is None:
            return policy

        def choose_watched(offer: Offer) -> tuple[int, ...]:
            try:
                return choose(offer)
            except PolicyError as error:
                self._policy_error = self._policy_error or " ".join(str(error).split())
                raise

        return msgspec.structs.replace(policy, choose=choose_watched)

    def _note_policy(self, failures: int) -> Iterator[str]:
        if failures:
            yield (
                f"Policy {self._options.policy.name!r} failed {pluralize(failures, 'time')}; every move was "
                f"taken then. First failure: {self._policy_error}"
            )

    def _report(
        self, observer: Observer, cost: float, intervals: tuple[float, ...], width: timedelta
    ) -> Replay:
        days = self._seconds / _DAY
        end = self._began + timedelta(seconds=self._seconds)
        hours = _count_node_hours(self._cluster, self._began, end)
        nodes = observer.nodes.values()
        launched = [node for node in nodes if node.created is not None]
        killed = sum(workload.killed for workload in observer.workloads.values())
        failures = int(self._cluster.metrics.total(CONSOLIDATION_POLICY_FAILURES.name))
        return Replay(
            trace=self._options.name,
            cluster=self._trace.header.cluster,
            started=self._began,
            seconds=round(self._seconds, 3),
            settings=self._options.described,
            cost=round(cost, 4),
            cost_per_day=round(cost / days, 4),
            node_hours=round(hours, 3),
            average_nodes=round(hours / self._seconds * 3600, 2),
            peak_nodes=max(sample.nodes for sample in observer.samples),
            peak_price_per_hour=max(sample.price for sample in observer.samples),
            launched=len(launched),
            launched_per_day=round(len(launched) / days, 1),
            terminated=count_reasons(node.reason for node in nodes if node.gone is not None),
            evictions=len(observer.evictions),
            evictions_by_reason=count_reasons(eviction.reason or "other" for eviction in observer.evictions),
            killed=killed,
            waiting=measure_waits(observer.waits),
            unschedulable=observer.unschedulable,
            pending=sum(1 for _ in observer.pending_pods()),
            workloads=tuple(_find_evicted(observer)),
            intervals=self._split(observer, intervals, width),
            samples=thin_samples(observer.samples),
            notes=(*self._trace.notes, *self._start.notes, *self._demand.notes, *self._note_policy(failures)),
            assumptions=(*self._trace.header.assumptions, *self._list_assumptions()),
            seed=self._options.seed,
            prices=self._options.source_of_prices,
            policy_failures=failures,
            policy_error=self._policy_error,
        )

    def _split(self, observer: Observer, costs: tuple[float, ...], width: timedelta) -> tuple[Interval, ...]:
        def count(times: Iterator[datetime]) -> Counter[int]:
            return Counter(min((at - self._began) // width, len(costs) - 1) for at in times)

        evictions = count(eviction.at for eviction in observer.evictions)
        launches = count(node.created for node in observer.nodes.values() if node.created is not None)
        return tuple(
            Interval(
                at=round(number * width.total_seconds(), 3),
                cost=round(cost, 4),
                evictions=evictions[number],
                launched=launches[number],
            )
            for number, cost in enumerate(costs)
        )

    def _list_assumptions(self) -> Iterator[str]:
        if self._warm_up:
            yield (
                "the replay begins with the nodes that Dovetail launches for the first demand "
                f"in {self._warm_up.total_seconds() / 3600:g} hour"
            )
        elif self._cluster.fork is not None:
            yield from (*self._cluster.fork.partly, *self._cluster.fork.assumptions)
        gaps = [event.seconds for event in self._trace.events if isinstance(event, Gap)]
        if gaps:
            yield f"demand did not change in {sum(gaps) / 60:,.0f} minutes for which the recorder was away"


def _is_first_demand(event: Event) -> bool:
    return event.t == 0 and isinstance(event, Template | Tasks | Scale | Delete)


class _CostMeter:
    """Reads the bill at the end of each interval, by calls on the cluster's clock."""

    def __init__(self, cluster: SimulatedCluster, began: datetime, seconds: float) -> None:
        self._cluster = cluster
        self._readings = [cluster.ec2.billing.cost(began)]
        self.width = timedelta(seconds=find_round_part(seconds, _MAX_INTERVALS))
        for number in range(1, -(-timedelta(seconds=seconds) // self.width)):
            cluster.clock.call_at(began + number * self.width, self._read)

    def finish(self) -> tuple[float, ...]:
        """Return the cost of each interval."""
        self._read()
        return tuple(
            after - before for before, after in zip(self._readings, self._readings[1:], strict=False)
        )

    def _read(self) -> None:
        self._readings.append(self._cluster.ec2.billing.cost(self._cluster.clock.now()))


def _count_node_hours(cluster: SimulatedCluster, began: datetime, end: datetime) -> float:
    total = timedelta()
    for launch in cluster.ec2.billing.launches:
        if launch.running is not None:
            total += max(timedelta(), (launch.shutting_down or end) - max(launch.running, began))
    return total.total_seconds() / 3600


def _find_evicted(observer: Observer) -> Iterator[EvictedWorkload]:
    """Yield workloads that lost pods, most first."""
    evicted = [
        EvictedWorkload(
            workload=f"{namespace}/{name}", kind=kind, evictions=workload.evictions, killed=workload.killed
        )
        for (namespace, name, kind), workload in observer.workloads.items()
        if workload.evictions or workload.killed
    ]
    yield from sorted(evicted, key=lambda entry: (-entry.evictions, -entry.killed, entry.workload))
