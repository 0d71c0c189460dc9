"""ReplicaSets: as many pods as asked for, no more and no fewer."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from dovetail.ports.api_resources import PODS, REPLICA_SETS
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.controllermanager.conditions import (
    Conditions,
    conditions_of,
    replaced,
    without,
)
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.owner_references import (
    controller_of,
    controlling_key,
    find,
    is_leaving,
)
from dovetail.simulator.controllermanager.ownership.adoption import Belonging
from dovetail.simulator.controllermanager.ownership.owned_index import Child, Offspring
from dovetail.simulator.controllermanager.pods.failure_delay import Patience
from dovetail.simulator.controllermanager.pods.pod_index import Crew, Standing
from dovetail.simulator.controllermanager.pods.pod_template import pod_from
from dovetail.simulator.controllermanager.pods.scale_down_order import first_to_go
from dovetail.simulator.workqueue import Desk

_TRY_AGAIN: Final = timedelta(seconds=5)


class ReplicaSets:
    """Creates and deletes the pods of every ReplicaSet and counts them."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._desk: Desk[Key] = Desk(site.engine, self._sync)
        self._patience: Patience[Key] = Patience(site.engine)
        self._belonging = Belonging(site, self._desk.ask)
        site.pods.tell_of_pods("ReplicaSet", self._pod_changed)
        self._family = Offspring(site, REPLICA_SETS, self._heard)

    def _heard(self, child: Child) -> None:
        key = key_of(child.obj)
        if child.gone:
            self._belonging.forget(key)
            self._desk.forget(key)
            return
        self._belonging.learn(child.obj)
        self._desk.ask(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        owner = None if pod is None else controller_of(pod)
        if pod is not None and owner is not None:
            key = controlling_key(pod, owner)
            self._patience.note(key, old, new)
            self._desk.ask(key)

    def _sync(self, key: Key) -> None:
        found = find(self._site.api, REPLICA_SETS, key)
        if found is None:
            return
        self._belonging.settle(found)
        crew = self._site.pods.crew(found)
        trouble = "" if is_leaving(found) else self._level(found, crew)
        self._tell(found, crew, trouble)

    def _level(self, replica_set: Object, crew: Crew) -> str:
        """Create or delete pods; returns what kept it from doing so."""
        surplus = crew.active - int(replica_set["spec"].get("replicas", 1))
        if surplus > 0:
            self._remove(replica_set, crew, surplus)
        elif surplus < 0:
            return self._add(replica_set, -surplus)
        return ""

    def _add(self, replica_set: Object, count: int) -> str:
        wait = self._patience.left(key_of(replica_set))
        if wait > timedelta():
            self._desk.ask(key_of(replica_set), after=wait)
            return ""
        template: Mapping[str, Any] = replica_set["spec"].get("template") or {}
        pod = pod_from(template, replica_set)
        try:
            for _ in range(count):
                self._site.api.create(PODS, pod)
        except ApiError as error:
            self._desk.ask(key_of(replica_set), after=_TRY_AGAIN)
            return error.message
        return ""

    def _remove(self, replica_set: Object, crew: Crew, count: int) -> None:
        pods = crew.active_pods()
        if count < len(pods):
            pods = list(first_to_go(pods, relatives=self._relatives(replica_set)))
        for pod in pods[:count]:
            self._site.delete(PODS, pod)

    def _relatives(self, replica_set: Object) -> list[Object]:
        """Return the pods of all ReplicaSets that share this one's Deployment."""
        owner = controller_of(replica_set)
        family = [replica_set]
        if owner is not None:
            keys = self._family.of(owner["uid"])
            family = [one for key in keys if (one := find(self._site.api, REPLICA_SETS, key))]
        return [pod for one in family for pod in self._site.pods.crew(one).active_pods()]

    def _tell(self, replica_set: Object, crew: Crew, trouble: str) -> None:
        settle = timedelta(seconds=replica_set["spec"].get("minReadySeconds") or 0)
        available, look_again = crew.available(self._site.now(), settle=settle)
        if look_again is not None:
            self._desk.ask(key_of(replica_set), after=look_again - self._site.now())
        counts = {
            "fullyLabeledReplicas": crew.active,
            "readyReplicas": crew[Standing.READY],
            "availableReplicas": available,
        }
        status: dict[str, Any] = {
            "replicas": crew.active,
            **{name: count for name, count in counts.items() if count},
            "observedGeneration": replica_set["metadata"]["generation"],
        }
        conditions = self._conditions(replica_set, trouble)
        if conditions:
            status["conditions"] = conditions
        self._site.write_status(REPLICA_SETS, replica_set, status)

    def _conditions(self, replica_set: Object, trouble: str) -> Conditions:
        if not trouble:
            return without(conditions_of(replica_set), "ReplicaFailure")
        failure = {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate",
            "message": trouble,
        }
        return replaced(conditions_of(replica_set), failure, now=self._site.timestamp())
