"""Producer of documents: from a cluster cache, repeatedly, on asyncio.

A document is built when the cluster has changed, at most once per interval. Its
explanations take longer: a thread computes them from a copy of the cluster.
"""

import asyncio
from collections.abc import Callable, Set
from datetime import datetime, timedelta
from time import monotonic
from typing import Final

import msgspec

from dovetail.core.disruption.command import KeepReason
from dovetail.dashboard.sources.source import Publisher, SourceStatus, ViewUpdate
from dovetail.host.executor import ThreadExecutor
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.savings import SavingsLedger
from dovetail.model.settings import SchedulingSettings
from dovetail.ports.api_resources import PODS, Resource
from dovetail.state.cluster.cache import ClusterCache, ObjectChange
from dovetail.view.build import Explanations, ViewBuilder, ViewInputs
from dovetail.view.decisions import DecisionLog, build_savings
from dovetail.view.document import ClusterInfo, Notice, View
from dovetail.view.evaluate import EvaluationInput, evaluate
from dovetail.view.notices import find_notices
from dovetail.view.prices import FindPrice, no_price

INTERVAL: Final = timedelta(seconds=1)
"""Shortest time between two documents."""
HEARTBEAT: Final = timedelta(seconds=15)
"""Longest time between two documents: amounts of savings and budgets change with time."""
EVALUATION_INTERVAL: Final = timedelta(seconds=10)
_EVALUATION_SHARE: Final = 0.2
"""Largest share of a core that evaluations take."""

SLICE_SECONDS: Final = 0.005
"""Longest time that the nodes of a document hold the event loop: keys and requests wait as long."""


class Pricing(msgspec.Struct, frozen=True, kw_only=True):
    """Instance types and prices of a cluster."""

    get_instance_types: Callable[[NodePool], tuple[InstanceType, ...]]
    find_price: FindPrice = no_price
    description: str = ""
    region: str = ""
    currency: str = "USD"
    scheduling: SchedulingSettings = SchedulingSettings()


class ViewProducer:
    """Builds and publishes documents of one cluster cache."""

    def __init__(
        self,
        cache: ClusterCache,
        pricing: Pricing,
        *,
        source: str,
        name: str = "",
        get_keep_reasons: Callable[[], tuple[KeepReason, ...]] | None = None,
        get_ledger: Callable[[], SavingsLedger] | None = None,
    ) -> None:
        """``source`` is that of ``ClusterInfo``.

        Without ``get_ledger``, the attribute ``ledger`` is shown.
        """
        self.publisher = Publisher()
        self.decisions = DecisionLog(cache)
        self.ledger = SavingsLedger()
        self.autoscaler = ""
        self.status = SourceStatus()
        self.slice_seconds = SLICE_SECONDS
        self.notices: dict[str, Notice] = {}
        """About kinds that the source cannot read, by code."""
        self.unread: Set[Resource] = frozenset()
        """These kinds."""
        self._cache = cache
        self._pricing = pricing
        self._source = source
        self._name = name
        self._get_keep_reasons = get_keep_reasons
        self._get_ledger = get_ledger or (lambda: self.ledger)
        self._builder = ViewBuilder(cache)
        self._explanations = Explanations()
        self._evaluated_for = 0
        self._changes = 1
        """Number of changes of the cluster, so that nothing is built or evaluated twice."""
        self._executor = ThreadExecutor(1, name="view")
        self._evictions = 0
        self._publishing = asyncio.Lock()
        """Documents are published in the order of their times."""
        for resource in cache.stores:
            cache.subscribe(resource, self._on_change)
        cache.subscribe(PODS, self._on_pod)

    @property
    def changes(self) -> int:
        return self._changes

    def _on_change(self, _: ObjectChange) -> None:
        self._changes += 1

    def _on_pod(self, change: ObjectChange) -> None:
        # A pod that is first seen when it has been evicted was evicted before.
        if change.old is not None and not change.old.evicted and change.latest.evicted:
            self._evictions += 1

    def touch(self) -> None:
        """Request another document: something beside the cluster has changed."""
        self._changes += 1

    async def evaluate(self, now: datetime) -> None:
        """Compute the explanations in a thread, unless nothing has changed."""
        if self._evaluated_for == self._changes:
            return
        changes = self._changes
        source = self._get_evaluation_input(now)
        explanations = await self._executor.run(lambda: evaluate(source))
        self._set_explanations(explanations, changes)

    def evaluate_now(self, now: datetime) -> None:
        """Compute the explanations before this returns."""
        self._set_explanations(evaluate(self._get_evaluation_input(now)), self._changes)

    def build(self, now: datetime) -> View:
        """Return the document of this moment."""
        return self._builder.build(self._get_inputs(now))

    def _get_inputs(self, now: datetime) -> ViewInputs:
        pricing = self._pricing
        ledger = self._get_ledger()
        general = find_notices(self._cache, autoscaler=self.autoscaler, unread=self.unread)
        notices = {**self.notices, **general}
        return ViewInputs(
            now=now,
            types=self._get_types(),
            cluster=ClusterInfo(
                name=self._name,
                source=self._source,
                autoscaler=self.autoscaler,
                region=pricing.region,
                prices=pricing.description,
                currency=pricing.currency,
            ),
            explanations=self._explanations,
            decisions=self.decisions.build(ledger, now),
            savings=build_savings(ledger, now),
            notices=tuple(notices.values()),
            evictions=self._evictions,
            find_price=pricing.find_price,
            node_cost=pricing.scheduling.node_cost,
        )

    async def publish(self, now: datetime) -> None:
        """Build the document and hand it to all readers; others run between the nodes."""
        async with self._publishing:
            began = monotonic()
            for _ in self._builder.prepare(self._get_inputs(now)):
                if monotonic() - began >= self.slice_seconds:
                    await asyncio.sleep(0)
                    began = monotonic()
            await asyncio.sleep(0)
            await self.publisher.publish(ViewUpdate(self.build(now), self.status))

    async def run(self, get_now: Callable[[], datetime], interval: timedelta = INTERVAL) -> None:
        """Publish documents until cancelled."""
        evaluation = asyncio.ensure_future(self._evaluate_repeatedly(get_now))
        try:
            published, at = 0, 0.0
            while True:
                is_due = monotonic() - at >= HEARTBEAT.total_seconds()
                if self._changes != published or is_due:
                    published, at = self._changes, monotonic()
                    await self.publish(get_now())
                await asyncio.sleep(interval.total_seconds())
        finally:
            evaluation.cancel()
            await asyncio.gather(evaluation, return_exceptions=True)

    async def close(self) -> None:
        self._executor.close()
        await self.publisher.close()

    async def _evaluate_repeatedly(self, get_now: Callable[[], datetime]) -> None:
        while True:
            began = monotonic()
            await self.evaluate(get_now())
            duration = monotonic() - began
            await asyncio.sleep(max(EVALUATION_INTERVAL.total_seconds(), duration / _EVALUATION_SHARE))

    def _get_evaluation_input(self, now: datetime) -> EvaluationInput:
        keep_reasons = self._get_keep_reasons
        return EvaluationInput(
            objects=self._cache.objects(),
            now=now,
            types=self._get_types(),
            scheduling=self._pricing.scheduling,
            keep_reasons=keep_reasons() if keep_reasons is not None else None,
        )

    def _get_types(self) -> dict[str, tuple[InstanceType, ...]]:
        return {pool.name: self._pricing.get_instance_types(pool) for pool in self._cache.pools()}

    def _set_explanations(self, explanations: Explanations, changes: int) -> None:
        self._explanations = explanations
        self._evaluated_for = changes + 1
        # A document with the explanations is due; it does not need another evaluation.
        self._changes += 1
