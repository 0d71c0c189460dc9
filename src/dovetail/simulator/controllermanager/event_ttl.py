"""Events go an hour after they were last written, as an API server has it."""

from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final

from dovetail.ports.api_resources import EVENTS
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import Engine
from dovetail.simulator.workqueue import Desk, follow

KEPT: Final = timedelta(hours=1)
_SWEPT_EVERY: Final = timedelta(minutes=1)
"""At most; thousands that were written in one minute go together."""


class OldEvents:
    """Deletes Events; without this they would fill the memory of a cluster that runs for long."""

    def __init__(self, api: ApiServer, engine: Engine) -> None:
        self._api = api
        self._engine = engine
        self._written: dict[Key, datetime] = {}
        """Oldest first."""
        self._sweeping: Desk[None] = Desk(engine, lambda _: self._sweep())
        follow(api, engine, EVENTS, self._heard)

    def _heard(self, event: WatchEvent) -> None:
        key = key_of(event.object)
        self._written.pop(key, None)
        if event.type is not EventType.DELETED:
            self._written[key] = self._engine.now()
            self._sweeping.ask(None, after=KEPT)

    def _sweep(self) -> None:
        due = self._engine.now() - KEPT
        old = list(takewhile(lambda key: self._written[key] <= due, self._written))
        for key in old:
            del self._written[key]
            try:
                self._api.delete(EVENTS, key[1], key[0])
            except NotFound:
                continue  # The news of its end is on the way.
        for oldest in islice(self._written.values(), 1):
            self._sweeping.ask(None, after=max(oldest - due, _SWEPT_EVERY))
