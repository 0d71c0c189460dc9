"""Preflight check of RBAC permissions by SelfSubjectAccessReviews."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from dovetail.kube.connection import Connection
from dovetail.kube.preflight import PreflightError
from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import (
    CAPACITY_BUFFERS,
    DEPLOYMENTS,
    EC2_NODE_CLASSES,
    EVENTS,
    NODE_CLAIMS,
    NODE_OVERLAYS,
    NODE_POOLS,
    NODES,
    POD_TEMPLATES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from dovetail.ports.kube_errors import Forbidden, NotFound

_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Permission(msgspec.Struct, frozen=True):
    """Permission for a verb on all objects of a kind."""

    verb: str
    resource: Resource
    subresource: str = ""

    def __str__(self) -> str:
        plural, _, group = self.resource.qualified_name.partition(".")
        part = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {plural}{part}{'.' + group if group else ''}"


WRITE_PERMISSIONS: Final = (
    Permission("create", NODE_CLAIMS),
    Permission("patch", NODE_CLAIMS),
    Permission("patch", NODE_CLAIMS, "status"),
    Permission("delete", NODE_CLAIMS),
    Permission("patch", NODE_POOLS),
    Permission("patch", NODE_POOLS, "status"),
    Permission("patch", EC2_NODE_CLASSES),
    Permission("patch", EC2_NODE_CLASSES, "status"),
    Permission("patch", NODES),
    Permission("delete", NODES),
    Permission("create", PODS, "eviction"),
    Permission("delete", PODS),
    Permission("create", EVENTS),
)


GATE_PERMISSIONS: Final[Mapping[str, tuple[Permission, ...]]] = {
    "NominatedNodeName": (Permission("patch", PODS, "status"),),
    "NodeOverlay": (Permission("patch", NODE_OVERLAYS, "status"),),
    "CapacityBuffer": (
        Permission("patch", CAPACITY_BUFFERS, "status"),
        Permission("get", POD_TEMPLATES),
        Permission("get", DEPLOYMENTS),
        Permission("get", REPLICA_SETS),
        Permission("get", STATEFUL_SETS),
    ),
}
"""Feature gate → permissions that it needs in addition."""


async def check_permissions(
    connection: Connection,
    *,
    read: Iterable[Resource],
    gates: FeatureGates = FeatureGates(),  # noqa: B008 - frozen
) -> None:
    """Raise, with all missing permissions, unless we may read these kinds and write ours."""
    needed = [Permission(verb, resource) for resource in read for verb in ("list", "watch")]
    needed += WRITE_PERMISSIONS
    for gate, additional in GATE_PERMISSIONS.items():
        needed += additional if getattr(gates, gate) else ()
    try:
        allowed = await asyncio.gather(*(_is_allowed(connection, permission) for permission in needed))
    except (Forbidden, NotFound):
        return  # Reviews are not permitted: missing permissions fail later.
    missing = [
        str(permission) for permission, is_allowed in zip(needed, allowed, strict=True) if not is_allowed
    ]
    if missing:
        raise PreflightError(
            f"missing permissions: {', '.join(missing)}; bind the chart's ClusterRole to our user"
        )


async def _is_allowed(connection: Connection, permission: Permission) -> bool:
    attributes = {
        "verb": permission.verb,
        "group": permission.resource.group,
        "resource": permission.resource.plural,
        "subresource": permission.subresource,
    }
    review: dict[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    # A POST that changes nothing: replicas that do not lead may send it.
    response = await connection.request("POST", _PATH, body=review, mutates=False)
    return bool((response.get("status") or {}).get("allowed"))
