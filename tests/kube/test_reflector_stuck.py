"""A watch that neither hears nor tries anything for minutes is found out."""

import asyncio
from datetime import datetime, timedelta

from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimiter
from dovetail.kube.reflector import STUCK_AFTER, Reflectors
from dovetail.ports.api_resources import PODS
from dovetail.state.cluster.cache import ClusterCache
from tests.contract.apiserver.objects import a_pod
from tests.kube.api_server import ImpatientLoop, served, until
from tests.support.telemetry import RecordedLog


class LaterLoop(AsyncioEventLoop):
    """A loop whose clock can be set ahead."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


def test_kinds_without_activity_are_stuck_until_an_event() -> None:
    async def story() -> None:
        async with served() as server:
            loop, cache = LaterLoop(), ClusterCache()
            limit = RateLimiter(clock=asyncio.get_running_loop().time)
            connection = Connection(server.access, rate_limiter=limit, user_agent="test")
            feed = Reflectors(cache, connection, loop=loop, random=SystemRandomSource(), log=RecordedLog())
            await feed.start()
            at_first = feed.stuck_kinds()

            loop.ahead = STUCK_AFTER + timedelta(seconds=1)
            in_silence = feed.stuck_kinds()
            server.api.create(PODS, a_pod("news"), "default")
            await until(lambda: cache.pod("default", "news") is not None, lambda: "news")
            after_news = feed.stuck_kinds()

            await loop.stop()
            await connection.close()
        assert at_first == []
        assert set(in_silence) == {store.qualified_name for store in cache.stores}
        assert "pods" not in after_news

    asyncio.run(story())


def test_a_cluster_is_disconnected_until_every_kind_is_watched_again() -> None:
    async def story() -> None:
        async with served() as server:
            loop, cache = ImpatientLoop(), ClusterCache()
            limit = RateLimiter(clock=asyncio.get_running_loop().time)
            connection = Connection(server.access, rate_limiter=limit, user_agent="test")
            feed = Reflectors(cache, connection, loop=loop, random=SystemRandomSource(), log=RecordedLog())
            await feed.start()
            at_first, began = feed.disconnected_since(), loop.now()

            await server.stop()
            await until(lambda: feed.disconnected_since() is not None)
            lost = feed.disconnected_since()
            await asyncio.sleep(0.2)
            still = feed.disconnected_since()
            await server.start()
            # Although no event arrives.
            await until(lambda: feed.disconnected_since() is None)

            await loop.stop()
            await connection.close()
        assert at_first is None
        assert lost is not None
        assert lost >= began
        assert still == lost

    asyncio.run(story())
