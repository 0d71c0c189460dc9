"""Topology of a pod's volumes, and limits of attached volumes.

Part of the checker: shares no code with the solver.
"""

from collections.abc import Mapping, Sequence

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import NodeSelectorTerm, Pod, PodVolume
from dovetail.model.kube.storage import BIND_COMPLETED, PersistentVolumeClaim, StorageClass
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.checker.nodes import CheckedNode, Values, combinations, matches_term

Alternatives = tuple[NodeSelectorTerm, ...]
"""Terms of which one must match; empty if all nodes match."""


class Storage:
    """Volumes, claims and storage classes of a snapshot."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.claims = {claim.key: claim for claim in snapshot.volume_claims}
        self.volumes = {volume.name: volume for volume in snapshot.volumes}
        self.classes = {storage_class.name: storage_class for storage_class in snapshot.storage_classes}

    def claim(self, pod: Pod, volume: PodVolume) -> PersistentVolumeClaim | None:
        claim = self.claims.get(f"{pod.namespace}/{volume.claim}")
        if claim is None and volume.ephemeral:
            # Kubernetes creates the claim with the pod, from the volume's template.
            storage_class = volume.template_storage_class or self._default_class()
            return PersistentVolumeClaim(
                namespace=pod.namespace, name=volume.claim, storage_class=storage_class
            )
        return claim

    def _default_class(self) -> str:
        defaults = [candidate for candidate in self.classes.values() if candidate.is_default]
        dated = [candidate for candidate in defaults if candidate.created is not None]
        if dated:
            return max(dated, key=lambda candidate: str(candidate.created)).name
        return max((candidate.name for candidate in defaults), default="")

    def is_usable(self, pod: Pod) -> bool:
        """Return True if a new node can provide all volumes."""
        return all(self._is_usable(pod, volume) for volume in pod.spec.volumes)

    def _is_usable(self, pod: Pod, volume: PodVolume) -> bool:
        claim = self.claim(pod, volume)
        if claim is None or claim.deleting or claim.phase == "Lost":
            return False
        if claim.volume:
            persistent = self.volumes.get(claim.volume)
            bound = BIND_COMPLETED in claim.annotations
            return bound and persistent is not None and not persistent.deleting
        storage_class = self._class(claim)
        return storage_class is not None and not storage_class.binds_immediately

    def _class(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        return self.classes.get(claim.storage_class)

    def node_terms_of(self, pod: Pod) -> list[Alternatives]:
        """Return the node terms of each volume, of which one must match."""
        alternatives: list[Alternatives] = []
        for volume in pod.spec.volumes:
            claim = self.claim(pod, volume)
            if claim is None:
                continue
            persistent = self.volumes.get(claim.volume) if claim.volume else None
            if persistent is not None:
                terms = persistent.node_terms
                alternatives.append(_without_hostname(terms) if persistent.is_local else terms)
            elif not claim.volume and (storage_class := self._class(claim)) is not None:
                alternatives.append(storage_class.allowed_topologies)
        return [terms for terms in alternatives if terms]

    def attached(self, pods: Sequence[Pod]) -> dict[str, set[str]]:
        """Return CSI driver → claims that these pods attach with it."""
        attached: dict[str, set[str]] = {}
        for pod in pods:
            for volume in pod.spec.volumes:
                claim = self.claim(pod, volume)
                driver = "" if claim is None else self._driver(claim)
                if claim is not None and driver:
                    attached.setdefault(driver, set()).add(claim.key)
        return attached

    def _driver(self, claim: PersistentVolumeClaim) -> str:
        if claim.volume:
            persistent = self.volumes.get(claim.volume)
            return "" if persistent is None else persistent.driver
        storage_class = self._class(claim)
        return "" if storage_class is None else storage_class.provisioner


def _without_hostname(terms: Alternatives) -> Alternatives:
    remaining = [
        tuple(expression for expression in term.expressions if expression.key != label_keys.HOSTNAME)
        for term in terms
    ]
    # A term with the hostname alone does not restrict the pod.
    return () if not all(remaining) else tuple(map(NodeSelectorTerm, remaining))


def are_volumes_reachable(volume_terms: Sequence[Alternatives], possible: Mapping[str, Values]) -> bool:
    """Return True if each volume is reachable for all possible labels of the node."""
    keys = {
        label_keys.normalize_key(expression.key)
        for terms in volume_terms
        for term in terms
        for expression in term.expressions
    }
    return all(
        any(matches_term(term, labels) for term in terms)
        for labels in combinations(keys, possible)
        for terms in volume_terms
    )


def find_exceeded_driver(node: CheckedNode, storage: Storage) -> str | None:
    """Return a CSI driver whose volume limit the node would exceed, or None."""
    if node.existing is None or not node.arriving:
        return None
    limits = node.existing.volume_limits
    for driver, claims in storage.attached([*node.resident, *node.arriving]).items():
        if driver in limits and len(claims) > limits[driver]:
            return driver
    return None
