"""Helm releases."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.eks.aws_client import Reach
from dovetail.eks.kubernetes.api import KubeDoor
from dovetail.eks.kubernetes.helm import Helm, Installed, Release, forget_unfinished, installed
from dovetail.eks.plan.resource import OWNER_TAG, Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.kubernetes.helm_leftovers import Leavings

_MORE: Final = "(holds what is no longer wanted)"


class HelmReleases:
    """Releases by namespace and name; read from the cluster, made by helm."""

    kind = "helm-release"

    def __init__(self, reach: Reach, door: KubeDoor, helm: Helm) -> None:
        self._cluster = reach.cluster
        self._leavings = Leavings(reach)
        self._door = door
        self._helm = helm

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        api = await self._door.open()
        if api is None:
            return []
        there = await installed(api)
        by_name = {one.name: one for one in wanted}
        found: list[Existing] = []
        for (namespace, release), one in there.items():
            resource = by_name.get(f"{namespace}/{release}")
            if resource is not None:
                found.append(self._existing(one, resource.properties))
            elif one.owner == self._cluster:
                found.append(self._existing(one, {}))
        return found

    async def create(self, resource: Resource) -> Attributes:
        wanted = resource.properties
        api = await self._door.ready()
        if wanted.get("createNamespace", True):
            await self._leavings.make_namespace(api, wanted["namespace"])
        name = resource.name.rpartition("/")[2]
        await forget_unfinished(api, name, wanted["namespace"])
        await self._helm.install(
            Release(
                name=name,
                namespace=wanted["namespace"],
                chart=wanted["chart"],
                repository=wanted.get("repository") or "",
                version=wanted.get("version") or "",
                values=wanted.get("values") or {},
                owner=self._cluster,
            )
        )
        return {}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        return await self.create(resource)

    async def remove(self, existing: Existing) -> None:
        namespace, _, name = existing.name.partition("/")
        api = await self._door.open()
        if api is not None:
            await self._leavings.clear_kinds(api, name, namespace)
            await self._helm.uninstall(name, namespace)
            api.forget_kinds()
            await self._leavings.clear_namespace(api, namespace)

    def _existing(self, one: Installed, wanted: Mapping[str, Any]) -> Existing:
        chart = str(wanted.get("chart", one.chart))
        # Where a chart came from is not written down; its name is the address's last part.
        same = chart.rpartition("/")[2] == one.chart
        return Existing(
            kind=self.kind,
            name=f"{one.namespace}/{one.name}",
            properties={
                "chart": chart if same else one.chart,
                "version": one.version,
                "namespace": one.namespace,
                "values": _values(one, wanted.get("values") or {}),
            },
            tags={OWNER_TAG: one.owner} if one.owner else {},
        )


def _values(one: Installed, wanted: Mapping[str, Any]) -> Any:
    if one.status != "deployed":
        return f"(the release is {one.status or 'in an unknown state'})"
    if one.values == wanted:
        return wanted
    if _holds(one.values, wanted):
        # Only wanted keys are compared; a value that was taken out of the file must go, too.
        return _MORE
    return one.values


def _holds(values: Any, wanted: Any) -> bool:
    if isinstance(values, Mapping) and isinstance(wanted, Mapping):
        return all(key in values and _holds(values[key], one) for key, one in wanted.items())
    return bool(values == wanted)
