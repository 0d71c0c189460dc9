"""Pods that nobody else would ever remove: their node is gone, or they ended long ago."""

from datetime import timedelta
from typing import Final

from dovetail.ports.api_resources import NODES, PODS
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.conditions import conditions_of, replaced
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.owner_references import find
from dovetail.simulator.controllermanager.pods.pod_index import Standing, node_of, standing_of
from dovetail.simulator.workqueue import Desk, follow

_QUARANTINE: Final = timedelta(seconds=40)
"""How long a node may be missing before its pods go; a kubelet that registers anew saves them."""
_EVERY: Final = timedelta(seconds=20)
_KEPT_ENDED: Final = 12_500
_ENDED: Final = (Standing.SUCCEEDED, Standing.FAILED)


class PodGarbage:
    """Removes pods by force, since no kubelet is there to stop them."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._nodes: set[str] = set()
        self._ended: dict[Key, None] = {}
        """Pods that have finished, in the order they did."""
        self._missing: Desk[str] = Desk(site.engine, self._look_for)
        self._surplus: Desk[str] = Desk(site.engine, self._remove_surplus)
        site.pods.tell_of_everything(self._pod_changed)
        follow(site.api, site.engine, NODES, self._node_changed)

    def _node_changed(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._nodes.discard(name)
            self._missing.ask(name, after=_QUARANTINE)
        else:
            self._nodes.add(name)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._ended.pop(key_of(old), None)
            return
        node = node_of(new)
        if node and node not in self._nodes:
            self._missing.ask(node, after=_QUARANTINE)
        if standing_of(new) in _ENDED:
            self._ended[key_of(new)] = None
            if len(self._ended) > _KEPT_ENDED:
                self._surplus.ask("", after=_EVERY)

    def _look_for(self, node: str) -> None:
        if find(self._site.api, NODES, ("", node)) is not None:
            return
        for key in tuple(self._site.pods.on_node.get(node, ())):
            pod = find(self._site.api, PODS, key)
            if pod is not None:
                self._end(pod)
                self._site.delete(PODS, pod, grace_seconds=0)

    def _end(self, pod: Object) -> None:
        """Write that a pod has failed: whoever owns it must not count on it."""
        if standing_of(pod) in _ENDED:
            return
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": f"node {node_of(pod)} is gone",
        }
        conditions = replaced(conditions_of(pod), target, now=self._site.timestamp())
        status = {**pod["status"], "phase": "Failed", "conditions": conditions}
        self._site.write_status(PODS, pod, status)

    def _remove_surplus(self, _: str) -> None:
        surplus = len(self._ended) - _KEPT_ENDED
        for key in list(self._ended)[: max(0, surplus)]:
            pod = find(self._site.api, PODS, key)
            if pod is not None:
                self._site.delete(PODS, pod, grace_seconds=0)
