"""Disks of a virtual account: made where the scheduler wants them, gone with their claims.

Binding is left to the cluster's own controllers; this is only what the driver
of EBS would do.
"""

from typing import Final

from dovetail.model.labels import ZONE
from dovetail.ports.api_resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import AlreadyExists, NotFound
from dovetail.simulator.apiserver.interface import Verbs
from dovetail.simulator.apiserver.storage.frozen_object import look
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import Engine
from dovetail.simulator.storage.objects import new_volume
from dovetail.simulator.workqueue import follow

DRIVER: Final = "ebs.csi.aws.com"
KINDS: Final = (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES)
_FOR: Final = "volume.kubernetes.io/storage-provisioner"
"""By which the cluster says whose turn it is."""
_NODE: Final = "volume.kubernetes.io/selected-node"
_BY: Final = {"pv.kubernetes.io/provisioned-by": DRIVER}


class Disks:
    """Makes a volume for each claim that is meant for the driver of EBS."""

    def __init__(self, api: Verbs, engine: Engine, *, zone: str) -> None:
        """Make those that may be anywhere in ``zone``."""
        self._api = api
        self._zone = zone
        follow(api, engine, PERSISTENT_VOLUME_CLAIMS, self._claim_changed)
        follow(api, engine, PERSISTENT_VOLUMES, self._volume_changed)

    def _claim_changed(self, event: WatchEvent) -> None:
        claim = event.object
        meta = claim["metadata"]
        notes = meta.get("annotations") or {}
        if event.type is EventType.DELETED or meta.get("deletionTimestamp"):
            return
        if notes.get(_FOR) != DRIVER or claim["spec"].get("volumeName"):
            return
        node = notes.get(_NODE)
        try:
            zone = self._zone_of(node) if node else self._zone
        except NotFound:
            left = {key: one for key, one in notes.items() if key != _NODE}
            chosen_anew = {**claim, "metadata": {**meta, "annotations": left}}
            self._api.update(PERSISTENT_VOLUME_CLAIMS, chosen_anew)
            return
        self._make(claim, zone)

    def _make(self, claim: Object, zone: str) -> None:
        try:
            named = self._api.get(STORAGE_CLASSES, claim["spec"].get("storageClassName") or "")
            volume = new_volume(claim, driver=DRIVER, zone=zone, storage_class=named)
            volume["metadata"]["annotations"] = _BY
            self._api.create(PERSISTENT_VOLUMES, volume)
        except (AlreadyExists, NotFound):
            return  # Made before, or no longer wanted.

    def _zone_of(self, node: str) -> str:
        labels = self._api.get(NODES, node)["metadata"].get("labels") or {}
        return str(labels.get(ZONE, self._zone))

    def _volume_changed(self, event: WatchEvent) -> None:
        volume = event.object
        spec, meta = volume["spec"], volume["metadata"]
        if event.type is EventType.DELETED or meta.get("deletionTimestamp"):
            return
        released = look(volume, "status", "phase") == "Released"
        ours = look(spec, "csi", "driver") == DRIVER
        if released and ours and spec.get("persistentVolumeReclaimPolicy") == "Delete":
            self._api.delete(PERSISTENT_VOLUMES, meta["name"])
