"""Claims get their volumes: found among those there are, or made for them."""

from collections.abc import Iterable
from typing import Any, Final
from zlib import crc32

from dovetail.codec.fields import Field, Findings
from dovetail.codec.inputs.storage_class_defaults import default_class
from dovetail.codec.kube.storage import IN_TREE, OLD_CLASS, decode_storage_class
from dovetail.model.kube.quantity import parse_quantity
from dovetail.model.kube.storage import StorageClass
from dovetail.model.labels import ZONE, stable_key
from dovetail.ports.api_resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from dovetail.ports.kube_errors import AlreadyExists, NotFound
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import Engine
from dovetail.simulator.storage.latencies import StorageLatencies
from dovetail.simulator.storage.objects import BIND_COMPLETED, Key, claim_reference, new_volume
from dovetail.simulator.workqueue import Desk, follow

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class ClaimBinding:
    """Binds claims at once, or when a scheduler has chosen the node of their pod."""

    def __init__(self, api: ApiServer, engine: Engine, latencies: StorageLatencies) -> None:
        self._api = api
        self._latencies = latencies
        self._desk = Desk[Key](engine, self._look)
        self._zones: dict[str, str] = {}
        """Node → zone."""
        self._classes: dict[str, StorageClass] = {}
        self._free: dict[str, Object] = {}
        """Volumes that nobody has claimed."""
        self._unbound: dict[Key, None] = {}
        follow(api, engine, STORAGE_CLASSES, self._class_changed)
        follow(api, engine, NODES, self._node_changed)
        follow(api, engine, PERSISTENT_VOLUMES, self._volume_changed)
        follow(api, engine, PERSISTENT_VOLUME_CLAIMS, self._claim_changed)

    def _class_changed(self, event: WatchEvent) -> None:
        read = decode_storage_class(Field(event.object, Findings(written_by_hand=False)))
        if event.type is EventType.DELETED:
            self._classes.pop(read.name, None)
        else:
            self._classes[read.name] = read
            self._look_again()

    def _node_changed(self, event: WatchEvent) -> None:
        meta = event.object["metadata"]
        zone = (meta.get("labels") or {}).get(ZONE, "")
        if event.type is EventType.DELETED:
            self._zones.pop(meta["name"], None)
        elif self._zones.get(meta["name"]) != zone:
            self._zones[meta["name"]] = zone
            self._look_again()

    def _volume_changed(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED or event.object["spec"].get("claimRef"):
            self._free.pop(name, None)
            return
        self._free[name] = event.object
        self._offer(name)
        self._look_again()

    def _offer(self, name: str) -> None:
        """Say that a volume can be had."""
        try:
            volume = self._api.get(PERSISTENT_VOLUMES, name)
        except NotFound:
            return
        if look(volume, "status", "phase") == "Pending" and not volume["spec"].get("claimRef"):
            self._set_phase(volume, "Available")

    def _claim_changed(self, event: WatchEvent) -> None:
        claim, key = event.object, key_of(event.object)
        if event.type is EventType.DELETED:
            self._unbound.pop(key, None)
            self._reclaim(claim)
        elif look(claim, "status", "phase") == "Bound":
            self._unbound.pop(key, None)
        else:
            self._unbound[key] = None
            self._desk.ask(key)

    def _look_again(self) -> None:
        for key in self._unbound:
            self._desk.ask(key)

    def _look(self, key: Key) -> None:
        """Bind a claim if that can be done now."""
        try:
            claim = self._api.get(PERSISTENT_VOLUME_CLAIMS, key[1], key[0])
        except NotFound:
            return
        if look(claim, "status", "phase") == "Bound" or claim["metadata"].get("deletionTimestamp"):
            return
        wanted = claim["spec"].get("volumeName")
        if wanted:
            self._bind_to(claim, wanted)
            return
        storage_class = self._class_of(claim)
        node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if storage_class is not None and not storage_class.immediate and not node:
            return  # The scheduler has the word first.
        found = self._matching(claim, storage_class)
        if found is not None:
            self._bind_to(claim, found)
        elif storage_class is not None and storage_class.provisioner != NO_PROVISIONER:
            self._provision(claim, storage_class, node or "")

    def _class_of(self, claim: Object) -> StorageClass | None:
        annotations = claim["metadata"].get("annotations") or {}
        name = claim["spec"].get("storageClassName", annotations.get(OLD_CLASS))
        if name is None:
            return default_class(self._classes.values())
        return self._classes.get(name)

    def _matching(self, claim: Object, storage_class: StorageClass | None) -> str | None:
        """Return the smallest free volume that will do."""
        name = "" if storage_class is None else storage_class.name
        if storage_class is not None and storage_class.provisioner != NO_PROVISIONER:
            return None
        asked = parse_quantity(look(claim, "spec", "resources", "requests", "storage") or 0)
        fitting = [
            (size, one["metadata"]["name"])
            for one in self._free.values()
            if one["spec"].get("storageClassName", "") == name
            and (size := parse_quantity(look(one, "spec", "capacity", "storage") or 0)) >= asked
            and _covers(one["spec"].get("accessModes"), claim["spec"].get("accessModes"))
        ]
        return min(fitting)[1] if fitting else None

    def _provision(self, claim: Object, storage_class: StorageClass, node: str) -> None:
        """Make a volume; the time that takes is waited for before the claim is bound."""
        zones = self._allowed_zones(storage_class)
        if node:
            zone = self._zones.get(node)
            if zone is None:
                self._give_up(claim)
                return
        elif zones:
            # Any zone will do, and the same claim always gets the same one.
            zone = zones[crc32(claim["metadata"]["name"].encode()) % len(zones)]
        else:
            return  # Looked at again with the first node.
        driver = IN_TREE.get(storage_class.provisioner, storage_class.provisioner)
        try:
            wire = self._api.get(STORAGE_CLASSES, storage_class.name)
            volume = new_volume(claim, driver=driver, zone=zone, storage_class=wire)
            self._api.create(PERSISTENT_VOLUMES, volume)
        except NotFound:
            return  # The class went at this instant.
        except AlreadyExists:
            self._bind_to(claim, volume["metadata"]["name"])
        else:
            self._desk.ask(key_of(claim), after=self._latencies.provision)

    def _allowed_zones(self, storage_class: StorageClass) -> list[str]:
        named = {
            value
            for term in storage_class.topologies
            for one in term.expressions
            if stable_key(one.key) == ZONE
            for value in one.values
        }
        return sorted(named or {zone for zone in self._zones.values() if zone})

    def _give_up(self, claim: Object) -> None:
        """Let the scheduler choose again: the node it chose is gone."""
        meta = claim["metadata"]
        left = {key: one for key, one in meta["annotations"].items() if key != SELECTED_NODE}
        self._api.update(
            PERSISTENT_VOLUME_CLAIMS, {**claim, "metadata": {**meta, "annotations": left}}
        )

    def _bind_to(self, claim: Object, name: str) -> None:
        try:
            volume = self._api.get(PERSISTENT_VOLUMES, name)
        except NotFound:
            return  # Looked at again when it comes.
        owner = look(volume, "spec", "claimRef", "uid")
        if owner not in (None, claim["metadata"]["uid"]):
            return
        if owner is None:
            spec = {**volume["spec"], "claimRef": claim_reference(claim)}
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
        self._api.update(
            PERSISTENT_VOLUME_CLAIMS, {**bound, "status": status}, subresource="status"
        )

    def _reclaim(self, claim: Object) -> None:
        """Do with the volume of a claim that is gone what its policy says."""
        try:
            volume = self._api.get(PERSISTENT_VOLUMES, claim["spec"].get("volumeName", ""))
        except NotFound:
            return
        if look(volume, "spec", "claimRef", "uid") != claim["metadata"]["uid"]:
            return
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self._api.delete(PERSISTENT_VOLUMES, volume["metadata"]["name"])
        else:
            self._set_phase(volume, "Released")

    def _set_phase(self, volume: Object, phase: str) -> None:
        status = {**(volume.get("status") or {}), "phase": phase}
        self._api.update(PERSISTENT_VOLUMES, {**volume, "status": status}, subresource="status")


def _covers(held: Iterable[str] | None, asked: Iterable[str] | None) -> bool:
    return set(asked or ()) <= set(held or ())
