"""Nodes whose instance the cloud no longer has are deleted, as cloud controllers do."""

from datetime import timedelta
from typing import Final

from dovetail.ports.api_resources import NODES
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.conditions import condition
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.owner_references import find, is_leaving
from dovetail.simulator.workqueue import Desk, follow

_EVERY: Final = timedelta(seconds=5)


class LostInstances:
    """Asks the cloud for the instances of nodes that are not ready, every few seconds."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._desk: Desk[str] = Desk(site.engine, self._look)
        follow(site.api, site.engine, NODES, self._heard)

    def _heard(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED or not _is_suspect(event.object):
            self._desk.forget(name)
        else:
            self._desk.ask(name, after=_EVERY)

    def _look(self, name: str) -> None:
        node = find(self._site.api, NODES, ("", name))
        exists = self._site.instance_exists
        if node is None or exists is None or not _is_suspect(node):
            return
        if exists(node["spec"]["providerID"]) is not False:
            self._desk.ask(name, after=_EVERY)
            return
        self._site.delete(NODES, node)


def _is_suspect(node: Object) -> bool:
    ready = condition(node, "Ready") or {}
    known = bool(look(node, "spec", "providerID"))
    return known and ready.get("status") != "True" and not is_leaving(node)
