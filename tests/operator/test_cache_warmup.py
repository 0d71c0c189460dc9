"""What can be bought is worked out early, and nothing else has to wait for that."""

import asyncio
from itertools import pairwise
from typing import Any

from dovetail.host.event_loop import AsyncioLoop
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.operator.cache_warmup import Warming
from dovetail.ports.api_resources import NODE_POOLS
from dovetail.state.cluster.cache import Mirror
from tests.support.boxes import a_pool


class Diary:
    """A cloud that notes what it was asked for, between what else happens."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def instance_types(self, pool: NodePool) -> tuple[()]:
        self.entries.append(pool.name)
        return ()

    async def tick(self) -> None:
        while True:
            self.entries.append("tick")
            await asyncio.sleep(0)


def named(*names: str) -> list[dict[str, Any]]:
    return [
        {**a_pool(), "metadata": {"name": name, "uid": name, "resourceVersion": "1"}}
        for name in names
    ]


def test_other_things_happen_between_one_pool_and_the_next() -> None:
    diary, names = Diary(), ["a", "b", "c"]

    async def story() -> None:
        mirror, loop = Mirror(), AsyncioLoop()
        Warming(mirror, diary.instance_types, loop=loop)
        mirror.replace(NODE_POOLS, named(*names), revision="1")
        loop.spawn(diary.tick())
        async with asyncio.timeout(20):
            while "c" not in diary.entries:
                await asyncio.sleep(0.01)
        await loop.stop()

    asyncio.run(story())

    asked = [place for place, one in enumerate(diary.entries) if one != "tick"]
    assert [diary.entries[place] for place in asked] == names
    assert all(later - sooner > 1 for sooner, later in pairwise(asked))
