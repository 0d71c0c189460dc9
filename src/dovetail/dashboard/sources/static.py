"""A document that does not change: of a dump."""

from collections.abc import AsyncIterator
from datetime import datetime

from dovetail.dashboard.sources.producer import Pricing, ViewProducer
from dovetail.dashboard.sources.source import Publisher, SourceStatus, ViewUpdate
from dovetail.model.savings import SavingsLedger
from dovetail.state.cluster.cache import ClusterCache
from dovetail.view.document import View
from dovetail.view.notices import find_autoscaler


def build_dump_view(
    cache: ClusterCache,
    pricing: Pricing,
    now: datetime,
    *,
    name: str = "",
    ledger: SavingsLedger | None = None,
) -> View:
    """Return the document of a cluster that was read from files, with all explanations."""
    producer = ViewProducer(cache, pricing, source="dump", name=name)
    producer.autoscaler = find_autoscaler(cache)
    producer.ledger = ledger or SavingsLedger()
    producer.evaluate_now(now)
    return producer.build(now)


class StaticSource:
    """One document that never changes; implements ``ViewSource``."""

    def __init__(self, view: View) -> None:
        self._update = ViewUpdate(view, SourceStatus(final=True))
        self._publisher: Publisher | None = None

    async def start(self) -> None:
        self._publisher = Publisher()
        await self._publisher.publish(self._update)

    def current(self) -> ViewUpdate:
        return self._update

    def updates(self) -> AsyncIterator[ViewUpdate]:
        if self._publisher is None:
            raise RuntimeError("the source has not been started")
        return self._publisher.updates()

    async def close(self) -> None:
        if self._publisher is not None:
            await self._publisher.close()
