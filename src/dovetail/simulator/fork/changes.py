"""Changes to a fork as ``kubectl apply`` makes them: fields that a file no longer has are removed."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.server import ApiServer

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def find_field_manager(
    api: ApiServer, resource: Resource, obj: Mapping[str, Any], namespace: str, *, default: str
) -> str:
    """Return the field manager that owns the applied fields of an object.

    That is the manager of a server-side apply. What ``kubectl apply`` wrote last is
    applied once more as ``default``, which then owns it.
    """
    live = find_object(api, resource, obj["metadata"]["name"], namespace)
    if live is None:
        return default
    meta = live["metadata"]
    entries = [entry for entry in meta.get("managedFields") or () if entry.get("operation") == "Apply"]
    managers = [entry.get("manager", "") for entry in entries if not entry.get("subresource")]
    if default in managers:
        return default
    before = _decode((meta.get("annotations") or {}).get(LAST_APPLIED, ""))
    if before is not None:
        api.track_fields(resource, meta["name"], namespace)
        api.apply(resource, _without_header(before), namespace, manager=default, force=True)
        return default
    return managers[0] if managers and managers[0] else default


def _decode(text: str) -> Object | None:
    try:
        value = msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("metadata"), dict) else None


def _without_header(before: Object) -> Object:
    """Return what was applied, without the parts that an apply must not have."""
    meta = {name: value for name, value in before["metadata"].items() if name not in _NOT_APPLIED}
    return {**{name: value for name, value in before.items() if name != "status"}, "metadata": meta}


_NOT_APPLIED: Final = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation")
