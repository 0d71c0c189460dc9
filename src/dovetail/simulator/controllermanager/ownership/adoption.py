"""Which pods are a workload's: it adopts those it selects, and lets go of others."""

from collections.abc import Callable

from dovetail.ports.api_resources import PODS
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.selectors import LabelTerms, labels_match, terms_of
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.owner_references import (
    controller_of,
    find,
    is_leaving,
    reference_to,
)
from dovetail.simulator.controllermanager.ownership.selector_index import SelectorIndex
from dovetail.simulator.controllermanager.pods.pod_index import ACTIVE, standing_of


class Belonging:
    """Adoption and release for all workloads of one kind."""

    def __init__(self, site: Site, ask: Callable[[Key], None]) -> None:
        self._site = site
        self._ask = ask
        self._selectors = SelectorIndex()
        self._known: dict[Key, LabelTerms] = {}
        self._prospects: dict[Key, dict[str, None]] = {}
        site.pods.tell_of_orphans(self._orphan)

    def learn(self, workload: Object) -> None:
        """Note what a workload selects; the first time, look for orphans among all pods."""
        key, terms = key_of(workload), selector_of(workload)
        if self._known.get(key) == terms:
            return
        self._known[key] = terms
        self._selectors.put(key, terms)
        for name, pod in self._site.pods.orphans.get(key[0], {}).items():
            if terms and labels_match(terms, pod["metadata"].get("labels")):
                self._prospects.setdefault(key, {})[name] = None

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)
        self._selectors.drop(key)
        self._prospects.pop(key, None)

    def settle(self, workload: Object) -> None:
        """Release pods that the selector no longer matches and adopt orphans that it does."""
        key, terms = key_of(workload), selector_of(workload)
        crew = self._site.pods.crew(workload)
        while crew.unchecked:
            name, _ = crew.unchecked.popitem()
            pod = crew.members[name].pod
            if not labels_match(terms, pod["metadata"].get("labels")):
                self._release(pod, workload)
        for name in self._prospects.pop(key, ()):
            orphan = find(self._site.api, PODS, (key[0], name))
            if orphan is not None and not is_leaving(workload):
                self._adopt(orphan, workload, terms)

    def _orphan(self, pod: Object) -> None:
        meta = pod["metadata"]
        for key in self._selectors.matching(meta["namespace"], meta.get("labels") or {}):
            if self._known[key]:
                self._prospects.setdefault(key, {})[meta["name"]] = None
                self._ask(key)

    def _adopt(self, pod: Object, workload: Object, terms: LabelTerms) -> None:
        meta = pod["metadata"]
        fits = standing_of(pod) in ACTIVE and labels_match(terms, meta.get("labels"))
        if fits and controller_of(pod) is None:
            owners = [*(meta.get("ownerReferences") or ()), reference_to(workload)]
            self._write_owners(pod, owners)

    def _release(self, pod: Object, workload: Object) -> None:
        uid = workload["metadata"]["uid"]
        now = find(self._site.api, PODS, key_of(pod))
        if now is None or is_leaving(now):
            return
        owners = now["metadata"].get("ownerReferences") or ()
        self._write_owners(now, [one for one in owners if one["uid"] != uid])

    def _write_owners(self, pod: Object, owners: list[Object]) -> None:
        namespace, name = key_of(pod)
        patch = {"metadata": {"ownerReferences": owners or None}}
        try:
            self._site.api.patch(PODS, name, patch, PatchType.MERGE, namespace)
        except ApiError:
            return  # Somebody took or removed it; the next event tells.


def selector_of(workload: Object) -> LabelTerms:
    """Return the terms of a workload's selector; none selects nothing here."""
    return terms_of(look(workload, "spec", "selector") or {})
