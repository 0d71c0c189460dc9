"""What a URL is about: a kind, perhaps a namespace, a name and a subresource."""

from collections.abc import Sequence
from typing import Final

import msgspec

from dovetail.ports.api_resources import NAMESPACES, RESOURCES, Resource


class Target(msgspec.Struct, frozen=True):
    """One object, or all of a kind where there is no name."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def is_collection(self) -> bool:
        return not self.name


_BY_PLACE: Final = {(one.api_version, one.plural): one for one in RESOURCES}
_OF_A_NAMESPACE: Final = ("status", "finalize")


def target_of(path: str) -> Target | None:
    """Read a path such as ``/apis/apps/v1/namespaces/default/deployments/web/scale``."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        return _inside(parts[1], parts[2:])
    if parts[0] == "apis" and len(parts) > 3:
        return _inside(f"{parts[1]}/{parts[2]}", parts[3:])
    return None


def _inside(api_version: str, parts: Sequence[str]) -> Target | None:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in _OF_A_NAMESPACE:
        namespace, parts = parts[1], parts[2:]
    resource = _BY_PLACE.get((api_version, parts[0]))
    if resource is None or not all(parts) or len(parts) > 3:
        return None
    target = Target(resource, namespace, *parts[1:])
    return target if _is_possible(target) else None


def _is_possible(target: Target) -> bool:
    resource = target.resource
    if resource is NAMESPACES and target.namespace:
        return False
    if not resource.namespaced:
        return not target.namespace
    return bool(target.namespace) or target.is_collection
