"""PodDisruptionBudgets: what each says is allowed, kept up to date."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS, resource_of_kind
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.pdb import is_healthy
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.selectors import labels_match, terms_of
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.conditions import conditions_of, replaced
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.deployment.rollout import share
from dovetail.simulator.controllermanager.owner_references import controller_of, find
from dovetail.simulator.controllermanager.ownership.selector_index import SelectorIndex
from dovetail.simulator.workqueue import Desk, follow


class _Covered(NamedTuple):
    healthy: bool
    controller: Object | None


class _Flock:
    """The pods under one budget, counted as they change."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.healthy = 0
        self.pods: dict[str, _Covered] = {}
        self.controllers: dict[str, tuple[int, Object]] = {}
        """How many pods a controller has here, and a reference to it, by its uid."""

    def put(self, pod: Object) -> bool:
        """Count a pod as it is now; tells whether anything changed."""
        name, now = pod["metadata"]["name"], _Covered(is_healthy(pod), controller_of(pod))
        before = self.pods.get(name)
        if before == now:
            return False
        if before is not None:
            self.drop(name)
        self.pods[name] = now
        self.healthy += now.healthy
        if now.controller is not None:
            uid = now.controller["uid"]
            count, _ = self.controllers.get(uid, (0, None))
            self.controllers[uid] = count + 1, now.controller
        return True

    def drop(self, name: str) -> bool:
        before = self.pods.pop(name, None)
        if before is None:
            return False
        self.healthy -= before.healthy
        if before.controller is not None:
            uid = before.controller["uid"]
            count, reference = self.controllers.pop(uid)
            if count > 1:
                self.controllers[uid] = count - 1, reference
        return True


class DisruptionBudgets:
    """Writes the status of every budget.

    Evictions count for themselves (``apiserver.pdb``); this is what
    everybody else reads, and comes to the same numbers without looking at all
    pods for each change of one.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._desk: Desk[Key] = Desk(site.engine, self._sync)
        self._selectors = SelectorIndex()
        self._flocks: dict[Key, _Flock] = {}
        site.pods.tell_of_everything(self._pod_changed)
        follow(site.api, site.engine, POD_DISRUPTION_BUDGETS, self._heard)

    def _heard(self, event: WatchEvent) -> None:
        key = key_of(event.object)
        if event.type is EventType.DELETED:
            self._selectors.drop(key)
            self._flocks.pop(key, None)
            self._desk.forget(key)
            return
        self._desk.ask(key)
        spec = event.object.get("spec") or {}
        known = self._flocks.get(key)
        if known is None or known.spec != spec:
            self._gather(key, spec)

    def _gather(self, key: Key, spec: Mapping[str, Any]) -> None:
        flock = self._flocks[key] = _Flock(spec)
        selector = spec.get("selector")
        if selector is None:
            self._selectors.drop(key)
            return
        terms = terms_of(selector)
        self._selectors.put(key, terms)
        for pod in self._site.api.list(PODS, ListOptions(namespace=key[0])).items:
            if labels_match(terms, pod["metadata"].get("labels")):
                flock.put(pod)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is None or not self._flocks:
            return
        name = pod["metadata"]["name"]
        after = dict.fromkeys(() if new is None else self._over(new))
        for key in after:
            if self._flocks[key].put(pod):
                self._desk.ask(key)
        if old is not None and (new is None or not _same_labels(old, new)):
            for key in self._over(old):
                if key not in after and self._flocks[key].drop(name):
                    self._desk.ask(key)

    def _over(self, pod: Object) -> list[Key]:
        meta = pod["metadata"]
        return list(self._selectors.matching(meta["namespace"], meta.get("labels") or {}))

    def _sync(self, key: Key) -> None:
        budget, flock = find(self._site.api, POD_DISRUPTION_BUDGETS, key), self._flocks.get(key)
        if budget is None or flock is None:
            return
        counted = self._wanted(key[0], budget["spec"], flock)
        expected, desired = counted or (0, 0)
        allowed = max(0, flock.healthy - desired) if expected > 0 else 0
        reason = "SufficientPods" if allowed else "InsufficientPods"
        message = "" if allowed else "no pod may be disrupted now"
        if counted is None:
            reason, message = "SyncFailed", "a pod's controller does not say how many it wants"
        said = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "reason": reason,
            "message": message,
            "observedGeneration": budget["metadata"]["generation"],
        }
        status = {
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": allowed,
            "currentHealthy": flock.healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": replaced(conditions_of(budget), said, now=self._site.timestamp()),
        }
        self._site.write_status(POD_DISRUPTION_BUDGETS, budget, status)

    def _wanted(
        self, namespace: str, spec: Mapping[str, Any], flock: _Flock
    ) -> tuple[int, int] | None:
        """Return how many pods there should be and how many must stay healthy."""
        if "maxUnavailable" in spec:
            expected = self._expected(namespace, flock)
            if expected is None:
                return None
            most = share(spec["maxUnavailable"], expected, up=True, default=0)
            return expected, max(0, expected - most)
        least = spec.get("minAvailable", 0)
        if isinstance(least, int):
            return len(flock.pods), least
        expected = self._expected(namespace, flock)
        if expected is None:
            return None
        return expected, share(least, expected, up=True, default=0)

    def _expected(self, namespace: str, flock: _Flock) -> int | None:
        """Return the sum of what the pods' controllers want; None when one does not say."""
        scales: dict[str, int] = {}
        for _, reference in flock.controllers.values():
            controller = self._controller(namespace, reference)
            if controller is None:
                continue
            above = controller_of(controller)
            top = (above and self._controller(namespace, above)) or controller
            replicas = look(top, "spec", "replicas")
            if replicas is None:
                return None
            scales[top["metadata"]["uid"]] = replicas
        return sum(scales.values())

    def _controller(self, namespace: str, reference: Object) -> Object | None:
        resource = resource_of_kind(reference["apiVersion"], reference["kind"])
        if resource is None:
            return None
        found = find(self._site.api, resource, (namespace, reference["name"]))
        same = found is not None and found["metadata"]["uid"] == reference["uid"]
        return found if same else None


def _same_labels(one: Object, other: Object) -> bool:
    return bool(one["metadata"].get("labels") == other["metadata"].get("labels"))
