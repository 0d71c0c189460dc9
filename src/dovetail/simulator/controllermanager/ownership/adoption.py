"""Adoption: a workload adopts pods that it selects and releases others."""

from collections.abc import Callable

from dovetail.ports.api_resources import PODS
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.selectors import LabelSelector, decode_label_selector, labels_match
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.owner_references import (
    controller_of,
    controller_reference,
    is_deleting,
)
from dovetail.simulator.controllermanager.ownership.selector_index import SelectorIndex
from dovetail.simulator.controllermanager.pods.pod_index import ACTIVE, pod_state


class ControllerRefManager:
    """Adopts and releases the pods of all workloads of one kind."""

    def __init__(self, context: ManagerContext, enqueue: Callable[[ObjectKey], None]) -> None:
        self._context = context
        self._enqueue = enqueue
        self._selectors = SelectorIndex()
        self._selector_of: dict[ObjectKey, LabelSelector] = {}
        self._orphans_to_adopt: dict[ObjectKey, dict[str, None]] = {}
        context.pods.add_orphan_handler(self._orphan_changed)

    def update_selector(self, workload: Object) -> None:
        """Index a workload's selector; when it is new, look for orphans among all pods."""
        key, terms = object_key(workload), selector_of(workload)
        if self._selector_of.get(key) == terms:
            return
        self._selector_of[key] = terms
        self._selectors.update(key, terms)
        for name, pod in self._context.pods.orphans.get(key[0], {}).items():
            if terms and labels_match(terms, pod["metadata"].get("labels")):
                self._orphans_to_adopt.setdefault(key, {})[name] = None

    def forget(self, key: ObjectKey) -> None:
        self._selector_of.pop(key, None)
        self._selectors.remove(key)
        self._orphans_to_adopt.pop(key, None)

    def claim_pods(self, workload: Object) -> None:
        """Release pods that the selector no longer matches, and adopt orphans it matches."""
        key, terms = object_key(workload), selector_of(workload)
        owned_pods = self._context.pods.owned_by(workload)
        while owned_pods.unchecked:
            name, _ = owned_pods.unchecked.popitem()
            pod = owned_pods.members[name].pod
            if not labels_match(terms, pod["metadata"].get("labels")):
                self._release(pod, workload)
        for name in self._orphans_to_adopt.pop(key, ()):
            orphan = self._context.find(PODS, (key[0], name))
            if orphan is not None and not is_deleting(workload):
                self._adopt(orphan, workload, terms)

    def _orphan_changed(self, pod: Object) -> None:
        meta = pod["metadata"]
        for key in self._selectors.matching(meta["namespace"], meta.get("labels") or {}):
            if self._selector_of[key]:
                self._orphans_to_adopt.setdefault(key, {})[meta["name"]] = None
                self._enqueue(key)

    def _adopt(self, pod: Object, workload: Object, terms: LabelSelector) -> None:
        meta = pod["metadata"]
        is_adoptable = pod_state(pod) in ACTIVE and labels_match(terms, meta.get("labels"))
        if is_adoptable and controller_of(pod) is None:
            owners = [*(meta.get("ownerReferences") or ()), controller_reference(workload)]
            self._patch_owners(pod, owners)

    def _release(self, pod: Object, workload: Object) -> None:
        uid = workload["metadata"]["uid"]
        current = self._context.find(PODS, object_key(pod))
        if current is None or is_deleting(current):
            return
        owners = current["metadata"].get("ownerReferences") or ()
        self._patch_owners(current, [owner for owner in owners if owner["uid"] != uid])

    def _patch_owners(self, pod: Object, owners: list[Object]) -> None:
        namespace, name = object_key(pod)
        patch = {"metadata": {"ownerReferences": owners or None}}
        try:
            self._context.api.patch(PODS, name, patch, PatchType.MERGE, namespace)
        except ApiError:
            return  # Adopted or deleted meanwhile; the next event requeues the workload.


def selector_of(workload: Object) -> LabelSelector:
    """Return a workload's selector; an empty one selects nothing here."""
    return decode_label_selector(get_field(workload, "spec", "selector") or {})
