"""Where a pod's volumes let it run, and how many a node can attach.

Part of the checker: shares no code with the solver.
"""

from collections.abc import Mapping, Sequence

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import NodeTerm, Pod, PodVolume
from dovetail.model.kube.storage import BIND_COMPLETED, StorageClass, VolumeClaim
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.hosts import Host, Values, combinations, term_holds

Alternatives = tuple[NodeTerm, ...]
"""One of them must hold; none means no demand."""


class Storage:
    """Looks volumes up in a snapshot."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.claims = {claim.key: claim for claim in snapshot.volume_claims}
        self.volumes = {volume.name: volume for volume in snapshot.volumes}
        self.classes = {one.name: one for one in snapshot.storage_classes}

    def claim(self, pod: Pod, volume: PodVolume) -> VolumeClaim | None:
        known = self.claims.get(f"{pod.namespace}/{volume.claim}")
        if known is None and volume.ephemeral:
            # Kubernetes makes the claim with the pod, from the volume's template.
            wanted = volume.template_storage_class or self._default_class()
            return VolumeClaim(namespace=pod.namespace, name=volume.claim, storage_class=wanted)
        return known

    def _default_class(self) -> str:
        marked = [one for one in self.classes.values() if one.default]
        dated = [one for one in marked if one.created is not None]
        for one in sorted(dated, key=lambda one: str(one.created), reverse=True):
            return one.name
        return max((one.name for one in marked), default="")

    def usable(self, pod: Pod) -> bool:
        """Tell whether all volumes are such that a new node could help."""
        return all(self._usable(pod, volume) for volume in pod.spec.volumes)

    def _usable(self, pod: Pod, volume: PodVolume) -> bool:
        claim = self.claim(pod, volume)
        if claim is None or claim.deleting or claim.phase == "Lost":
            return False
        if claim.volume:
            held = self.volumes.get(claim.volume)
            bound = BIND_COMPLETED in claim.annotations
            return bound and held is not None and not held.deleting
        kind = self._class(claim)
        return kind is not None and not kind.immediate

    def _class(self, claim: VolumeClaim) -> StorageClass | None:
        return self.classes.get(claim.storage_class)

    def demands(self, pod: Pod) -> list[Alternatives]:
        """For each volume, the node terms of which one must hold."""
        found: list[Alternatives] = []
        for volume in pod.spec.volumes:
            claim = self.claim(pod, volume)
            if claim is None:
                continue
            held = self.volumes.get(claim.volume) if claim.volume else None
            if held is not None:
                found.append(_without_hostname(held.node_terms) if held.local else held.node_terms)
            elif not claim.volume and (kind := self._class(claim)) is not None:
                found.append(kind.topologies)
        return [terms for terms in found if terms]

    def attached(self, pods: Sequence[Pod]) -> dict[str, set[str]]:
        """CSI driver → distinct claims that these pods attach through it."""
        found: dict[str, set[str]] = {}
        for pod in pods:
            for volume in pod.spec.volumes:
                claim = self.claim(pod, volume)
                driver = "" if claim is None else self._driver(claim)
                if claim is not None and driver:
                    found.setdefault(driver, set()).add(claim.key)
        return found

    def _driver(self, claim: VolumeClaim) -> str:
        if claim.volume:
            held = self.volumes.get(claim.volume)
            return "" if held is None else held.driver
        kind = self._class(claim)
        return "" if kind is None else kind.provisioner


def _without_hostname(terms: Alternatives) -> Alternatives:
    left = [
        tuple(one for one in term.expressions if one.key != label_keys.HOSTNAME) for term in terms
    ]
    # A term that named the host only leaves the pod free.
    return () if not all(left) else tuple(NodeTerm(one) for one in left)


def volumes_reachable(demands: Sequence[Alternatives], possible: Mapping[str, Values]) -> bool:
    """Tell whether each volume can be reached however the node's labels turn out."""
    keys = {
        label_keys.stable_key(one.key)
        for terms in demands
        for term in terms
        for one in term.expressions
    }
    return all(
        any(term_holds(term, labels) for term in terms)
        for labels in combinations(keys, possible)
        for terms in demands
    )


def over_attached(host: Host, storage: Storage) -> str | None:
    """Return the driver through which a node would hold more volumes than it can."""
    if host.node is None or not host.arriving:
        return None
    limits = host.node.volume_limits
    for driver, claims in storage.attached([*host.resident, *host.arriving]).items():
        if driver in limits and len(claims) > limits[driver]:
            return driver
    return None
