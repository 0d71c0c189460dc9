"""Handler for Helm releases, and for what they leave behind when uninstalled."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.eks.aws_client import AwsClient
from dovetail.eks.kubernetes.api import ApiAccess, DynamicClient
from dovetail.eks.kubernetes.helm import (
    Helm,
    HelmRelease,
    InstalledRelease,
    delete_pending_revisions,
    list_installed_releases,
)
from dovetail.eks.plan.resource import OWNERSHIP_TAG, DesiredResource, ObservedResource
from dovetail.eks.resources.handler import Attributes
from dovetail.ports.api_resources import NAMESPACES
from dovetail.ports.api_resources import Resource as ApiResource
from dovetail.ports.kube_client import Object

EXTRA_VALUES: Final = "(has values that are no longer desired)"
"""Differs from every desired value, so that the release is updated."""
_RELEASE_NAME: Final = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"
_MANAGED_BY_HELM: Final = "app.kubernetes.io/managed-by=Helm"
_CONTENT_KINDS: Final = (
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
    ("networking.k8s.io/v1", "Ingress"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
)
"""Kinds that make a namespace non-empty."""
_DEFAULT_OBJECTS: Final = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
"""Objects that Kubernetes creates in every namespace."""


class HelmReleaseHandler:
    """Releases, by namespace and name: read from the cluster, written by helm."""

    kind = "helm-release"

    def __init__(self, aws: AwsClient, api_access: ApiAccess, helm: Helm) -> None:
        self._cluster = aws.cluster
        self._leftovers = HelmLeftovers(aws)
        self._api_access = api_access
        self._helm = helm

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        api = await self._api_access.connect()
        if api is None:
            return []
        by_name = {resource.name: resource for resource in desired}
        observed: list[ObservedResource] = []
        for (namespace, name), release in (await list_installed_releases(api)).items():
            resource = by_name.get(f"{namespace}/{name}")
            if resource is not None:
                observed.append(self._to_observed(release, resource.properties))
            elif release.owner == self._cluster:
                observed.append(self._to_observed(release, {}))
        return observed

    async def create(self, resource: DesiredResource) -> Attributes:
        desired = resource.properties
        api = await self._api_access.wait_until_ready()
        if desired.get("createNamespace", True):
            await self._leftovers.create_namespace(api, desired["namespace"])
        name = resource.name.rpartition("/")[2]
        await delete_pending_revisions(api, name, desired["namespace"])
        await self._helm.install(
            HelmRelease(
                name=name,
                namespace=desired["namespace"],
                chart=desired["chart"],
                repository=desired.get("repository") or "",
                version=desired.get("version") or "",
                values=desired.get("values") or {},
                owner=self._cluster,
            )
        )
        return {}

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        return await self.create(resource)

    async def delete(self, observed: ObservedResource) -> None:
        namespace, _, name = observed.name.partition("/")
        api = await self._api_access.connect()
        if api is not None:
            await self._leftovers.delete_definitions(api, name, namespace)
            await self._helm.uninstall(name, namespace)
            api.invalidate_discovery()
            await self._leftovers.delete_namespace(api, namespace)

    def _to_observed(self, release: InstalledRelease, desired: Mapping[str, Any]) -> ObservedResource:
        chart = str(desired.get("chart", release.chart))
        # Helm does not record a chart's address, only its name: the last part of the address.
        is_same_chart = chart.rpartition("/")[2] == release.chart
        return ObservedResource(
            kind=self.kind,
            name=f"{release.namespace}/{release.name}",
            properties={
                "chart": chart if is_same_chart else release.chart,
                "version": release.version,
                "namespace": release.namespace,
                "values": _observed_values(release, desired.get("values") or {}),
            },
            tags={OWNERSHIP_TAG: release.owner} if release.owner else {},
        )


def _observed_values(release: InstalledRelease, desired: Mapping[str, Any]) -> Any:
    if release.status != "deployed":
        return f"(the release is {release.status or 'in an unknown state'})"
    if release.values == desired:
        return desired
    if _contains(release.values, desired):
        # Only desired keys are compared; a value that was removed from the file must be
        # removed from the release too.
        return EXTRA_VALUES
    return release.values


def _contains(values: Any, desired: Any) -> bool:
    if isinstance(values, Mapping) and isinstance(desired, Mapping):
        return all(key in values and _contains(values[key], value) for key, value in desired.items())
    return bool(values == desired)


class HelmLeftovers:
    """Namespaces and CustomResourceDefinitions that ``helm uninstall`` keeps."""

    def __init__(self, aws: AwsClient) -> None:
        self._aws = aws

    async def create_namespace(self, api: DynamicClient, name: str) -> None:
        """Create a namespace if absent, with the label that allows its deletion."""
        if await api.get(NAMESPACES, name) is None:
            metadata = {"name": name, "labels": {OWNERSHIP_TAG: self._aws.cluster}}
            manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            await api.apply(NAMESPACES, manifest)

    async def delete_definitions(self, api: DynamicClient, release: str, namespace: str) -> None:
        """Delete the release's CustomResourceDefinitions that have no objects.

        Runs before the release is uninstalled: its annotations identify them.
        """
        resource = await api.resource_for("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        if resource is not None:
            unused = [
                definition["metadata"]["name"]
                for definition in await api.list_objects(resource, labels=_MANAGED_BY_HELM)
                if _belongs_to(definition, release, namespace)
                and not await self._list_custom_objects(api, definition)
            ]
            await self._delete(api, resource, unused)

    async def delete_namespace(self, api: DynamicClient, name: str) -> None:
        """Delete a namespace that was created for releases, once it is empty."""
        namespace = await api.get(NAMESPACES, name)
        if namespace is not None and self._is_owned(namespace) and not await namespace_content(api, name):
            await self._delete(api, NAMESPACES, [name])

    async def _list_custom_objects(self, api: DynamicClient, definition: Object) -> Sequence[Object]:
        spec: Any = definition["spec"]
        version = next(version["name"] for version in spec["versions"] if version["served"])
        resource = await api.resource_for(f"{spec['group']}/{version}", spec["names"]["kind"])
        return [] if resource is None else await api.list_objects(resource)

    def _is_owned(self, namespace: Object) -> bool:
        labels = namespace["metadata"].get("labels") or {}
        return bool(labels.get(OWNERSHIP_TAG) == self._aws.cluster)

    async def _delete(self, api: DynamicClient, resource: ApiResource, names: Sequence[str]) -> None:
        for name in names:
            await api.delete(resource, name)

        async def poll() -> bool | None:
            remaining = [name for name in names if await api.get(resource, name) is not None]
            return None if remaining else True

        await self._aws.wait_for(f"{resource.kind} {', '.join(names)}: being deleted", poll)


async def namespace_content(api: DynamicClient, namespace: str) -> list[str]:
    """Return the objects in a namespace: "Kind/namespace/name".

    Objects that Kubernetes creates in every namespace do not count, nor do those
    that are terminating: pods of a release may be when helm returns.
    """
    content: list[str] = []
    for api_version, kind in _CONTENT_KINDS:
        resource = await api.resource_for(api_version, kind)
        for item in await api.list_objects(resource, namespace=namespace) if resource else ():
            metadata = item["metadata"]
            if "deletionTimestamp" not in metadata and (kind, metadata["name"]) not in _DEFAULT_OBJECTS:
                content.append(f"{kind}/{namespace}/{metadata['name']}")
    return content


def _belongs_to(definition: Object, release: str, namespace: str) -> bool:
    annotations = definition["metadata"].get("annotations") or {}
    owner = (annotations.get(_RELEASE_NAME), annotations.get(_RELEASE_NAMESPACE))
    return owner == (release, namespace)
