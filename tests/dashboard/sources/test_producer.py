"""Producer of documents: what it counts while it watches, and what runs beside it."""

import asyncio
from datetime import timedelta

from dovetail.dashboard.sources.producer import Pricing, ViewProducer
from dovetail.ports.api_resources import PODS
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.simulator.clusters import an_app, build_cluster, build_scenario


def advance(cluster: SimulatedCluster, seconds: float) -> None:
    cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=seconds))


def test_pods_that_the_eviction_api_evicts_while_it_watches_count_as_evicted_others_do_not() -> None:
    cluster = build_cluster(build_scenario())
    cluster.apply([an_app("web", replicas=4)])
    advance(cluster, 180)
    names = [pod["metadata"]["name"] for pod in cluster.api.list(PODS).items if pod["spec"].get("nodeName")]
    before, first, second, deleted = [name for name in names if name.startswith("web-")]
    cluster.api.evict(before, "default")
    advance(cluster, 1)
    producer = ViewProducer(cluster.operator.cache, Pricing(get_instance_types=lambda _: ()), source="test")

    cluster.api.evict(first, "default")
    cluster.api.evict(second, "default")
    cluster.api.delete(PODS, deleted, "default")
    advance(cluster, 60)

    assert producer.build(cluster.clock.now()).totals.evictions == 2


def test_keys_and_requests_are_handled_between_the_nodes_of_a_document() -> None:
    cluster = build_cluster(build_scenario())
    cluster.apply([an_app("web", replicas=40)])
    advance(cluster, 180)

    async def count_turns() -> tuple[int, int]:
        """Return how often something else ran during a publication, and the number of nodes."""
        producer = ViewProducer(
            cluster.operator.cache, Pricing(get_instance_types=lambda _: ()), source="test"
        )
        producer.slice_seconds = 0.0
        turns = 0

        async def work() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        task = asyncio.create_task(work())
        await producer.publish(cluster.clock.now())
        task.cancel()
        await producer.close()
        return turns, len(producer.publisher.current().view.nodes)

    turns, nodes = asyncio.run(count_turns())

    assert turns >= nodes > 1
