"""Virtual EBS CSI driver: provisions and deletes PersistentVolumes.

Binding is left to the cluster's own controllers.
"""

from typing import Final

from dovetail.model.labels import ZONE
from dovetail.ports.api_resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import AlreadyExists, NotFound
from dovetail.simulator.apiserver.interface import ApiClient
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.storage.objects import encode_volume
from dovetail.simulator.workqueue import start_watch

DRIVER: Final = "ebs.csi.aws.com"
VOLUME_RESOURCES: Final = (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES)
_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
"""Annotation by which the cluster selects the driver."""
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_PROVISIONED_BY: Final = {"pv.kubernetes.io/provisioned-by": DRIVER}


class EbsProvisioner:
    """Provisions a volume for each claim of the EBS CSI driver."""

    def __init__(self, api: ApiClient, clock: VirtualClock, *, zone: str) -> None:
        """``zone``: where volumes without a selected node are created."""
        self._api = api
        self._zone = zone
        start_watch(api, clock, PERSISTENT_VOLUME_CLAIMS, self._claim_changed)
        start_watch(api, clock, PERSISTENT_VOLUMES, self._volume_changed)

    def _claim_changed(self, event: WatchEvent) -> None:
        claim = event.object
        meta = claim["metadata"]
        annotations = meta.get("annotations") or {}
        if event.type is EventType.DELETED or meta.get("deletionTimestamp"):
            return
        if annotations.get(_PROVISIONER) != DRIVER or claim["spec"].get("volumeName"):
            return
        node = annotations.get(_SELECTED_NODE)
        try:
            zone = self._zone_of(node) if node else self._zone
        except NotFound:
            # The node is gone: have the scheduler select another one.
            remaining = {key: value for key, value in annotations.items() if key != _SELECTED_NODE}
            unselected = {**claim, "metadata": {**meta, "annotations": remaining}}
            self._api.update(PERSISTENT_VOLUME_CLAIMS, unselected)
            return
        self._provision(claim, zone)

    def _provision(self, claim: Object, zone: str) -> None:
        try:
            storage_class = self._api.get(STORAGE_CLASSES, claim["spec"].get("storageClassName") or "")
            volume = encode_volume(claim, driver=DRIVER, zone=zone, storage_class=storage_class)
            volume["metadata"]["annotations"] = _PROVISIONED_BY
            self._api.create(PERSISTENT_VOLUMES, volume)
        except (AlreadyExists, NotFound):
            return  # Provisioned before, or the storage class is gone.

    def _zone_of(self, node: str) -> str:
        labels = self._api.get(NODES, node)["metadata"].get("labels") or {}
        return str(labels.get(ZONE, self._zone))

    def _volume_changed(self, event: WatchEvent) -> None:
        volume = event.object
        spec, meta = volume["spec"], volume["metadata"]
        if event.type is EventType.DELETED or meta.get("deletionTimestamp"):
            return
        is_released = get_field(volume, "status", "phase") == "Released"
        is_ebs = get_field(spec, "csi", "driver") == DRIVER
        if is_released and is_ebs and spec.get("persistentVolumeReclaimPolicy") == "Delete":
            self._api.delete(PERSISTENT_VOLUMES, meta["name"])
