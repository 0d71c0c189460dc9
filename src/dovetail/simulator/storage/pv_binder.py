"""PersistentVolume binder: binds claims to existing or provisioned volumes."""

from datetime import timedelta
from typing import Any, Final
from zlib import crc32

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.inputs.storage_class_defaults import find_default_class
from dovetail.codec.kube.storage import BETA_CLASS_ANNOTATION, IN_TREE_DRIVERS, decode_storage_class
from dovetail.model.kube.quantity import parse_quantity
from dovetail.model.kube.storage import StorageClass
from dovetail.model.labels import ZONE, normalize_key
from dovetail.ports.api_resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from dovetail.ports.kube_errors import AlreadyExists, NotFound
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.storage.objects import BIND_COMPLETED, Key, encode_claim_reference, encode_volume
from dovetail.simulator.workqueue import WorkQueue, start_watch

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_PROVISION_LATENCY: Final = timedelta(seconds=1)


class PersistentVolumeBinder:
    """Binds claims at once, or when the scheduler has selected a node."""

    def __init__(self, api: ApiServer, clock: VirtualClock) -> None:
        self._api = api
        self._queue = WorkQueue[Key](clock, self._sync)
        self._zones: dict[str, str] = {}
        """Node → zone."""
        self._classes: dict[str, StorageClass] = {}
        self._available: dict[str, Object] = {}
        """Name → volume that no claim is bound to."""
        self._unbound: dict[Key, None] = {}
        start_watch(api, clock, STORAGE_CLASSES, self._class_changed)
        start_watch(api, clock, NODES, self._node_changed)
        start_watch(api, clock, PERSISTENT_VOLUMES, self._volume_changed)
        start_watch(api, clock, PERSISTENT_VOLUME_CLAIMS, self._claim_changed)

    def _class_changed(self, event: WatchEvent) -> None:
        storage_class = decode_storage_class(Field(event.object, DecodeContext(strict=False)))
        if event.type is EventType.DELETED:
            self._classes.pop(storage_class.name, None)
        else:
            self._classes[storage_class.name] = storage_class
            self._requeue_unbound()

    def _node_changed(self, event: WatchEvent) -> None:
        meta = event.object["metadata"]
        zone = (meta.get("labels") or {}).get(ZONE, "")
        if event.type is EventType.DELETED:
            self._zones.pop(meta["name"], None)
        elif self._zones.get(meta["name"]) != zone:
            self._zones[meta["name"]] = zone
            self._requeue_unbound()

    def _volume_changed(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED or event.object["spec"].get("claimRef"):
            self._available.pop(name, None)
            return
        self._available[name] = event.object
        volume = find_object(self._api, PERSISTENT_VOLUMES, name)
        # The event may be stale: the volume may have been claimed or deleted since.
        is_pending = get_field(volume, "status", "phase") == "Pending"
        if volume is not None and is_pending and not volume["spec"].get("claimRef"):
            self._set_phase(volume, "Available")
        self._requeue_unbound()

    def _claim_changed(self, event: WatchEvent) -> None:
        claim, key = event.object, object_key(event.object)
        if event.type is EventType.DELETED:
            self._unbound.pop(key, None)
            self._reclaim(claim)
        elif get_field(claim, "status", "phase") == "Bound":
            self._unbound.pop(key, None)
        else:
            self._unbound[key] = None
            self._queue.add(key)

    def _requeue_unbound(self) -> None:
        for key in self._unbound:
            self._queue.add(key)

    def _sync(self, key: Key) -> None:
        """Bind a claim, if that is possible now."""
        claim = find_object(self._api, PERSISTENT_VOLUME_CLAIMS, key[1], key[0])
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return
        if get_field(claim, "status", "phase") == "Bound":
            return
        volume_name = claim["spec"].get("volumeName")
        if volume_name:
            self._bind(claim, volume_name)
            return
        storage_class = self._storage_class_of(claim)
        node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if storage_class is not None and not storage_class.binds_immediately and not node:
            return  # WaitForFirstConsumer: the scheduler selects the node first.
        volume_name = self._find_volume(claim, storage_class)
        if volume_name is not None:
            self._bind(claim, volume_name)
        elif storage_class is not None and storage_class.provisioner != NO_PROVISIONER:
            self._provision(claim, storage_class, node or "")

    def _storage_class_of(self, claim: Object) -> StorageClass | None:
        annotations = claim["metadata"].get("annotations") or {}
        name = claim["spec"].get("storageClassName", annotations.get(BETA_CLASS_ANNOTATION))
        if name is None:
            return find_default_class(self._classes.values())
        return self._classes.get(name)

    def _find_volume(self, claim: Object, storage_class: StorageClass | None) -> str | None:
        """Return the smallest available volume that satisfies a claim."""
        name = "" if storage_class is None else storage_class.name
        if storage_class is not None and storage_class.provisioner != NO_PROVISIONER:
            return None
        requested = parse_quantity(get_field(claim, "spec", "resources", "requests", "storage") or 0)
        access_modes = set(claim["spec"].get("accessModes") or ())
        fitting = [
            (size, volume["metadata"]["name"])
            for volume in self._available.values()
            if volume["spec"].get("storageClassName", "") == name
            and (size := parse_quantity(get_field(volume, "spec", "capacity", "storage") or 0)) >= requested
            and access_modes <= set(volume["spec"].get("accessModes") or ())
        ]
        return min(fitting)[1] if fitting else None

    def _provision(self, claim: Object, storage_class: StorageClass, node: str) -> None:
        """Provision a volume; the claim is bound after the provisioning latency."""
        zones = self._allowed_zones(storage_class)
        if node:
            zone = self._zones.get(node)
            if zone is None:
                self._clear_selected_node(claim)
                return
        elif zones:
            # Any zone will do; a claim always gets the same one.
            zone = zones[crc32(claim["metadata"]["name"].encode()) % len(zones)]
        else:
            return  # Retried with the first node.
        driver = IN_TREE_DRIVERS.get(storage_class.provisioner, storage_class.provisioner)
        try:
            wire = self._api.get(STORAGE_CLASSES, storage_class.name)
            volume = encode_volume(claim, driver=driver, zone=zone, storage_class=wire)
            self._api.create(PERSISTENT_VOLUMES, volume)
        except NotFound:
            return  # The storage class was deleted at this instant.
        except AlreadyExists:
            self._bind(claim, volume["metadata"]["name"])
        else:
            self._queue.add(object_key(claim), after=_PROVISION_LATENCY)

    def _allowed_zones(self, storage_class: StorageClass) -> list[str]:
        named = {
            value
            for term in storage_class.allowed_topologies
            for expression in term.expressions
            if normalize_key(expression.key) == ZONE
            for value in expression.values
        }
        return sorted(named or {zone for zone in self._zones.values() if zone})

    def _clear_selected_node(self, claim: Object) -> None:
        """Clear the selected node, which is gone, so that the scheduler selects another."""
        meta = claim["metadata"]
        left = {key: value for key, value in meta["annotations"].items() if key != SELECTED_NODE}
        self._api.update(PERSISTENT_VOLUME_CLAIMS, {**claim, "metadata": {**meta, "annotations": left}})

    def _bind(self, claim: Object, name: str) -> None:
        volume = find_object(self._api, PERSISTENT_VOLUMES, name)
        owner = get_field(volume, "spec", "claimRef", "uid")
        if volume is None or owner not in (None, claim["metadata"]["uid"]):
            return  # Retried when the volume is created.
        if owner is None:
            spec = {**volume["spec"], "claimRef": encode_claim_reference(claim)}
            volume = self._api.update(PERSISTENT_VOLUMES, {**volume, "spec": spec})
        self._set_phase(volume, "Bound")
        meta = claim["metadata"]
        notes = {**(meta.get("annotations") or {}), BIND_COMPLETED: "yes"}
        spec = {**claim["spec"], "volumeName": name}
        new = {**claim, "metadata": {**meta, "annotations": notes}, "spec": spec}
        bound = self._api.update(PERSISTENT_VOLUME_CLAIMS, new)
        status: dict[str, Any] = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes"),
            "capacity": volume["spec"].get("capacity"),
        }
        self._api.update(PERSISTENT_VOLUME_CLAIMS, {**bound, "status": status}, subresource="status")

    def _reclaim(self, claim: Object) -> None:
        """Delete or release the volume of a deleted claim, by its reclaim policy."""
        volume = find_object(self._api, PERSISTENT_VOLUMES, claim["spec"].get("volumeName", ""))
        if volume is None or get_field(volume, "spec", "claimRef", "uid") != claim["metadata"]["uid"]:
            return
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self._api.delete(PERSISTENT_VOLUMES, volume["metadata"]["name"])
        else:
            self._set_phase(volume, "Released")

    def _set_phase(self, volume: Object, phase: str) -> None:
        status = {**(volume.get("status") or {}), "phase": phase}
        self._api.update(PERSISTENT_VOLUMES, {**volume, "status": status}, subresource="status")
