"""What volumes say about where a pod can run, and how many a node can hold."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

import msgspec
import numpy as np

from dovetail.codec.fields import Field, Findings
from dovetail.codec.inputs.storage_class_defaults import default_class
from dovetail.codec.kube.nodes import decode_csi_node
from dovetail.codec.kube.storage import decode_claim, decode_storage_class, decode_volume
from dovetail.model.frozen import EMPTY
from dovetail.model.kube.pod import NodeTerm, PodVolume
from dovetail.model.kube.storage import StorageClass, Volume, VolumeClaim
from dovetail.ports.api_resources import (
    CSI_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Resource,
)
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.scheduler.equivalence import PodClass
from dovetail.simulator.scheduler.node_filters import Selecting
from dovetail.simulator.scheduler.node_table import Bools, NodeTable, PerSlot

T = TypeVar("T")
Terms = tuple[NodeTerm, ...]
Attachment = tuple[str, str]
"""CSI driver and claim."""

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_CONFLICT: Final = "node(s) had volume node affinity conflict"
_NOTHING_TO_BIND: Final = "node(s) didn't find available persistent volumes to bind"
_TOO_MANY: Final = "node(s) exceed max volume count"


class Verdict(msgspec.Struct, frozen=True):
    """What the volumes of a pod demand."""

    refusal: str = ""
    """Why no node at all will do."""
    bound: tuple[Terms, ...] = ()
    """Where each volume is that exists."""
    unbound: tuple[Terms, ...] = ()
    """Where each volume can be that is made for the node of the pod."""
    attachments: tuple[Attachment, ...] = ()
    waiting: tuple[str, ...] = ()
    """Claims that will be bound once a node is chosen."""


NO_VOLUMES: Final = Verdict()


class Claims:
    """Claims, volumes, classes and drivers, as the API server has them now."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._claims: dict[str, VolumeClaim] = {}
        self._volumes: dict[str, Volume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._limits: dict[str, Mapping[str, int]] = {}
        self._limit_of: dict[str, PerSlot] = {}
        self._attached: dict[str, PerSlot] = {}
        self._holders: dict[Attachment, Counter[int]] = {}
        self._selecting: dict[Terms, Selecting] = {}

    def take(self, resource: Resource, obj: Object, *, gone: bool) -> None:
        """Take over a change of one of the four kinds."""
        root = Field(obj, Findings(written_by_hand=False))
        if resource is PERSISTENT_VOLUME_CLAIMS:
            claim = decode_claim(root)
            _put(self._claims, claim.key, claim, gone)
        elif resource is PERSISTENT_VOLUMES:
            volume = decode_volume(root)
            _put(self._volumes, volume.name, volume, gone)
        elif resource is STORAGE_CLASSES:
            storage_class = decode_storage_class(root)
            _put(self._classes, storage_class.name, storage_class, gone)
        elif resource is CSI_NODES:
            node = decode_csi_node(root)
            limits: Mapping[str, int] = node.limits
            _put(self._limits, node.name, limits, gone)
            slot = self._table.slots.get(node.name)
            if slot is not None:
                self.node_came(node.name, slot)

    def node_came(self, name: str, slot: int) -> None:
        """Write a node's limits into its slot."""
        limits = self._limits.get(name, {})
        for driver in {*limits, *self._limit_of}:
            self._limit(driver).values[slot] = limits.get(driver, -1)

    def is_bound(self, key: str) -> bool:
        claim = self._claims.get(key)
        return claim is not None and claim.phase == "Bound"

    def verdict(self, kind: PodClass) -> Verdict:
        """Return what the volumes of a class of pods demand now."""
        if not kind.spec.volumes:
            return NO_VOLUMES
        verdict = NO_VOLUMES
        for volume in kind.spec.volumes:
            verdict = self._add(verdict, volume, f"{kind.namespace}/{volume.claim}")
            if verdict.refusal:
                break
        return verdict

    def refusals(self, needs: Verdict) -> Iterator[tuple[Bools, str]]:
        """Hand out which nodes the volumes rule out, and why."""
        if needs is NO_VOLUMES:
            return
        if needs.refusal:
            yield np.ones(len(self._table.facts), dtype=np.bool_), needs.refusal
        yield self._too_many(needs.attachments), _TOO_MANY
        for terms in needs.bound:
            yield ~self._where(terms), _CONFLICT
        for terms in needs.unbound:
            yield ~self._where(terms), _NOTHING_TO_BIND

    def attach(self, attachments: tuple[Attachment, ...], slot: int) -> None:
        for one in attachments:
            holders = self._holders.setdefault(one, Counter())
            holders[slot] += 1
            if holders[slot] == 1:
                self._attachments(one[0]).values[slot] += 1

    def detach(self, attachments: tuple[Attachment, ...], slot: int) -> None:
        for one in attachments:
            holders = self._holders[one]
            holders[slot] -= 1
            if not holders[slot]:
                del holders[slot]
                self._attachments(one[0]).values[slot] -= 1
                if not holders:
                    del self._holders[one]

    def _add(self, so_far: Verdict, volume: PodVolume, key: str) -> Verdict:
        claim = self._claims.get(key)
        if claim is None:
            why = f'persistentvolumeclaim "{volume.claim}" not found'
            return msgspec.structs.replace(so_far, refusal=why)
        if claim.deleting:
            why = f'persistentvolumeclaim "{claim.name}" is being deleted'
            return msgspec.structs.replace(so_far, refusal=why)
        return self._add_bound(so_far, claim) if claim.volume else self._add_unbound(so_far, claim)

    def _add_bound(self, so_far: Verdict, claim: VolumeClaim) -> Verdict:
        held = self._volumes.get(claim.volume)
        if held is None:
            why = f'persistentvolume "{claim.volume}" not found'
            return msgspec.structs.replace(so_far, refusal=why)
        return msgspec.structs.replace(
            so_far,
            bound=(*so_far.bound, held.node_terms) if held.node_terms else so_far.bound,
            attachments=_with(so_far.attachments, held.driver, claim.key),
        )

    def _add_unbound(self, so_far: Verdict, claim: VolumeClaim) -> Verdict:
        kind = self._classes.get(claim.storage_class)
        if not claim.storage_class:
            kind = default_class(self._classes.values())
        if kind is None or kind.immediate:
            why = "pod has unbound immediate PersistentVolumeClaims"
            return msgspec.structs.replace(so_far, refusal=why)
        if kind.provisioner == NO_PROVISIONER:
            return msgspec.structs.replace(so_far, refusal=_NOTHING_TO_BIND)
        return msgspec.structs.replace(
            so_far,
            unbound=(*so_far.unbound, kind.topologies) if kind.topologies else so_far.unbound,
            attachments=_with(so_far.attachments, kind.provisioner, claim.key),
            waiting=(*so_far.waiting, claim.key),
        )

    def _where(self, terms: Terms) -> Bools:
        known = self._selecting.get(terms)
        if known is None:
            known = self._selecting[terms] = Selecting(self._table, EMPTY, terms)
        return known.mask

    def _too_many(self, attachments: tuple[Attachment, ...]) -> Bools:
        refused = np.zeros(len(self._table.facts), dtype=np.bool_)
        for driver, number in Counter(driver for driver, _ in attachments).items():
            limit, taken = self._limit(driver).values, self._attachments(driver).values
            crowded = (limit >= 0) & (taken + number > limit)
            mine = [one for one in attachments if one[0] == driver]
            shared = {slot for one in mine for slot in self._holders.get(one, ())}
            for slot in shared:
                # What is attached already takes no further place.
                new = sum(slot not in self._holders.get(one, ()) for one in mine)
                crowded[slot] = limit[slot] >= 0 and taken[slot] + new > limit[slot]
            refused |= crowded
        return refused

    def _limit(self, driver: str) -> PerSlot:
        known = self._limit_of.get(driver)
        if known is None:
            known = self._limit_of[driver] = self._table.column(-1)
        return known

    def _attachments(self, driver: str) -> PerSlot:
        known = self._attached.get(driver)
        if known is None:
            known = self._attached[driver] = self._table.column()
        return known


def _put(where: dict[str, T], key: str, value: T, gone: bool) -> None:
    if gone:
        where.pop(key, None)
    else:
        where[key] = value


def _with(known: tuple[Attachment, ...], driver: str, claim: str) -> tuple[Attachment, ...]:
    return (*known, (driver, claim)) if driver else known
