"""Mutating admission of new pods: LimitRange defaults and RuntimeClass overhead.

kube-apiserver's LimitRanger and RuntimeClass plugins. What they compute is in
``model.kube.admission``; here it is written into the pod.
"""

from collections.abc import Mapping
from typing import Any

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.kube.admission import decode_limit_range
from dovetail.codec.kube.pod_specs import decode_template_resources
from dovetail.model.kube.admission import LimitRange
from dovetail.ports.api_resources import LIMIT_RANGES, PODS, RUNTIME_CLASSES
from dovetail.ports.kube_errors import Forbidden
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.apiserver.storage.store import Store


class PodResourceAdmission:
    """Sets requests, limits and overhead of new pods; rejects pods beyond a LimitRange."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, pod: dict[str, Any]) -> None:
        """Apply the LimitRanges of its namespace and its RuntimeClass; Forbidden if one rejects it."""
        self._apply_runtime_class(pod)
        limit_ranges = self._limit_ranges(pod["metadata"].get("namespace", ""))
        if not limit_ranges:
            return
        resources = decode_template_resources(pod["spec"])
        for limit_range in limit_ranges:
            resources = limit_range.default_containers(resources)
        pod["spec"] = {
            **pod["spec"],
            **{
                name: [
                    {
                        **container,
                        "resources": {
                            **(container.get("resources") or {}),
                            **_fill(container, "limits", defaulted.limits.to_quantities()),
                            **_fill(container, "requests", defaulted.requests.to_quantities()),
                        },
                    }
                    for container, defaulted in zip(pod["spec"][name], containers, strict=True)
                ]
                for name, containers in (
                    ("containers", resources.containers),
                    ("initContainers", resources.init_containers),
                )
                if pod["spec"].get(name)
            },
        }
        for limit_range in limit_ranges:
            violation = limit_range.find_violation(resources)
            if violation:
                _reject(pod, violation)

    def _limit_ranges(self, namespace: str) -> list[LimitRange]:
        objects = self._store.collections[LIMIT_RANGES].objects
        return [
            decode_limit_range(Field(objects[key], DecodeContext(strict=False)))
            for key in sorted(objects)
            if key[0] == namespace
        ]

    def _apply_runtime_class(self, pod: dict[str, Any]) -> None:
        name = pod["spec"].get("runtimeClassName")
        if not name:
            return
        runtime_class = self._store.get(RUNTIME_CLASSES, ("", name))
        if runtime_class is None:
            _reject(pod, f'pod rejected: RuntimeClass "{name}" not found')
            return
        spec = dict(pod["spec"])
        overhead = get_field(runtime_class, "overhead", "podFixed")
        if overhead:
            spec["overhead"] = overhead
        selector = get_field(runtime_class, "scheduling", "nodeSelector")
        if selector:
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **selector}
        tolerations = get_field(runtime_class, "scheduling", "tolerations")
        if tolerations:
            own = list(spec.get("tolerations") or ())
            spec["tolerations"] = [*own, *(added for added in tolerations if added not in own)]
        pod["spec"] = spec


def _fill(container: Mapping[str, Any], part: str, defaulted: Mapping[str, str]) -> dict[str, Any]:
    """Return one part of the resources; values that the author set keep their notation."""
    own = get_field(container, "resources", part) or {}
    return {part: {**defaulted, **own}} if defaulted or own else {}


def _reject(pod: Mapping[str, Any], reason: str) -> None:
    name = pod["metadata"]["name"]
    raise Forbidden(f'pods "{name}" is forbidden: {reason}', kind=PODS.plural, name=name)
