"""Documents and a source of documents, for tests of the server."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from dovetail.dashboard.sources.source import Publisher, SourceStatus, ViewUpdate
from dovetail.view.document import NodeState, NodeView, PodView, Totals, View, WorkloadView

START = datetime(2026, 1, 1, 9, tzinfo=UTC)


def view(
    seconds: float = 0,
    *,
    nodes: tuple[NodeView, ...] = (),
    price: float = 0.0,
    evictions: int = 0,
    **more: Any,
) -> View:
    return View(
        at=START + timedelta(seconds=seconds),
        nodes={node.key: node for node in nodes},
        totals=Totals(nodes=len(nodes), price_per_hour=price, evictions=evictions),
        **more,
    )


def node(key: str, *pods: str, state: NodeState = NodeState.READY) -> NodeView:
    workload = WorkloadView(
        namespace="default", kind="ReplicaSet", name="web", pods=tuple(PodView(name=name) for name in pods)
    )
    return NodeView(key=key, name=key, state=state, workloads=(workload,))


class FakeSource:
    """Publishes the documents of a test."""

    def __init__(self, first: View) -> None:
        self._publisher = Publisher()
        self._first = first

    async def start(self) -> None:
        await self.publish(self._first)

    def current(self) -> ViewUpdate:
        return self._publisher.current()

    def updates(self) -> AsyncIterator[ViewUpdate]:
        return self._publisher.updates()

    async def publish(self, document: View, status: SourceStatus = SourceStatus()) -> None:  # noqa: B008
        await self._publisher.publish(ViewUpdate(document, status))

    async def close(self) -> None:
        await self._publisher.close()


class FailingSource(FakeSource):
    """Fails after its first document."""

    async def updates(self) -> AsyncIterator[ViewUpdate]:  # type: ignore[override]
        yield self.current()
        raise ValueError("a bug")
