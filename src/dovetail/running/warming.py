"""What can be bought, worked out before the first pod asks for it."""

from datetime import timedelta
from typing import Final

from dovetail.ports.cloud import Cloud
from dovetail.ports.loop import Loop
from dovetail.ports.resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.state.mirror import Change, Mirror

_SOON: Final = timedelta(milliseconds=250)
"""A class that becomes ready changes several times in a row."""


class Warming:
    """Has the cloud price its machines for every pool whenever pools or classes change.

    The first time takes the better part of a second, which is then not taken
    from a pod's.
    """

    def __init__(self, mirror: Mirror, cloud: Cloud, *, loop: Loop) -> None:
        self._mirror = mirror
        self._cloud = cloud
        self._loop = loop
        self._is_planned = False
        for kind in (EC2_NODE_CLASSES, NODE_POOLS):
            mirror.subscribe(kind, self._changed)

    def _changed(self, _: Change) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._loop.at(self._loop.now() + _SOON, self._warm)

    def _warm(self) -> None:
        self._is_planned = False
        for pool in self._mirror.pools():
            self._cloud.instance_types(pool)
