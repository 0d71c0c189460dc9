"""What can be bought, worked out before the first pod asks for it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.ports.event_loop import Loop
from dovetail.state.cluster.cache import Change, Mirror

_SOON: Final = timedelta(milliseconds=250)
"""A class that becomes ready changes several times in a row."""


class Warming:
    """Has the cloud price its machines for every pool whenever pools or classes change.

    The first time takes the better part of a second, which is then not taken
    from a pod's.
    """

    def __init__(self, mirror: Mirror, types: Callable[[NodePool], object], *, loop: Loop) -> None:
        self._mirror = mirror
        self._types = types
        self._loop = loop
        self._is_planned = False
        for kind in (EC2_NODE_CLASSES, NODE_POOLS):
            mirror.subscribe(kind, self._changed)

    def _changed(self, _: Change) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._loop.spawn(self._warm())

    async def _warm(self) -> None:
        await self._loop.sleep(_SOON)
        self._is_planned = False
        for pool in self._mirror.pools():
            self._types(pool)
            # In between the lease has to be renewed, and probes want an answer: with dozens
            # of classes it takes longer than either can wait.
            await self._loop.sleep(timedelta())
