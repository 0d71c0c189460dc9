"""Stamps node classes with their hash, and claims when hashes come to mean another."""

from dovetail.controllers.runtime.manager import Registration
from dovetail.core.nodeclass.hash import CLASS_HASH_VERSION, class_stamp, restamped_for_class
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.state.cluster.cache import Mirror


class ClassStamping:
    """Keeps the hash annotations of a class up to date."""

    def __init__(self, *, mirror: Mirror, kube: Kube, ca_bundle: str) -> None:
        self._mirror = mirror
        self._kube = kube
        self._ca_bundle = ca_bundle

    async def reconcile(self, name: str) -> None:
        node_class = self._mirror.node_class(name)
        if node_class is None or node_class.deleting:
            return
        wanted = class_stamp(node_class, self._ca_bundle)
        known = node_class.annotations
        if known.get(label_keys.EC2_NODE_CLASS_HASH_VERSION) != CLASS_HASH_VERSION:
            # The class last: killed in between, we find its old version and do this again.
            await self._restamp_claims(name, wanted)
        if any(known.get(key) != value for key, value in wanted.items()):
            try:
                patch = {"metadata": {"annotations": wanted}}
                await self._kube.patch(EC2_NODE_CLASSES, name, patch)
            except NotFound:
                return  # It went meanwhile.

    async def _restamp_claims(self, name: str, stamp: dict[str, str]) -> None:
        for claim in self._mirror.claims():
            if not claim.node_class.supported or claim.node_class.name != name:
                continue
            annotations = restamped_for_class(claim, stamp)
            if not annotations:
                continue
            try:
                patch = {"metadata": {"annotations": annotations}}
                await self._kube.patch(NODE_CLAIMS, claim.name, patch)
            except NotFound:
                continue  # Nothing to stamp any more.


def registration(*, mirror: Mirror, kube: Kube, ca_bundle: str = "") -> Registration:
    """Return the controller; the bundle is that of the cluster's certificate authority."""
    return Registration(
        name="nodeclass.hash",
        controller=ClassStamping(mirror=mirror, kube=kube, ca_bundle=ca_bundle),
        watches=[(EC2_NODE_CLASSES, lambda change: (change.either.name,))],
    )
