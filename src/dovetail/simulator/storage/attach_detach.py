"""Volumes get attached to the nodes of the pods that use them, and detached after."""

from dovetail.ports.api_resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from dovetail.ports.kube_errors import AlreadyExists, ApiError, NotFound
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import Engine
from dovetail.simulator.storage.latencies import StorageLatencies
from dovetail.simulator.storage.objects import Key, claims_used, ephemeral_claim, new_attachment
from dovetail.simulator.workqueue import Desk, follow

Use = tuple[Key, str]
"""A claim and a node on which pods use it."""
_TERMINAL = ("Succeeded", "Failed")


class Attachments:
    """Keeps VolumeAttachments in step with pods; makes the claims of ephemeral volumes."""

    def __init__(self, api: ApiServer, engine: Engine, latencies: StorageLatencies) -> None:
        self._api = api
        self._latencies = latencies
        self._attach = Desk[Use](engine, self._look)
        self._attached = Desk[str](engine, self._mark_attached)
        self._detach = Desk[Use](engine, self._remove)
        self._users: dict[Key, dict[str, set[str]]] = {}
        """Claim → node → pods there that use it."""
        self._names: dict[Use, str] = {}
        """The attachments there are, by what they are for."""
        follow(api, engine, PERSISTENT_VOLUME_CLAIMS, self._claim_changed)
        follow(api, engine, PODS, self._pod_changed)
        follow(api, engine, VOLUME_ATTACHMENTS, self._attachment_changed)

    def _pod_changed(self, event: WatchEvent) -> None:
        pod = event.object
        used = claims_used(pod)
        if not used:
            return
        gone = event.type is EventType.DELETED
        over = gone or look(pod, "status", "phase") in _TERMINAL
        node = pod["spec"].get("nodeName")
        for key, template in used:
            if template is not None and not over:
                self._make_claim(pod, key, template)
            if node and over:
                self._stopped((key, node), pod["metadata"]["uid"])
            elif node:
                nodes = self._users.setdefault(key, {})
                nodes.setdefault(node, set()).add(pod["metadata"]["uid"])
                self._attach.ask((key, node))

    def _make_claim(self, pod: Object, key: Key, template: Object) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            return
        try:
            self._api.create(PERSISTENT_VOLUME_CLAIMS, ephemeral_claim(pod, key, template))
        except ApiError:
            return  # There already, or refused; then the pod tells that it waits for it.

    def _stopped(self, use: Use, uid: str) -> None:
        key, node = use
        nodes = self._users.get(key, {})
        users = nodes.get(node, set())
        users.discard(uid)
        if users:
            return
        nodes.pop(node, None)
        if not nodes:
            self._users.pop(key, None)
        if use in self._names:
            self._detach.ask(use, after=self._latencies.detach)

    def _is_used(self, use: Use) -> bool:
        return use[1] in self._users.get(use[0], {})

    def _claim_changed(self, event: WatchEvent) -> None:
        """Attach what pods, placed before their claim was bound, wait for."""
        if look(event.object, "status", "phase") == "Bound":
            key = key_of(event.object)
            for node in self._users.get(key, {}):
                self._attach.ask((key, node))

    def _attachment_changed(self, event: WatchEvent) -> None:
        one = event.object
        if event.type is EventType.ADDED:
            use = self._use_of(one)
            if use is not None:
                self._names[use] = one["metadata"]["name"]
                if not self._is_used(use):
                    self._detach.ask(use, after=self._latencies.detach)
        if event.type is not EventType.DELETED and not look(one, "status", "attached"):
            self._attached.ask(one["metadata"]["name"], after=self._latencies.attach)

    def _use_of(self, attachment: Object) -> Use | None:
        name = look(attachment, "spec", "source", "persistentVolumeName") or ""
        try:
            claim = look(self._api.get(PERSISTENT_VOLUMES, name), "spec", "claimRef")
        except NotFound:
            return None
        return (claim["namespace"], claim["name"]), attachment["spec"]["nodeName"]

    def _look(self, use: Use) -> None:
        """Attach a claim's volume to a node where a pod uses it."""
        if not self._is_used(use):
            return
        self._detach.forget(use)
        (namespace, name), node = use
        try:
            claim = self._api.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
            volume = self._api.get(PERSISTENT_VOLUMES, claim["spec"].get("volumeName", ""))
        except NotFound:
            return
        driver = look(volume, "spec", "csi", "driver")
        if driver is None or look(claim, "status", "phase") != "Bound":
            return
        try:
            wanted = new_attachment(volume["metadata"]["name"], driver, node)
            self._api.create(VOLUME_ATTACHMENTS, wanted)
        except AlreadyExists:
            return

    def _mark_attached(self, name: str) -> None:
        try:
            one = self._api.get(VOLUME_ATTACHMENTS, name)
        except NotFound:
            return
        status = {**(one.get("status") or {}), "attached": True}
        self._api.update(VOLUME_ATTACHMENTS, {**one, "status": status}, subresource="status")

    def _remove(self, use: Use) -> None:
        try:
            self._api.delete(VOLUME_ATTACHMENTS, self._names.pop(use))
        except NotFound:
            return
