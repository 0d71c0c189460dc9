"""What helm leaves of a release: kinds that its chart keeps, and the namespace made for it."""

from collections.abc import Sequence
from typing import Any, Final

from dovetail.eks.aws_client import Reach
from dovetail.eks.kubernetes.api import KubeApi
from dovetail.eks.plan.resource import OWNER_TAG
from dovetail.ports.api_resources import NAMESPACES
from dovetail.ports.api_resources import Resource as KubeKind
from dovetail.ports.kube_client import Object

_RELEASE: Final = "meta.helm.sh/release-name"
_SPACE: Final = "meta.helm.sh/release-namespace"
_MANAGED: Final = "app.kubernetes.io/managed-by=Helm"
_HOLDING: Final = (
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("v1", "PersistentVolumeClaim"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
)
"""What people put into namespaces."""
_OF_EVERY_SPACE: Final = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}


class Leavings:
    """Takes away what a release leaves, as far as nobody else can need it."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def make_namespace(self, api: KubeApi, name: str) -> None:
        """Make a namespace that is not there: marked, so that it goes with the last release."""
        if await api.get(NAMESPACES, name) is None:
            meta = {"name": name, "labels": {OWNER_TAG: self._reach.cluster}}
            await api.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})

    async def clear_kinds(self, api: KubeApi, release: str, namespace: str) -> None:
        """Remove kinds that hold no object; before their release, by which they are known."""
        definitions = await api.kind_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        if definitions is not None:
            kept = [
                one["metadata"]["name"]
                for one in await api.all_of(definitions, labels=_MANAGED)
                if _is_of(one, release, namespace) and not await self._objects(api, one)
            ]
            await self._remove(api, definitions, kept)

    async def clear_namespace(self, api: KubeApi, namespace: str) -> None:
        """Remove a namespace that was made for releases, once it holds nothing."""
        space = await api.get(NAMESPACES, namespace)
        if space is not None and self._is_ours(space) and await self._is_empty(api, namespace):
            await self._remove(api, NAMESPACES, [namespace])

    async def _objects(self, api: KubeApi, definition: Object) -> Sequence[Object]:
        spec: Any = definition["spec"]
        version = next(one["name"] for one in spec["versions"] if one["served"])
        kind = await api.kind_of(f"{spec['group']}/{version}", spec["names"]["kind"])
        return [] if kind is None else await api.all_of(kind)

    async def _is_empty(self, api: KubeApi, namespace: str) -> bool:
        for api_version, name in _HOLDING:
            kind = await api.kind_of(api_version, name)
            for one in [] if kind is None else await api.all_of(kind, namespace=namespace):
                if (name, one["metadata"]["name"]) not in _OF_EVERY_SPACE:
                    return False
        return True

    def _is_ours(self, space: Object) -> bool:
        labels = space["metadata"].get("labels") or {}
        return bool(labels.get(OWNER_TAG) == self._reach.cluster)

    async def _remove(self, api: KubeApi, kind: KubeKind, names: Sequence[str]) -> None:
        for name in names:
            await api.delete(kind, name)

        async def look() -> bool | None:
            there = [name for name in names if await api.get(kind, name) is not None]
            return None if there else True

        await self._reach.until(f"{kind.kind} {', '.join(names)}: being removed", look)


def _is_of(definition: Object, release: str, namespace: str) -> bool:
    notes = definition["metadata"].get("annotations") or {}
    return (notes.get(_RELEASE), notes.get(_SPACE)) == (release, namespace)
