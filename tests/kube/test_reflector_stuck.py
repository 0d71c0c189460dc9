"""A watch that neither hears nor tries anything for minutes is found out."""

import asyncio
from datetime import datetime, timedelta

from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.randomness import RealChance
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimit
from dovetail.kube.reflector import STUCK_AFTER, Feed
from dovetail.ports.api_resources import PODS
from dovetail.state.cluster.cache import Mirror
from tests.contract.apiserver.objects import a_pod
from tests.kube.serving import ImpatientLoop, served, until
from tests.support.telling import KeptLog


class LaterLoop(AsyncioLoop):
    """A loop whose clock can be set ahead."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


def test_kinds_of_which_nothing_was_heard_are_stuck_until_something_is() -> None:
    async def story() -> None:
        async with served() as server:
            loop, mirror = LaterLoop(), Mirror()
            limit = RateLimit(clock=asyncio.get_running_loop().time)
            connection = Connection(server.access, limit=limit, agent="test")
            feed = Feed(mirror, connection, loop=loop, chance=RealChance(), log=KeptLog())
            await feed.start()
            at_first = feed.stuck()

            loop.ahead = STUCK_AFTER + timedelta(seconds=1)
            in_silence = feed.stuck()
            server.api.create(PODS, a_pod("news"), "default")
            await until(lambda: mirror.pod("default", "news") is not None, lambda: "news")
            after_news = feed.stuck()

            await loop.stop()
            await connection.close()
        assert at_first == []
        assert set(in_silence) == {one.qualified for one in mirror.tables}
        assert "pods" not in after_news

    asyncio.run(story())


def test_a_cluster_that_cannot_be_followed_is_lost_until_every_kind_is_heard_of_again() -> None:
    async def story() -> None:
        async with served() as server:
            loop, mirror = ImpatientLoop(), Mirror()
            limit = RateLimit(clock=asyncio.get_running_loop().time)
            connection = Connection(server.access, limit=limit, agent="test")
            feed = Feed(mirror, connection, loop=loop, chance=RealChance(), log=KeptLog())
            await feed.start()
            at_first, began = feed.lost_since(), loop.now()

            await server.stop()
            await until(lambda: feed.lost_since() is not None)
            lost = feed.lost_since()
            await asyncio.sleep(0.2)
            still = feed.lost_since()
            await server.start()
            # Although nothing happens that could be told.
            await until(lambda: feed.lost_since() is None)

            await loop.stop()
            await connection.close()
        assert at_first is None
        assert lost is not None
        assert lost >= began
        assert still == lost

    asyncio.run(story())
