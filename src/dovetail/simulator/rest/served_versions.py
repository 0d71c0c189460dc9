"""Served API versions: resources by URL, and conversion to the stored version.

Kinds are stored under one version. Other versions are converted per request: those of
custom kinds by their apiVersion alone, and autoscaling/v1 of HorizontalPodAutoscalers.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import HORIZONTAL_POD_AUTOSCALERS, RESOURCES, Resource
from dovetail.simulator.apiserver.custom_kinds import CustomKinds, CustomVersion
from dovetail.simulator.apiserver.storage.frozen_object import Object

_HPA_V1: Final = msgspec.structs.replace(HORIZONTAL_POD_AUTOSCALERS, version="v1")
_BUILT_IN: Final = {
    (resource.api_version, resource.plural): (resource, storage)
    for resource, storage in (
        *((resource, resource) for resource in RESOURCES),
        (_HPA_V1, HORIZONTAL_POD_AUTOSCALERS),
    )
}
BUILT_IN_RESOURCES: Final = tuple(resource for resource, _ in _BUILT_IN.values())
"""Without those of clients' CustomResourceDefinitions."""
_CPU_TARGET: Final = "targetCPUUtilizationPercentage"


class ServedVersion(msgspec.Struct, frozen=True):
    """A resource as a URL names it, and the one that its objects are stored under."""

    resource: Resource
    storage: Resource
    custom: CustomVersion | None = None
    """Schema and columns, if a client's CustomResourceDefinition defines it."""

    @property
    def is_converted(self) -> bool:
        return self.resource.version != self.storage.version

    def to_storage(self, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an object of a request in the stored version."""
        if not self.is_converted or obj.get("apiVersion", self.resource.api_version) != (
            self.resource.api_version
        ):
            return obj
        converted = {**obj, "apiVersion": self.storage.api_version}
        if self.resource is _HPA_V1 and isinstance(obj.get("spec"), dict):
            converted["spec"] = _upgrade_hpa_spec(obj["spec"])
        return converted

    def to_served(self, obj: Object) -> Object:
        """Return a stored object in the version of the request."""
        if not self.is_converted or obj.get("kind") != self.resource.kind:
            return obj
        converted = {**obj, "apiVersion": self.resource.api_version}
        if self.resource is _HPA_V1:
            converted["spec"] = _downgrade_hpa_spec(obj.get("spec") or {})
            converted["status"] = _downgrade_hpa_status(obj.get("status") or {})
        return converted


def find_version(kinds: CustomKinds, api_version: str, plural: str) -> ServedVersion | None:
    """Return the served version that a URL names."""
    built_in = _BUILT_IN.get((api_version, plural))
    if built_in is not None:
        return ServedVersion(*built_in)
    custom = kinds.find(api_version, plural)
    return ServedVersion(custom.resource, custom.storage, custom) if custom is not None else None


def served_resources(kinds: CustomKinds) -> tuple[Resource, ...]:
    """Return all resources in all served versions; the preferred version of a group first."""
    return (*BUILT_IN_RESOURCES, *(version.resource for version in kinds.versions()))


def _upgrade_hpa_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    upgraded = {name: value for name, value in spec.items() if name != _CPU_TARGET}
    target = spec.get(_CPU_TARGET)
    if target is not None:
        utilization = {"type": "Utilization", "averageUtilization": target}
        upgraded["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}]
    return upgraded


def _downgrade_hpa_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    names = ("scaleTargetRef", "minReplicas", "maxReplicas")
    downgraded = {name: spec[name] for name in names if name in spec}
    target = _find_cpu(spec.get("metrics") or (), "target")
    if target is not None:
        downgraded[_CPU_TARGET] = target
    return downgraded


def _downgrade_hpa_status(status: Mapping[str, Any]) -> dict[str, Any]:
    names = ("observedGeneration", "lastScaleTime")
    downgraded = {name: status[name] for name in names if name in status}
    downgraded |= {name: status.get(name) or 0 for name in ("currentReplicas", "desiredReplicas")}
    current = _find_cpu(status.get("currentMetrics") or (), "current")
    if current is not None:
        downgraded["currentCPUUtilizationPercentage"] = current
    return downgraded


def _find_cpu(metrics: Any, part: str) -> int | None:
    for metric in metrics:
        resource = metric.get("resource") or {}
        if resource.get("name") == "cpu":
            value: int | None = (resource.get(part) or {}).get("averageUtilization")
            return value
    return None
