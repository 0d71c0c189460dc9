"""Volumes: which nodes can use them, and which CSI driver attaches them."""

from typing import Final, NamedTuple

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import NodeSelectorTerm, PodSpec, PodVolume
from dovetail.model.kube.requirements import NO_REQUIREMENTS, Requirements
from dovetail.model.kube.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, StorageClass
from dovetail.model.plan import Constraint, UnschedulableReason
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

_MAX_ALTERNATIVES: Final = 128
"""Node requirements of the volumes of a pod that are kept as alternatives."""


class VolumeConstraint(NamedTuple):
    """Constraints of a pod's volumes on its node."""

    topologies: list[Requirements]
    claims_by_driver: dict[str, frozenset[str]]
    """CSI driver → PersistentVolumeClaims, as ``namespace/name``."""


NO_VOLUMES = VolumeConstraint([NO_REQUIREMENTS], {})


class VolumeResolver:
    """Resolves volumes of pods in a snapshot."""

    def __init__(self, snapshot: ClusterSnapshot, settings: SchedulingSettings) -> None:
        self._claims = {claim.key: claim for claim in snapshot.volume_claims}
        self._volumes = {volume.name: volume for volume in snapshot.volumes}
        self._classes = {storage_class.name: storage_class for storage_class in snapshot.storage_classes}
        self._settings = settings

    def resolve(self, namespace: str, spec: PodSpec) -> VolumeConstraint | UnschedulableReason:
        """Return the constraints of a pod's volumes, or why they cannot be used."""
        if not spec.volumes:
            return NO_VOLUMES
        combined: list[Requirements] = [NO_REQUIREMENTS]
        drivers: dict[str, set[str]] = {}
        for volume in spec.volumes:
            resolved = self._look_up(namespace, volume)
            if isinstance(resolved, str):
                return UnschedulableReason("", Constraint.VOLUME, resolved)
            driver, alternatives = resolved
            if driver:
                drivers.setdefault(driver, set()).add(f"{namespace}/{volume.claim}")
            combined = _combine(combined, alternatives)
        return VolumeConstraint(combined, {name: frozenset(claims) for name, claims in drivers.items()})

    def attached_claims(self, namespace: str, spec: PodSpec) -> dict[str, set[str]]:
        """Return CSI driver → attached claims of a running pod; unresolvable ones are skipped."""
        attached: dict[str, set[str]] = {}
        for volume in spec.volumes:
            resolved = self._look_up(namespace, volume)
            if not isinstance(resolved, str) and resolved[0]:
                attached.setdefault(resolved[0], set()).add(f"{namespace}/{volume.claim}")
        return attached

    def _look_up(self, namespace: str, volume: PodVolume) -> tuple[str, list[Requirements]] | str:
        """Return (driver, node requirements as alternatives), or an error message."""
        name = f"{namespace}/{volume.claim}"
        claim = self._claims.get(name)
        if claim is None:
            if volume.ephemeral:
                named = volume.template_storage_class
                return self._unbound(name, self._default() if named is None else named)
            return f"volume claim {name} does not exist"
        if claim.deleting:
            return f"volume claim {name} is being deleted"
        if claim.phase == "Lost":
            return f"volume claim {name} has lost its volume"
        return self._bound(claim) if claim.volume else self._unbound(name, claim.storage_class)

    def _bound(self, claim: PersistentVolumeClaim) -> tuple[str, list[Requirements]] | str:
        volume = self._volumes.get(claim.volume)
        if volume is None:
            return f"volume claim {claim.key} is bound to {claim.volume}, which does not exist"
        if volume.deleting:
            return f"volume {volume.name} of claim {claim.key} is being deleted"
        if BIND_COMPLETED not in claim.annotations:
            return f"volume claim {claim.key} is not bound to {volume.name} yet"
        if volume.driver in self._settings.unsupported_provisioners:
            return f"volume claim {claim.key} uses driver {volume.driver}, which is not supported"
        return volume.driver, _node_alternatives(volume.node_terms, volume)

    def _unbound(self, name: str, class_name: str) -> tuple[str, list[Requirements]] | str:
        if not class_name:
            return f"volume claim {name} is not bound and has no StorageClass"
        storage_class = self._classes.get(class_name)
        if storage_class is None:
            return f"volume claim {name} uses StorageClass {class_name!r}, which does not exist"
        if storage_class.binds_immediately:
            return f"volume claim {name} is not bound yet (Immediate binding)"
        error = self._unsupported(storage_class)
        if error:
            return f"volume claim {name}: {error}"
        return storage_class.provisioner, _node_alternatives(storage_class.allowed_topologies, None)

    def _unsupported(self, storage_class: StorageClass) -> str:
        if storage_class.provisioner in self._settings.unsupported_provisioners:
            return f"provisioner {storage_class.provisioner} is not supported"
        keys = {entry.key for term in storage_class.allowed_topologies for entry in term.expressions}
        unsupported = sorted(keys & self._settings.unsupported_topology_keys)
        return f"topology key {unsupported[0]} is not supported" if unsupported else ""

    def _default(self) -> str:
        """Return the default StorageClass; the newest if there are several."""
        defaults = [storage_class for storage_class in self._classes.values() if storage_class.is_default]
        newest = max(
            defaults, key=lambda item: (item.created is not None, item.created, item.name), default=None
        )
        return newest.name if newest else ""


def _node_alternatives(
    terms: tuple[NodeSelectorTerm, ...], volume: PersistentVolume | None
) -> list[Requirements]:
    alternatives = []
    for term in terms:
        requirements = Requirements.from_specs(term.expressions)
        if volume is not None and volume.is_local:
            # Local volume: the node it names will not come back. Data loss is the user's choice.
            requirements = requirements.without(label_keys.HOSTNAME)
        alternatives.append(requirements)
    return alternatives or [NO_REQUIREMENTS]


def _combine(combined: list[Requirements], alternatives: list[Requirements]) -> list[Requirements]:
    """Return the compatible combinations of two lists of alternatives.

    If none is compatible, return all: the conflict is then reported. The number of
    combinations is limited: it would grow exponentially with the number of volumes.
    """
    pairs = [(a, b) for a in combined for b in alternatives[:_MAX_ALTERNATIVES]]
    fitting = [(a, b) for a, b in pairs if a.find_disjoint_key(b) is None]
    merged = dict.fromkeys(a.intersection(b.values()) for a, b in (fitting or pairs)[:_MAX_ALTERNATIVES])
    return list(merged)
