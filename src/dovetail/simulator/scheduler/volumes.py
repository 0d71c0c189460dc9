"""Volume filters: volume zones, binding, and attachment limits per node."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

import msgspec
import numpy as np

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.inputs.storage_class_defaults import find_default_class
from dovetail.codec.kube.nodes import decode_csi_node
from dovetail.codec.kube.storage import (
    decode_persistent_volume,
    decode_persistent_volume_claim,
    decode_storage_class,
)
from dovetail.model.frozen import EMPTY
from dovetail.model.kube.pod import NodeSelectorTerm, PodVolume
from dovetail.model.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from dovetail.ports.api_resources import (
    CSI_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Resource,
)
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.node_filters import NodeAffinityFilter
from dovetail.simulator.scheduler.node_table import Bools, NodeColumn, NodeTable

T = TypeVar("T")
Terms = tuple[NodeSelectorTerm, ...]
Attachment = tuple[str, str]
"""CSI driver and claim."""

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_CONFLICT: Final = "node(s) had volume node affinity conflict"
_NOTHING_TO_BIND: Final = "node(s) didn't find available persistent volumes to bind"
_TOO_MANY: Final = "node(s) exceed max volume count"


class VolumeConstraints(msgspec.Struct, frozen=True):
    """Requirements of a pod's volumes on a node."""

    unschedulable_reason: str = ""
    """Reason why no node fits; empty otherwise."""
    bound: tuple[Terms, ...] = ()
    """Node affinity of each bound volume."""
    unbound: tuple[Terms, ...] = ()
    """Allowed topologies of each volume that is still to be provisioned."""
    attachments: tuple[Attachment, ...] = ()
    unbound_claims: tuple[str, ...] = ()
    """Claims that are bound once a node is chosen."""


NO_CONSTRAINTS: Final = VolumeConstraints()


class VolumeFilters:
    """Claims, volumes, storage classes and CSI nodes, from watch events."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._limits: dict[str, Mapping[str, int]] = {}
        self._limit_columns: dict[str, NodeColumn] = {}
        self._attached: dict[str, NodeColumn] = {}
        self._attached_slots: dict[Attachment, Counter[int]] = {}
        self._affinity_filters: dict[Terms, NodeAffinityFilter] = {}

    def update(self, resource: Resource, obj: Object, *, deleted: bool) -> None:
        """Apply a watch event of one of the four kinds."""
        root = Field(obj, DecodeContext(strict=False))
        if resource is PERSISTENT_VOLUME_CLAIMS:
            claim = decode_persistent_volume_claim(root)
            _store(self._claims, claim.key, claim, deleted)
        elif resource is PERSISTENT_VOLUMES:
            volume = decode_persistent_volume(root)
            _store(self._volumes, volume.name, volume, deleted)
        elif resource is STORAGE_CLASSES:
            storage_class = decode_storage_class(root)
            _store(self._classes, storage_class.name, storage_class, deleted)
        elif resource is CSI_NODES:
            node = decode_csi_node(root)
            limits: Mapping[str, int] = node.limits
            _store(self._limits, node.name, limits, deleted)
            slot = self._table.slots.get(node.name)
            if slot is not None:
                self.add_node(node.name, slot)

    def add_node(self, name: str, slot: int) -> None:
        """Write a node's attachment limits into its slot."""
        limits = self._limits.get(name, {})
        for driver in {*limits, *self._limit_columns}:
            self._limit(driver).values[slot] = limits.get(driver, -1)

    def is_bound(self, key: str) -> bool:
        claim = self._claims.get(key)
        return claim is not None and claim.phase == "Bound"

    def constraints_for(self, pod_class: PodClass) -> VolumeConstraints:
        """Return what the volumes of a pod class require now."""
        if not pod_class.spec.volumes:
            return NO_CONSTRAINTS
        constraints = NO_CONSTRAINTS
        for volume in pod_class.spec.volumes:
            constraints = self._add(constraints, volume, f"{pod_class.namespace}/{volume.claim}")
            if constraints.unschedulable_reason:
                break
        return constraints

    def violations(self, volumes: VolumeConstraints) -> Iterator[tuple[Bools, str]]:
        """Yield a mask of the nodes that the volumes rule out, and the reason."""
        if volumes is NO_CONSTRAINTS:
            return
        if volumes.unschedulable_reason:
            yield np.ones(len(self._table.facts), dtype=np.bool_), volumes.unschedulable_reason
        yield self._exceeding_limits(volumes.attachments), _TOO_MANY
        for terms in volumes.bound:
            yield ~self._matching_nodes(terms), _CONFLICT
        for terms in volumes.unbound:
            yield ~self._matching_nodes(terms), _NOTHING_TO_BIND

    def attach(self, attachments: tuple[Attachment, ...], slot: int) -> None:
        for attachment in attachments:
            slots = self._attached_slots.setdefault(attachment, Counter())
            slots[slot] += 1
            if slots[slot] == 1:
                self._attachments(attachment[0]).values[slot] += 1

    def detach(self, attachments: tuple[Attachment, ...], slot: int) -> None:
        for attachment in attachments:
            slots = self._attached_slots[attachment]
            slots[slot] -= 1
            if not slots[slot]:
                del slots[slot]
                self._attachments(attachment[0]).values[slot] -= 1
                if not slots:
                    del self._attached_slots[attachment]

    def _add(self, constraints: VolumeConstraints, volume: PodVolume, key: str) -> VolumeConstraints:
        claim = self._claims.get(key)
        if claim is None:
            reason = f'persistentvolumeclaim "{volume.claim}" not found'
            return msgspec.structs.replace(constraints, unschedulable_reason=reason)
        if claim.deleting:
            reason = f'persistentvolumeclaim "{claim.name}" is being deleted'
            return msgspec.structs.replace(constraints, unschedulable_reason=reason)
        return self._add_bound(constraints, claim) if claim.volume else self._add_unbound(constraints, claim)

    def _add_bound(self, constraints: VolumeConstraints, claim: PersistentVolumeClaim) -> VolumeConstraints:
        volume = self._volumes.get(claim.volume)
        if volume is None:
            reason = f'persistentvolume "{claim.volume}" not found'
            return msgspec.structs.replace(constraints, unschedulable_reason=reason)
        return msgspec.structs.replace(
            constraints,
            bound=(*constraints.bound, volume.node_terms) if volume.node_terms else constraints.bound,
            attachments=_with_attachment(constraints.attachments, volume.driver, claim.key),
        )

    def _add_unbound(self, constraints: VolumeConstraints, claim: PersistentVolumeClaim) -> VolumeConstraints:
        storage_class = self._classes.get(claim.storage_class)
        if not claim.storage_class:
            storage_class = find_default_class(self._classes.values())
        if storage_class is None or storage_class.binds_immediately:
            reason = "pod has unbound immediate PersistentVolumeClaims"
            return msgspec.structs.replace(constraints, unschedulable_reason=reason)
        if storage_class.provisioner == NO_PROVISIONER:
            return msgspec.structs.replace(constraints, unschedulable_reason=_NOTHING_TO_BIND)
        return msgspec.structs.replace(
            constraints,
            unbound=(*constraints.unbound, storage_class.allowed_topologies)
            if storage_class.allowed_topologies
            else constraints.unbound,
            attachments=_with_attachment(constraints.attachments, storage_class.provisioner, claim.key),
            unbound_claims=(*constraints.unbound_claims, claim.key),
        )

    def _matching_nodes(self, terms: Terms) -> Bools:
        affinity_filter = self._affinity_filters.get(terms)
        if affinity_filter is None:
            affinity_filter = self._affinity_filters[terms] = NodeAffinityFilter(self._table, EMPTY, terms)
        return affinity_filter.mask

    def _exceeding_limits(self, attachments: tuple[Attachment, ...]) -> Bools:
        rejected = np.zeros(len(self._table.facts), dtype=np.bool_)
        for driver, number in Counter(driver for driver, _ in attachments).items():
            limit, attached = self._limit(driver).values, self._attachments(driver).values
            exceeded = (limit >= 0) & (attached + number > limit)
            of_driver = [attachment for attachment in attachments if attachment[0] == driver]
            shared = {slot for attachment in of_driver for slot in self._attached_slots.get(attachment, ())}
            for slot in shared:
                # A volume that is attached already needs no further attachment.
                new = sum(slot not in self._attached_slots.get(attachment, ()) for attachment in of_driver)
                exceeded[slot] = limit[slot] >= 0 and attached[slot] + new > limit[slot]
            rejected |= exceeded
        return rejected

    def _limit(self, driver: str) -> NodeColumn:
        column = self._limit_columns.get(driver)
        if column is None:
            column = self._limit_columns[driver] = self._table.column(-1)
        return column

    def _attachments(self, driver: str) -> NodeColumn:
        column = self._attached.get(driver)
        if column is None:
            column = self._attached[driver] = self._table.column()
        return column


def _store(objects: dict[str, T], key: str, value: T, deleted: bool) -> None:
    if deleted:
        objects.pop(key, None)
    else:
        objects[key] = value


def _with_attachment(attachments: tuple[Attachment, ...], driver: str, claim: str) -> tuple[Attachment, ...]:
    return (*attachments, (driver, claim)) if driver else attachments
