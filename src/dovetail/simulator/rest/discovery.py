"""Discovery: groups, versions, resources and their verbs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import CAPACITY_BUFFERS, NAMESPACES, PODS, Resource
from dovetail.simulator.rest.access_reviews import REVIEWS

AGGREGATED_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_VERBS: Final = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"
)  # fmt: skip
_CATEGORY_ALL: Final = frozenset(
    "Pod Service Deployment ReplicaSet StatefulSet DaemonSet Job CronJob HorizontalPodAutoscaler".split()
)
"""Kinds of ``kubectl get all``."""


class _Subresource(msgspec.Struct, frozen=True):
    """Verbs of a subresource, and its kind if it is not that of the resource."""

    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""


_READ_WRITE: Final = ("get", "patch", "update")
_SUBRESOURCES: Final[Mapping[str, _Subresource]] = {
    "status": _Subresource(_READ_WRITE),
    "scale": _Subresource(_READ_WRITE, "autoscaling", "v1", "Scale"),
    "eviction": _Subresource(("create",), "policy", "v1", "Eviction"),
    "binding": _Subresource(("create",), "", "v1", "Binding"),
    "log": _Subresource(("get",)),
    "exec": _Subresource(("create", "get"), "", "v1", "PodExecOptions"),
    "attach": _Subresource(("create", "get"), "", "v1", "PodAttachOptions"),
    "portforward": _Subresource(("create", "get"), "", "v1", "PodPortForwardOptions"),
}
REST_ONLY_SUBRESOURCES: Final = {PODS: ("log", "exec", "attach", "portforward")}
"""Subresources that the API server in memory does not have."""


def group_versions(resources: Sequence[Resource]) -> tuple[str, ...]:
    """Return all groups with version, such as ``apps/v1``, in the order of the resources."""
    return tuple(dict.fromkeys(resource.api_version for resource in (*resources, *REVIEWS)))


def _versions_by_group(resources: Sequence[Resource]) -> dict[str, list[str]]:
    """Return the versions of each group, the preferred one first; the core group is ``""``."""
    groups: dict[str, list[str]] = {}
    for group_version in group_versions(resources):
        group, _, version = group_version.rpartition("/")
        groups.setdefault(group, []).append(version)
    return groups


def encode_api_versions() -> dict[str, Any]:
    """Return ``/api``."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def encode_api_group_list(resources: Sequence[Resource]) -> dict[str, Any]:
    """Return ``/apis``."""
    groups = _versions_by_group(resources)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_encode_group(name, versions) for name, versions in groups.items() if name],
    }


def encode_api_group(resources: Sequence[Resource], name: str) -> dict[str, Any] | None:
    """Return ``/apis/GROUP``."""
    versions = _versions_by_group(resources).get(name)
    if not name or versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_encode_group(name, versions)}


def _encode_group(name: str, versions: Sequence[str]) -> dict[str, Any]:
    encoded = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": encoded, "preferredVersion": encoded[0]}


def encode_api_resource_list(resources: Sequence[Resource], group_version: str) -> dict[str, Any] | None:
    """Return ``/api/v1`` or ``/apis/GROUP/VERSION``."""
    if group_version not in group_versions(resources):
        return None
    entries: list[dict[str, Any]] = []
    for resource in _resources(resources, group_version):
        verbs = list(_verbs(resource))
        entries.append({"name": resource.plural, **_names(resource), "verbs": verbs})
        for name in _subresources(resource):
            subresource = _SUBRESOURCES[name]
            entry: dict[str, Any] = {
                "name": f"{resource.plural}/{name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": subresource.kind or resource.kind,
                "verbs": list(subresource.verbs),
            }
            if subresource.kind:
                entry |= {"group": subresource.group, "version": subresource.version}
            entries.append(entry)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": entries,
    }


def encode_aggregated_discovery(resources: Sequence[Resource], *, core: bool) -> dict[str, Any]:
    """Return ``/api`` or ``/apis`` as aggregated discovery, with all resources."""
    groups = _versions_by_group(resources)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            _encode_aggregated_group(resources, name, versions)
            for name, versions in groups.items()
            if (not name) is core
        ],
    }


def _encode_aggregated_group(
    resources: Sequence[Resource], name: str, versions: Sequence[str]
) -> dict[str, Any]:
    encoded = [
        {
            "version": version,
            "freshness": "Current",
            "resources": [
                _encode_aggregated_resource(resource)
                for resource in _resources(resources, f"{name}/{version}" if name else version)
            ],
        }
        for version in versions
    ]
    return {"metadata": {"name": name}, "versions": encoded}


def _encode_aggregated_resource(resource: Resource) -> dict[str, Any]:
    names = _names(resource)
    return {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": names["singularName"],
        "verbs": list(_verbs(resource)),
        "shortNames": names.get("shortNames", []),
        "categories": names.get("categories", []),
        "subresources": [_encode_aggregated_subresource(resource, name) for name in _subresources(resource)],
    }


def _encode_aggregated_subresource(resource: Resource, name: str) -> dict[str, Any]:
    subresource = _SUBRESOURCES[name]
    owner = subresource if subresource.kind else resource
    return {
        "subresource": name,
        "responseKind": {"group": owner.group, "version": owner.version, "kind": owner.kind},
        "verbs": list(subresource.verbs),
    }


def _resources(resources: Sequence[Resource], group_version: str) -> list[Resource]:
    return [resource for resource in (*resources, *REVIEWS) if resource.api_version == group_version]


def _verbs(resource: Resource) -> tuple[str, ...]:
    if resource is NAMESPACES:
        return tuple(verb for verb in _VERBS if verb != "deletecollection")
    return ("create",) if resource in REVIEWS else _VERBS


def _subresources(resource: Resource) -> tuple[str, ...]:
    return (*resource.subresources, *REST_ONLY_SUBRESOURCES.get(resource, ()))


def _names(resource: Resource) -> dict[str, Any]:
    names: dict[str, Any] = {
        "singularName": resource.singular or resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if resource.kind in _CATEGORY_ALL:
        names["categories"] = ["all"]
    elif resource.categories:
        names["categories"] = list(resource.categories)
    elif resource.is_custom and not resource.singular:
        category = "autoscaling" if resource is CAPACITY_BUFFERS else "karpenter"
        names["categories"] = [category]
    return names
