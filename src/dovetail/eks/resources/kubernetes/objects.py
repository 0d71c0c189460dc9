"""Handler for Kubernetes objects, written by server-side apply.

A live object is reduced to the fields of the desired manifest before it is
compared: defaults and fields of other managers are ignored.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from dovetail.eks.aws_client import AwsClient
from dovetail.eks.kubernetes.api import ApiAccess, DynamicClient
from dovetail.eks.plan.references import find_references
from dovetail.eks.plan.resource import OWNERSHIP_TAG, DesiredResource, ObservedResource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.kubernetes.helm import namespace_content
from dovetail.model import labels as label_keys
from dovetail.model.kube.quantity import parse_quantity
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from dovetail.ports.api_resources import Resource as ApiResource
from dovetail.ports.kube_client import Object

APPLIED_HASH: Final = "dovetail.sh/applied"
"""Annotation: hash of the manifest that was applied last."""
_EXTRA_FIELDS: Final = "(has fields that are no longer desired)"
"""Differs from every desired value, so that the object is updated."""
_OWNED_KINDS: Final = (
    (NODE_POOLS.api_version, NODE_POOLS.kind),
    (EC2_NODE_CLASSES.api_version, EC2_NODE_CLASSES.kind),
    *(("v1", kind) for kind in ("ConfigMap", "Service", "ServiceAccount")),
    *(("apps/v1", kind) for kind in ("DaemonSet", "Deployment", "StatefulSet")),
    *(("batch/v1", kind) for kind in ("CronJob", "Job")),
    *(
        ("rbac.authorization.k8s.io/v1", kind)
        for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    ),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
    ("networking.k8s.io/v1", "Ingress"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("storage.k8s.io/v1", "StorageClass"),
)
"""Kinds of which all owned objects are observed, also those not in the file.

Namespaces are observed too, unless others have put objects into one.
"""


class KubernetesObjectHandler:
    """Objects of any kind; a NodePool is deleted together with its NodeClaims."""

    kind = "kubernetes-object"

    def __init__(self, aws: AwsClient, api_access: ApiAccess) -> None:
        self._aws = aws
        self._api_access = api_access

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        api = await self._api_access.connect()
        if api is None:
            return []
        results = await self._aws.gather([self._observe_object(api, resource) for resource in desired])
        by_name = {result.name: result for result in results if result is not None}
        for owned in await self._list_owned(api, cluster):
            by_name.setdefault(owned.name, owned)
        removed = set(by_name) - {resource.name for resource in desired}
        for namespace in await self._list_kind(api, ("v1", "Namespace"), cluster):
            name = namespace.name.partition("/")[2]
            if namespace.name not in by_name and removed.issuperset(await namespace_content(api, name)):
                by_name[namespace.name] = namespace
        return by_name.values()

    async def create(self, resource: DesiredResource) -> Attributes:
        return await self._apply(resource)

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        return await self._apply(resource)

    async def delete(self, observed: ObservedResource) -> None:
        api = await self._api_access.connect()
        manifest = observed.properties
        resource = await api.resource_for(manifest["apiVersion"], manifest["kind"]) if api else None
        if api is None or resource is None:
            return
        name, namespace = _name_and_namespace(manifest)
        await api.delete(resource, name, namespace)
        if resource.qualified_name == NODE_POOLS.qualified_name:
            await self._delete_nodeclaims(api, name)

        async def poll() -> bool | None:
            return True if await api.get(resource, name, namespace) is None else None

        await self._aws.wait_for(f"{observed.address} is being deleted", poll)

    async def _apply(self, resource: DesiredResource) -> Attributes:
        api, manifest = await self._api_access.wait_until_ready(), resource.properties

        async def poll() -> ApiResource | None:
            return await api.resource_for(manifest["apiVersion"], manifest["kind"])

        # A kind is served some moments after its definition was applied.
        api_resource = await self._aws.wait_for(
            f"the cluster does not serve {manifest['kind']} ({resource.name})",
            poll,
            timeout=self._aws.polling.conflict_timeout,
        )
        await api.apply(api_resource, self._with_ownership(manifest))
        return {}

    def _with_ownership(self, manifest: Mapping[str, Any]) -> Object:
        metadata = dict(manifest["metadata"])
        metadata["labels"] = {**metadata.get("labels", {}), OWNERSHIP_TAG: self._aws.cluster}
        metadata["annotations"] = {**metadata.get("annotations", {}), APPLIED_HASH: _hash_manifest(manifest)}
        return {**manifest, "metadata": metadata}

    async def _observe_object(self, api: DynamicClient, resource: DesiredResource) -> ObservedResource | None:
        manifest = resource.properties
        api_resource = await api.resource_for(manifest["apiVersion"], manifest["kind"])
        if api_resource is None:
            return None
        live = await api.get(api_resource, *_name_and_namespace(manifest))
        if live is None:
            return None
        properties = project(manifest, live)
        applied = (live["metadata"].get("annotations") or {}).get(APPLIED_HASH)
        is_resolved = not any(find_references(manifest))
        if properties == manifest and is_resolved and applied not in (None, _hash_manifest(manifest)):
            # Only desired fields are compared. A field that was removed from the file shows
            # only in the hash; any difference makes the plan apply the manifest again.
            last = list(properties)[-1]
            properties = {**properties, last: _EXTRA_FIELDS}
        return _to_observed(resource.name, properties, live)

    async def _list_owned(self, api: DynamicClient, cluster: str) -> list[ObservedResource]:
        """Return the objects that we applied, in the file or not."""
        lists = await self._aws.gather([self._list_kind(api, kind, cluster) for kind in _OWNED_KINDS])
        return [owned for objects in lists for owned in objects]

    async def _list_kind(
        self, api: DynamicClient, kind: tuple[str, str], cluster: str
    ) -> list[ObservedResource]:
        resource = await api.resource_for(*kind)
        if resource is None:
            return []
        owned: list[ObservedResource] = []
        for live in await api.list_objects(resource, labels=f"{OWNERSHIP_TAG}={cluster}"):
            metadata = live["metadata"]
            if APPLIED_HASH in (metadata.get("annotations") or {}):
                manifest = {"apiVersion": resource.api_version, "kind": resource.kind, **live}
                parts = (resource.kind, metadata.get("namespace", ""), metadata["name"])
                owned.append(_to_observed("/".join(filter(None, parts)), manifest, live))
        return owned

    async def _delete_nodeclaims(self, api: DynamicClient, nodepool: str) -> None:
        """Delete a NodePool's NodeClaims, and wait until their instances are gone."""
        selector = f"{label_keys.NODEPOOL}={nodepool}"

        async def poll() -> bool | None:
            claims = await api.list_objects(NODE_CLAIMS, labels=selector)
            for claim in claims:
                if not claim["metadata"].get("deletionTimestamp"):
                    await api.delete(NODE_CLAIMS, claim["metadata"]["name"])
            return None if claims else True

        await self._aws.wait_for(
            f"NodeClaims of {nodepool} are not deleted (is the controller running? "
            f"kubectl get nodeclaims -l {selector})",
            poll,
        )


def project(desired: Any, live: Any) -> Any:
    """Return ``live`` reduced to the fields of ``desired``.

    The API server adds defaults, also inside lists, and normalizes quantities.
    Equivalent values come out as the desired ones, so that a plain comparison
    finds the real differences.
    """
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        return {
            key: project(inner, live.get(key))
            for key, inner in desired.items()
            if key in live or _is_empty(inner)
        }
    if isinstance(desired, list) and isinstance(live, list) and len(desired) == len(live):
        pairs = zip(desired, live, strict=True)
        return [project(desired_item, live_item) for desired_item, live_item in pairs]
    if desired == live or (_is_empty(desired) and _is_empty(live)):
        return desired
    return desired if _is_same_quantity(desired, live) else live


def _is_empty(value: Any) -> bool:
    return value is None or value in ({}, [])


def _is_same_quantity(desired: Any, live: Any) -> bool:
    try:
        return parse_quantity(desired) == parse_quantity(live)
    except ValueError:
        return False


def _to_observed(name: str, properties: Mapping[str, Any], live: Object) -> ObservedResource:
    owner = (live["metadata"].get("labels") or {}).get(OWNERSHIP_TAG)
    return ObservedResource(
        kind=KubernetesObjectHandler.kind,
        name=name,
        properties=properties,
        tags={OWNERSHIP_TAG: owner} if owner else {},
    )


def _name_and_namespace(manifest: Mapping[str, Any]) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return metadata["name"], metadata.get("namespace", "")


def _hash_manifest(manifest: Mapping[str, Any]) -> str:
    return sha256(msgspec.json.encode(manifest, order="sorted")).hexdigest()[:16]
