"""Request paths: resource, namespace, name and subresource of a URL."""

from collections.abc import Sequence
from typing import Final

import msgspec

from dovetail.ports.api_resources import NAMESPACES, Resource
from dovetail.simulator.apiserver.custom_kinds import CustomKinds
from dovetail.simulator.rest.served_versions import ServedVersion, find_version


class RequestInfo(msgspec.Struct, frozen=True):
    """Object or collection that a request addresses; a collection has no name."""

    version: ServedVersion
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> Resource:
        """The resource that the objects are stored under."""
        return self.version.storage

    @property
    def is_collection(self) -> bool:
        return not self.name


_NAMESPACE_SUBRESOURCES: Final = ("status", "finalize")


def parse_path(path: str, kinds: CustomKinds) -> RequestInfo | None:
    """Parse a path such as ``/apis/apps/v1/namespaces/a/deployments/web/scale``.

    None for a path that addresses no resource.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        return _parse_resource_path(kinds, parts[1], parts[2:])
    if parts[0] == "apis" and len(parts) > 3:
        return _parse_resource_path(kinds, f"{parts[1]}/{parts[2]}", parts[3:])
    return None


def _parse_resource_path(kinds: CustomKinds, api_version: str, parts: Sequence[str]) -> RequestInfo | None:
    namespace = ""
    # /namespaces/NAME/status addresses the namespace itself.
    is_inside = len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES
    if parts[0] == "namespaces" and is_inside:
        namespace, parts = parts[1], parts[2:]
    version = find_version(kinds, api_version, parts[0])
    if version is None or not all(parts) or len(parts) > 3:
        return None
    info = RequestInfo(version, namespace, *parts[1:])
    return info if _is_valid(info) else None


def _is_valid(info: RequestInfo) -> bool:
    resource = info.resource
    if resource is NAMESPACES and info.namespace:
        return False
    if not resource.namespaced:
        return not info.namespace
    return bool(info.namespace) or info.is_collection
