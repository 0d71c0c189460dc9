"""Stamps pools with the hash of their template, and claims when hashes come to mean another."""

from dovetail.controllers.runtime.manager import Registration
from dovetail.core.nodepool.hash import HASH_VERSION, Stamp, pool_hash, restamped
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.state.cluster.cache import Mirror


class Stamping:
    """Keeps the hash annotations of a pool up to date."""

    def __init__(self, *, mirror: Mirror, kube: Kube) -> None:
        self._mirror = mirror
        self._kube = kube

    async def reconcile(self, name: str) -> None:
        pool = self._mirror.pool(name)
        if pool is None or not pool.template.node_class.supported:
            return
        stamp = Stamp(pool_hash(pool))
        if pool.annotations.get(label_keys.NODEPOOL_HASH_VERSION) != HASH_VERSION:
            # The pool last: killed in between, we find its old version and do this again.
            await self._restamp_claims(name, stamp)
        wanted = stamp.annotations()
        if any(pool.annotations.get(key) != value for key, value in wanted.items()):
            patch = {"metadata": {"annotations": wanted}}
            await self._kube.patch(NODE_POOLS, name, patch)

    async def _restamp_claims(self, pool: str, stamp: Stamp) -> None:
        for claim in self._mirror.claims_in(pool):
            annotations = restamped(claim, stamp)
            if not annotations:
                continue
            try:
                patch = {"metadata": {"annotations": annotations}}
                await self._kube.patch(NODE_CLAIMS, claim.name, patch)
            except NotFound:
                continue  # Nothing to stamp any more.


def registration(*, mirror: Mirror, kube: Kube) -> Registration:
    """Return the controller."""
    return Registration(
        name="nodepool.hash",
        controller=Stamping(mirror=mirror, kube=kube),
        watches=[(NODE_POOLS, lambda change: (change.either.name,))],
    )
