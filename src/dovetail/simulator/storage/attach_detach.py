"""Attach/detach controller: attaches volumes to the nodes of their pods."""

from datetime import timedelta
from typing import Final

from dovetail.ports.api_resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from dovetail.ports.kube_errors import AlreadyExists, ApiError, NotFound
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.storage.objects import Key, encode_attachment, encode_ephemeral_claim, list_claims
from dovetail.simulator.workqueue import WorkQueue, start_watch

ClaimUse = tuple[Key, str]
"""A claim, and a node where pods use it."""
_TERMINAL: Final = ("Succeeded", "Failed")
_ATTACH_LATENCY: Final = timedelta(seconds=1)
_DETACH_LATENCY: Final = timedelta(seconds=2)
"""From the end of the last pod that used a volume on a node."""


class AttachDetachController:
    """Syncs VolumeAttachments with pods; creates the claims of ephemeral volumes."""

    def __init__(self, api: ApiServer, clock: VirtualClock) -> None:
        self._api = api
        self._attach_queue = WorkQueue[ClaimUse](clock, self._sync)
        self._attached_queue = WorkQueue[str](clock, self._mark_attached)
        self._detach_queue = WorkQueue[ClaimUse](clock, self._delete_attachment)
        self._users: dict[Key, dict[str, set[str]]] = {}
        """Claim → node → UIDs of the pods that use it there."""
        self._attachment_names: dict[ClaimUse, str] = {}
        """Claim and node → name of the VolumeAttachment."""
        start_watch(api, clock, PERSISTENT_VOLUME_CLAIMS, self._claim_changed)
        start_watch(api, clock, PODS, self._pod_changed)
        start_watch(api, clock, VOLUME_ATTACHMENTS, self._attachment_changed)

    def _pod_changed(self, event: WatchEvent) -> None:
        pod = event.object
        claims = list_claims(pod)
        if not claims:
            return
        deleted = event.type is EventType.DELETED
        terminated = deleted or get_field(pod, "status", "phase") in _TERMINAL
        node = pod["spec"].get("nodeName")
        for key, template in claims:
            if template is not None and not terminated:
                self._create_ephemeral_claim(pod, key, template)
            if node and terminated:
                self._pod_stopped((key, node), pod["metadata"]["uid"])
            elif node:
                nodes = self._users.setdefault(key, {})
                nodes.setdefault(node, set()).add(pod["metadata"]["uid"])
                self._attach_queue.add((key, node))

    def _create_ephemeral_claim(self, pod: Object, key: Key, template: Object) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            return
        try:
            self._api.create(PERSISTENT_VOLUME_CLAIMS, encode_ephemeral_claim(pod, key, template))
        except ApiError:
            return  # It exists already, or was rejected; then the pod stays unschedulable.

    def _pod_stopped(self, claim_use: ClaimUse, uid: str) -> None:
        key, node = claim_use
        nodes = self._users.get(key, {})
        users = nodes.get(node, set())
        users.discard(uid)
        if users:
            return
        nodes.pop(node, None)
        if not nodes:
            self._users.pop(key, None)
        if claim_use in self._attachment_names:
            self._detach_queue.add(claim_use, after=_DETACH_LATENCY)

    def _is_used(self, claim_use: ClaimUse) -> bool:
        return claim_use[1] in self._users.get(claim_use[0], {})

    def _claim_changed(self, event: WatchEvent) -> None:
        """Attach volumes for pods that were bound before their claim."""
        if get_field(event.object, "status", "phase") == "Bound":
            key = object_key(event.object)
            for node in self._users.get(key, {}):
                self._attach_queue.add((key, node))

    def _attachment_changed(self, event: WatchEvent) -> None:
        attachment = event.object
        if event.type is EventType.ADDED:
            claim_use = self._attachment_use(attachment)
            if claim_use is not None:
                self._attachment_names[claim_use] = attachment["metadata"]["name"]
                if not self._is_used(claim_use):
                    self._detach_queue.add(claim_use, after=_DETACH_LATENCY)
        if event.type is not EventType.DELETED and not get_field(attachment, "status", "attached"):
            self._attached_queue.add(attachment["metadata"]["name"], after=_ATTACH_LATENCY)

    def _attachment_use(self, attachment: Object) -> ClaimUse | None:
        name = get_field(attachment, "spec", "source", "persistentVolumeName") or ""
        claim = get_field(find_object(self._api, PERSISTENT_VOLUMES, name), "spec", "claimRef")
        return ((claim["namespace"], claim["name"]), attachment["spec"]["nodeName"]) if claim else None

    def _sync(self, claim_use: ClaimUse) -> None:
        """Attach a claim's volume to a node where a pod uses it."""
        if not self._is_used(claim_use):
            return
        self._detach_queue.discard(claim_use)
        (namespace, name), node = claim_use
        try:
            claim = self._api.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
            volume = self._api.get(PERSISTENT_VOLUMES, claim["spec"].get("volumeName", ""))
        except NotFound:
            return
        driver = get_field(volume, "spec", "csi", "driver")
        if driver is None or get_field(claim, "status", "phase") != "Bound":
            return
        try:
            self._api.create(VOLUME_ATTACHMENTS, encode_attachment(volume["metadata"]["name"], driver, node))
        except AlreadyExists:
            return

    def _mark_attached(self, name: str) -> None:
        attachment = find_object(self._api, VOLUME_ATTACHMENTS, name)
        if attachment is not None:
            status = {**(attachment.get("status") or {}), "attached": True}
            self._api.update(VOLUME_ATTACHMENTS, {**attachment, "status": status}, subresource="status")

    def _delete_attachment(self, claim_use: ClaimUse) -> None:
        try:
            self._api.delete(VOLUME_ATTACHMENTS, self._attachment_names.pop(claim_use))
        except NotFound:
            return
