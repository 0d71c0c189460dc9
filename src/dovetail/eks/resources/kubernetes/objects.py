"""Kubernetes objects, written by server-side apply and labelled as ours.

What a live object says about the fields that we want, and about no others.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from dovetail.eks.aws_client import Reach
from dovetail.eks.kubernetes.api import KubeApi, KubeDoor
from dovetail.eks.plan.references import references
from dovetail.eks.plan.resource import OWNER_TAG, Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.model import labels as label_keys
from dovetail.model.kube.quantity import parse_quantity
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from dovetail.ports.api_resources import Resource as KubeKind
from dovetail.ports.kube_client import Object


def projected(wanted: Any, live: Any) -> Any:
    """Return ``live`` reduced to what ``wanted`` speaks of.

    The API server fills in defaults, also inside lists, and writes quantities in
    its own way. What says the same comes out as it is wanted, so that plain
    comparison finds what differs.
    """
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        return {
            key: projected(inner, live.get(key))
            for key, inner in wanted.items()
            if key in live or _is_nothing(inner)
        }
    if isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        return [projected(one, other) for one, other in zip(wanted, live, strict=True)]
    if wanted == live or (_is_nothing(wanted) and _is_nothing(live)):
        return wanted
    return wanted if _is_same_quantity(wanted, live) else live


def _is_nothing(value: Any) -> bool:
    return value is None or value in ({}, [])


def _is_same_quantity(wanted: Any, live: Any) -> bool:
    try:
        return parse_quantity(wanted) == parse_quantity(live)
    except ValueError:
        return False


APPLIED: Final = "dovetail.sh/applied"
"""An annotation: the digest of the manifest that was applied last."""
_MORE: Final = "(holds what is no longer wanted)"
_OURS: Final = (NODE_POOLS, EC2_NODE_CLASSES)
"""Kinds that are looked through for what the file no longer names."""


class KubeObjects:
    """Objects of any kind; a NodePool goes with its claims."""

    kind = "kubernetes-object"

    def __init__(self, reach: Reach, door: KubeDoor) -> None:
        self._reach = reach
        self._door = door

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        api = await self._door.open()
        if api is None:
            return []
        found = await self._reach.loop.together([self._found(api, one) for one in wanted])
        seen: dict[str, Existing] = {}
        for one in found:
            if isinstance(one, Exception):
                raise one
            if one is not None:
                seen[one.name] = one
        for one in await self._others(api, cluster):
            seen.setdefault(one.name, one)
        return seen.values()

    async def create(self, resource: Resource) -> Attributes:
        return await self._apply(resource)

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        return await self._apply(resource)

    async def remove(self, existing: Existing) -> None:
        api = await self._door.open()
        manifest = existing.properties
        kind = await api.kind_of(manifest["apiVersion"], manifest["kind"]) if api else None
        if api is None or kind is None:
            return
        name, namespace = _place(manifest)
        await api.delete(kind, name, namespace)
        if kind.qualified == NODE_POOLS.qualified:
            await self._drain(api, name)

        async def look() -> bool | None:
            return True if await api.get(kind, name, namespace) is None else None

        await self._reach.until(f"{existing.address} is being removed", look)

    async def _apply(self, resource: Resource) -> Attributes:
        api, manifest = await self._door.ready(), resource.properties

        async def look() -> KubeKind | None:
            return await api.kind_of(manifest["apiVersion"], manifest["kind"])

        # A definition that was applied a moment ago is served a moment later.
        kind = await self._reach.until(
            f"the cluster does not serve {manifest['kind']} ({resource.name})",
            look,
            patience=self._reach.pace.settling,
        )
        await api.apply(kind, self._marked(manifest))
        return {}

    def _marked(self, manifest: Mapping[str, Any]) -> Object:
        meta = dict(manifest["metadata"])
        meta["labels"] = {**meta.get("labels", {}), OWNER_TAG: self._reach.cluster}
        meta["annotations"] = {**meta.get("annotations", {}), APPLIED: _digest(manifest)}
        return {**manifest, "metadata": meta}

    async def _found(self, api: KubeApi, one: Resource) -> Existing | None:
        manifest = one.properties
        kind = await api.kind_of(manifest["apiVersion"], manifest["kind"])
        if kind is None:
            return None
        live = await api.get(kind, *_place(manifest))
        if live is None:
            return None
        seen = projected(manifest, live)
        applied = (live["metadata"].get("annotations") or {}).get(APPLIED)
        whole = not any(references(manifest))
        if seen == manifest and whole and applied not in (None, _digest(manifest)):
            # Only wanted fields are compared, so that a field that was taken out of the file
            # would stay for ever.
            last = list(seen)[-1]
            seen = {**seen, last: _MORE}
        return _existing(one.name, seen, live)

    async def _others(self, api: KubeApi, cluster: str) -> list[Existing]:
        """Return pools and classes of ours that the file may no longer name."""
        found: list[Existing] = []
        for kind in _OURS:
            for live in await api.all_of(kind, labels=f"{OWNER_TAG}={cluster}"):
                whole = {"apiVersion": kind.api_version, "kind": kind.kind, **live}
                found.append(_existing(f"{kind.kind}/{live['metadata']['name']}", whole, live))
        return found

    async def _drain(self, api: KubeApi, pool: str) -> None:
        """Have a pool's claims go, and wait until their instances are gone with them."""
        selector = f"{label_keys.NODEPOOL}={pool}"

        async def look() -> bool | None:
            claims = await api.all_of(NODE_CLAIMS, labels=selector)
            for claim in claims:
                if not claim["metadata"].get("deletionTimestamp"):
                    await api.delete(NODE_CLAIMS, claim["metadata"]["name"])
            return None if claims else True

        await self._reach.until(
            f"NodeClaims of {pool} do not go (does the controller run? "
            f"kubectl get nodeclaims -l {selector})",
            look,
        )


def _existing(name: str, seen: Mapping[str, Any], live: Object) -> Existing:
    owner = (live["metadata"].get("labels") or {}).get(OWNER_TAG)
    return Existing(
        kind=KubeObjects.kind,
        name=name,
        properties=seen,
        tags={OWNER_TAG: owner} if owner else {},
    )


def _place(manifest: Mapping[str, Any]) -> tuple[str, str]:
    meta = manifest["metadata"]
    return meta["name"], meta.get("namespace", "")


def _digest(manifest: Mapping[str, Any]) -> str:
    return sha256(msgspec.json.encode(manifest, order="sorted")).hexdigest()[:16]
