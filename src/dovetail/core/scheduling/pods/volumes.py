"""Where a pod's volumes can be, and how many a node can attach."""

from typing import NamedTuple

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import NodeTerm, PodSpec, PodVolume
from dovetail.model.kube.requirements import ANYTHING, Requirements
from dovetail.model.kube.storage import BIND_COMPLETED, StorageClass, Volume, VolumeClaim
from dovetail.model.plan import Constraint, Refusal
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot


class Attached(NamedTuple):
    """What a pod's volumes demand of its node."""

    alternatives: list[Requirements]
    drivers: dict[str, frozenset[str]]
    """CSI driver → claims, as ``namespace/name``."""


NO_VOLUMES = Attached([ANYTHING], {})


class Volumes:
    """Looks volumes up in a snapshot."""

    def __init__(self, snapshot: ClusterSnapshot, settings: SchedulingSettings) -> None:
        self._claims = {claim.key: claim for claim in snapshot.volume_claims}
        self._volumes = {volume.name: volume for volume in snapshot.volumes}
        self._classes = {one.name: one for one in snapshot.storage_classes}
        self._settings = settings

    def of(self, namespace: str, spec: PodSpec) -> Attached | Refusal:
        """Return what the volumes of a pod demand, or why they cannot be used."""
        if not spec.volumes:
            return NO_VOLUMES
        combined: list[Requirements] = [ANYTHING]
        drivers: dict[str, set[str]] = {}
        for volume in spec.volumes:
            found = self._look_up(namespace, volume)
            if isinstance(found, str):
                return Refusal("", Constraint.VOLUME, found)
            driver, places = found
            if driver:
                drivers.setdefault(driver, set()).add(f"{namespace}/{volume.claim}")
            combined = _combine(combined, places)
        return Attached(combined, {name: frozenset(some) for name, some in drivers.items()})

    def drivers_of(self, namespace: str, spec: PodSpec) -> dict[str, set[str]]:
        """Return what a running pod has attached, leaving out what cannot be told."""
        attached: dict[str, set[str]] = {}
        for volume in spec.volumes:
            found = self._look_up(namespace, volume)
            if not isinstance(found, str) and found[0]:
                attached.setdefault(found[0], set()).add(f"{namespace}/{volume.claim}")
        return attached

    def _look_up(self, namespace: str, volume: PodVolume) -> tuple[str, list[Requirements]] | str:
        """Return (driver, places), or what is wrong."""
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

    def _bound(self, claim: VolumeClaim) -> tuple[str, list[Requirements]] | str:
        volume = self._volumes.get(claim.volume)
        if volume is None:
            return f"volume claim {claim.key} is bound to {claim.volume}, which does not exist"
        if volume.deleting:
            return f"volume {volume.name} of claim {claim.key} is being deleted"
        if BIND_COMPLETED not in claim.annotations:
            return f"volume claim {claim.key} is not bound to {volume.name} yet"
        if volume.driver in self._settings.unsupported_provisioners:
            return f"volume claim {claim.key} is provided by {volume.driver}: not supported"
        return volume.driver, _places(volume.node_terms, volume)

    def _unbound(self, name: str, class_name: str) -> tuple[str, list[Requirements]] | str:
        if not class_name:
            return f"volume claim {name} is not bound and names no storage class"
        storage_class = self._classes.get(class_name)
        if storage_class is None:
            return f"volume claim {name} wants storage class {class_name!r}, which does not exist"
        if storage_class.immediate:
            return f"volume claim {name} is still to be bound by its class (Immediate binding)"
        problem = self._unsupported(storage_class)
        if problem:
            return f"volume claim {name}: {problem}"
        return storage_class.provisioner, _places(storage_class.topologies, None)

    def _unsupported(self, storage_class: StorageClass) -> str:
        if storage_class.provisioner in self._settings.unsupported_provisioners:
            return f"provisioner {storage_class.provisioner} is not supported"
        keys = {one.key for term in storage_class.topologies for one in term.expressions}
        bad = sorted(keys & self._settings.unsupported_topology_keys)
        return f"topology key {bad[0]} is not supported" if bad else ""

    def _default(self) -> str:
        """Return the default storage class; the newest when there are several."""
        defaults = [one for one in self._classes.values() if one.default]
        newest = max(
            defaults, key=lambda one: (one.created is not None, one.created, one.name), default=None
        )
        return newest.name if newest else ""


def _places(terms: tuple[NodeTerm, ...], volume: Volume | None) -> list[Requirements]:
    places = []
    for term in terms:
        wanted = Requirements.of_specs(term.expressions)
        if volume is not None and volume.local:
            # The node it names will not come back; the data is the user's concern.
            wanted = wanted.without(label_keys.HOSTNAME)
        places.append(wanted)
    return places or [ANYTHING]


def _combine(so_far: list[Requirements], places: list[Requirements]) -> list[Requirements]:
    """Cross the alternatives of two volumes; impossible pairs stay only if all are."""
    pairs = [(a, b) for a in so_far for b in places]
    fitting = [(a, b) for a, b in pairs if a.clash(b) is None]
    return [a.and_also(b.values()) for a, b in (fitting or pairs)]
