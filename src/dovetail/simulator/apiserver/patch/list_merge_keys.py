"""Lists that are merged item by item, and the key fields of their items.

Kubernetes declares these as ``patchMergeKey`` and ``x-kubernetes-list-map-keys`` of
its types. All other lists are atomic: they are replaced as a whole, ``taints`` and
``tolerations`` included.
"""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.ports.api_resources import SERVICES, Resource

Keys = tuple[str, ...]

PATCH_MERGE_KEYS: Final[Mapping[str, str]] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "drivers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "matchConditions": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "variables": "name",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Key field of the items, for strategic merge patch."""

LIST_MAP_KEYS: Final[Mapping[str, Keys]] = {
    **{field: (key,) for field, key in PATCH_MERGE_KEYS.items()},
    "ports": ("containerPort", "protocol"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
"""Key fields of the items, for server-side apply; more than for strategic merge."""

SET_LISTS: Final = frozenset({"finalizers", "podCIDRs"})
"""Lists of strings that are merged as sets (``x-kubernetes-list-type: set``)."""

KEY_DEFAULTS: Final[Mapping[str, str]] = {"protocol": "TCP"}
"""Defaults of key fields."""

_METADATA_LISTS: Final = frozenset({"ownerReferences"})
"""Merged for custom resources too, whose other lists are atomic."""


def patch_merge_key(resource: Resource, field: str) -> str | None:
    """Return the key field of a list for strategic merge; None if it is atomic."""
    if resource is SERVICES and field == "ports":
        return "port"
    return PATCH_MERGE_KEYS.get(field)


def list_map_keys(resource: Resource, field: str) -> Keys | None:
    """Return the key fields of a list for server-side apply; None if it is atomic."""
    if resource.is_custom and field not in _METADATA_LISTS:
        return None
    if resource is SERVICES and field == "ports":
        return ("port", "protocol")
    return LIST_MAP_KEYS.get(field)


def is_set_list(resource: Resource, field: str) -> bool:
    """Return True if a list of strings is merged as a set."""
    return field in SET_LISTS and (not resource.is_custom or field == "finalizers")


def key_values(item: Mapping[str, Any], keys: Keys) -> tuple[Any, ...]:
    """Return the values of the key fields of an item."""
    return tuple(item.get(key, KEY_DEFAULTS.get(key)) for key in keys)
