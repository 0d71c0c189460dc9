"""Which lists are merged item by item, and by which fields their items are told apart.

Every list not named here is replaced whole. That goes for ``taints`` and
``tolerations`` too: Kubernetes treats both as atomic.
"""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.ports.api_resources import SERVICES, Resource

Keys = tuple[str, ...]

STRATEGIC_KEYS: Final[Mapping[str, str]] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "drivers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""The one field by which a strategic merge patch finds an item."""

APPLY_KEYS: Final[Mapping[str, Keys]] = {
    **{field: (key,) for field, key in STRATEGIC_KEYS.items()},
    "ports": ("containerPort", "protocol"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
"""The fields by which server-side apply finds an item; stricter than the above."""

PRIMITIVE_SETS: Final = frozenset({"finalizers", "podCIDRs"})
"""Lists of strings that are merged as sets."""

KEY_DEFAULTS: Final[Mapping[str, str]] = {"protocol": "TCP"}
"""What a key field means where an item leaves it out."""

_IN_ANY_METADATA: Final = frozenset({"ownerReferences"})


def strategic_key(resource: Resource, field: str) -> str | None:
    """Return the field that tells the items of a list apart; None for an atomic list."""
    if resource is SERVICES and field == "ports":
        return "port"
    return STRATEGIC_KEYS.get(field)


def apply_keys(resource: Resource, field: str) -> Keys | None:
    """Return the fields that tell the items of a list apart; None for an atomic list."""
    if resource.custom and field not in _IN_ANY_METADATA:
        return None
    if resource is SERVICES and field == "ports":
        return ("port", "protocol")
    return APPLY_KEYS.get(field)


def is_set(resource: Resource, field: str) -> bool:
    """Tell whether a list of strings is merged as a set."""
    return field in PRIMITIVE_SETS and (not resource.custom or field == "finalizers")


def key_values(item: Mapping[str, Any], keys: Keys) -> tuple[Any, ...]:
    """Return what tells an item apart from the others of its list."""
    return tuple(item.get(key, KEY_DEFAULTS.get(key)) for key in keys)
