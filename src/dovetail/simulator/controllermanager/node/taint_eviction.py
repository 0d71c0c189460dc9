"""Pods leave nodes whose NoExecute taints they do not tolerate, or no longer."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dovetail.model.kube.taints import Effect, Taint
from dovetail.ports.api_resources import NODES, PODS
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.conditions import conditions_of, replaced
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.daemonset.node_selection import toleration
from dovetail.simulator.controllermanager.owner_references import find, is_leaving
from dovetail.simulator.controllermanager.pods.pod_index import node_of
from dovetail.simulator.workqueue import Desk, follow

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class TaintEvictions:
    """Deletes pods from tainted nodes when their time is over; budgets do not matter."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._desk: Desk[Key] = Desk(site.engine, self._look)
        self._tainted: dict[str, dict[Taint, datetime]] = {}
        """NoExecute taints of the nodes that have any, and since when.

        Taints that people set do not say when; for them it is when we first
        saw them, as Kubernetes has it.
        """
        site.pods.tell_of_everything(self._pod_changed)
        follow(site.api, site.engine, NODES, self._node_changed)

    def _node_changed(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        before = self._tainted.pop(name, {})
        if event.type is EventType.DELETED:
            return
        now = self._site.now()
        found: dict[Taint, datetime] = {}
        for one in look(event.object, "spec", "taints") or ():
            if one["effect"] == Effect.NO_EXECUTE:
                taint = Taint(one["key"], Effect.NO_EXECUTE, one.get("value") or "")
                added = one.get("timeAdded")
                found[taint] = datetime.fromisoformat(added) if added else before.get(taint, now)
        if found:
            self._tainted[name] = found
        if found != before:
            for key in self._site.pods.on_node.get(name, ()):
                self._desk.ask(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or node_of(new) not in self._tainted:
            return
        if old is None or old["spec"] is not new["spec"]:
            self._desk.ask(key_of(new))

    def _look(self, key: Key) -> None:
        pod = find(self._site.api, PODS, key)
        if pod is None or is_leaving(pod):
            return
        taints = self._tainted.get(node_of(pod), {})
        until = min((_tolerated_until(pod, *one) for one in taints.items()), default=_NEVER)
        if until is _NEVER:
            return
        left = until - self._site.now()
        if left > timedelta():
            self._desk.ask(key, after=left)
        else:
            self._evict(pod)

    def _evict(self, pod: Object) -> None:
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": f"node {node_of(pod)} has a taint that the pod does not tolerate",
        }
        conditions = replaced(conditions_of(pod), target, now=self._site.timestamp())
        self._site.write_status(PODS, pod, {**pod["status"], "conditions": conditions})
        self._site.delete(PODS, pod)


def _tolerated_until(pod: Object, taint: Taint, since: datetime) -> datetime:
    """Tell until when a pod stays in spite of a taint."""
    consents: list[Mapping[str, Any]] = [
        one for one in pod["spec"].get("tolerations") or () if toleration(one).tolerates(taint)
    ]
    if not consents:
        return since
    limits = [one["tolerationSeconds"] for one in consents if "tolerationSeconds" in one]
    return since + timedelta(seconds=max(0, min(limits))) if limits else _NEVER
