"""What there is: groups, versions, kinds and their verbs, as clients ask for it."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import (
    CAPACITY_BUFFERS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    JOBS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    RESOURCES,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from dovetail.simulator.rest.access_reviews import REVIEWS

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_VERBS: Final = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"
)  # fmt: skip
_IN_ALL: Final = frozenset(
    {
        PODS,
        SERVICES,
        DEPLOYMENTS,
        REPLICA_SETS,
        STATEFUL_SETS,
        DAEMON_SETS,
        JOBS,
        CRON_JOBS,
        HORIZONTAL_POD_AUTOSCALERS,
    }
)
"""What ``kubectl get all`` shows."""


class _Sub(msgspec.Struct, frozen=True):
    """A subresource: its verbs, and its kind where that is not its owner's."""

    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""


_CHANGED: Final = ("get", "patch", "update")
_SUBRESOURCES: Final[Mapping[str, _Sub]] = {
    "status": _Sub(_CHANGED),
    "scale": _Sub(_CHANGED, "autoscaling", "v1", "Scale"),
    "eviction": _Sub(("create",), "policy", "v1", "Eviction"),
    "binding": _Sub(("create",), "", "v1", "Binding"),
    "log": _Sub(("get",)),
    "exec": _Sub(("create", "get"), "", "v1", "PodExecOptions"),
    "attach": _Sub(("create", "get"), "", "v1", "PodAttachOptions"),
    "portforward": _Sub(("create", "get"), "", "v1", "PodPortForwardOptions"),
}
ONLY_OVER_HTTP: Final = {PODS: ("log", "exec", "attach", "portforward")}
"""Subresources of which the API server in memory knows nothing."""

GROUP_VERSIONS: Final = tuple(dict.fromkeys(one.api_version for one in (*RESOURCES, *REVIEWS)))


def core_versions() -> dict[str, Any]:
    """Answer ``/api``."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups() -> dict[str, Any]:
    """Answer ``/apis``."""
    named = [one for one in GROUP_VERSIONS if "/" in one]
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(one) for one in named],
    }


def group(name: str) -> dict[str, Any] | None:
    """Answer ``/apis/GROUP``."""
    for one in GROUP_VERSIONS:
        if one.startswith(f"{name}/"):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(one)}
    return None


def _group(group_version: str) -> dict[str, Any]:
    name, _, version = group_version.partition("/")
    shown = {"groupVersion": group_version, "version": version}
    return {"name": name, "versions": [shown], "preferredVersion": shown}


def resources(group_version: str) -> dict[str, Any] | None:
    """Answer ``/api/v1`` and ``/apis/GROUP/VERSION``."""
    if group_version not in GROUP_VERSIONS:
        return None
    entries: list[dict[str, Any]] = []
    for one in _served(group_version):
        entries.append({"name": one.plural, **_names(one), "verbs": list(_verbs(one))})
        for name in _subresources(one):
            sub = _SUBRESOURCES[name]
            entry: dict[str, Any] = {
                "name": f"{one.plural}/{name}",
                "singularName": "",
                "namespaced": one.namespaced,
                "kind": sub.kind or one.kind,
                "verbs": list(sub.verbs),
            }
            if sub.kind:
                entry |= {"group": sub.group, "version": sub.version}
            entries.append(entry)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": entries,
    }


def aggregated(*, core: bool) -> dict[str, Any]:
    """Answer ``/api`` or ``/apis`` to those who want everything at once."""
    wanted = [one for one in GROUP_VERSIONS if ("/" not in one) is core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(one) for one in wanted],
    }


def _aggregated_group(group_version: str) -> dict[str, Any]:
    name, _, version = group_version.rpartition("/")
    found = [_aggregated_resource(one) for one in _served(group_version)]
    return {
        "metadata": {"name": name},
        "versions": [{"version": version, "freshness": "Current", "resources": found}],
    }


def _aggregated_resource(one: Resource) -> dict[str, Any]:
    names = _names(one)
    return {
        "resource": one.plural,
        "responseKind": {"group": one.group, "version": one.version, "kind": one.kind},
        "scope": "Namespaced" if one.namespaced else "Cluster",
        "singularResource": names["singularName"],
        "verbs": list(_verbs(one)),
        "shortNames": names.get("shortNames", []),
        "categories": names.get("categories", []),
        "subresources": [_aggregated_sub(one, name) for name in _subresources(one)],
    }


def _aggregated_sub(one: Resource, name: str) -> dict[str, Any]:
    sub = _SUBRESOURCES[name]
    group, version, kind = (
        (sub.group, sub.version, sub.kind) if sub.kind else (one.group, one.version, one.kind)
    )
    return {
        "subresource": name,
        "responseKind": {"group": group, "version": version, "kind": kind},
        "verbs": list(sub.verbs),
    }


def _served(group_version: str) -> list[Resource]:
    return [one for one in (*RESOURCES, *REVIEWS) if one.api_version == group_version]


def _verbs(one: Resource) -> tuple[str, ...]:
    if one is NAMESPACES:
        return tuple(verb for verb in _VERBS if verb != "deletecollection")
    return ("create",) if one in REVIEWS else _VERBS


def _subresources(one: Resource) -> tuple[str, ...]:
    return (*one.subresources, *ONLY_OVER_HTTP.get(one, ()))


def _names(one: Resource) -> dict[str, Any]:
    names: dict[str, Any] = {
        "singularName": one.kind.lower(),
        "namespaced": one.namespaced,
        "kind": one.kind,
    }
    if one.short_names:
        names["shortNames"] = list(one.short_names)
    if one in _IN_ALL:
        names["categories"] = ["all"]
    elif one.custom:
        names["categories"] = ["autoscaling" if one is CAPACITY_BUFFERS else "karpenter"]
    return names
