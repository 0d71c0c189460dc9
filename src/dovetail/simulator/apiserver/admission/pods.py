"""Validation of pod specs, of pods and of pod templates."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.kube.affinity import decode_affinity, decode_topology_spread
from dovetail.codec.kube.requirements import decode_tolerations
from dovetail.codec.text.field_path import format_path
from dovetail.model.frozen import EMPTY
from dovetail.model.kube.quantity import parse_amount
from dovetail.model.kube.resources import is_container_resource
from dovetail.simulator.apiserver.admission.field_errors import FieldError, invalid, required

DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_UNQUALIFIED: Final = "must be a standard resource type or fully qualified"
_MAX_CACHED: Final = 1000
"""Valid parts in the cache; it is cleared when full. The affinity of each DaemonSet pod is one."""


class PodValidator:
    """Validates pod specs, with a cache of valid parts.

    Pods of one template have equal parts: a thousand of them cost little more than
    one.
    """

    def __init__(self) -> None:
        self._valid_parts: set[tuple[str, bytes]] = set()

    def validate(self, spec: Mapping[str, Any], path: str) -> Iterator[FieldError]:
        """Yield the errors of a pod spec; ``path`` is the field path of the spec."""
        if not spec.get("containers"):
            yield required(f"{path}.containers")
        policy = spec.get("restartPolicy", "Always")
        if policy not in _RESTART_POLICIES:
            yield _unsupported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
        grace_period = spec.get("terminationGracePeriodSeconds", 0)
        if not isinstance(grace_period, int) or grace_period < 0:
            yield invalid(f"{path}.terminationGracePeriodSeconds", f"{grace_period!r} is negative")
        for name, validate_part in _PART_VALIDATORS:
            part = spec.get(name)
            if not part:
                continue
            key = (name, msgspec.json.encode(part))
            if key in self._valid_parts:
                continue
            errors = list(validate_part(part, f"{path}.{name}"))
            if errors:
                yield from errors
            else:
                self._cache(key)

    def _cache(self, key: tuple[str, bytes]) -> None:
        if len(self._valid_parts) >= _MAX_CACHED:
            self._valid_parts.clear()
        self._valid_parts.add(key)


def _validate_containers(containers: Any, path: str) -> Iterator[FieldError]:
    names: set[Any] = set()
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        container_path = f"{path}[{index}]"
        if not isinstance(container, dict):
            yield invalid(container_path, "a container must be an object")
            continue
        name = container.get("name")
        if not name:
            yield required(f"{container_path}.name")
        elif not isinstance(name, str) or not DNS_LABEL.fullmatch(name):
            yield invalid(f"{container_path}.name", f"{name!r} is not a lowercase RFC 1123 label")
        elif name in names:
            yield f"{container_path}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"'
        names.add(name)
        if not container.get("image"):
            yield required(f"{container_path}.image")
        yield from _validate_ports(container.get("ports"), f"{container_path}.ports")
        yield from _validate_resources(container.get("resources"), f"{container_path}.resources")


def _validate_ports(ports: Any, path: str) -> Iterator[FieldError]:
    for index, port in enumerate(ports if isinstance(ports, list) else ()):
        if isinstance(port, dict) and not port.get("containerPort"):
            yield required(f"{path}[{index}].containerPort")


def _validate_resources(resources: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(resources, dict):
        return
    amounts: dict[tuple[str, str], int] = {}
    for part in ("limits", "requests"):
        for name, value in (resources.get(part) or {}).items():
            field = f"{path}.{part}[{name}]"
            if not is_container_resource(str(name)):
                yield invalid(field, f'"{name}": {_UNQUALIFIED}')
            try:
                amount = parse_amount(name, value)
            except ValueError:
                yield invalid(field, f"{value!r} is not a quantity")
                continue
            if amount < 0:
                yield invalid(field, f"{value!r}: must be greater than or equal to 0")
            amounts[part, name] = amount
    for (part, name), request in amounts.items():
        limit = amounts.get(("limits", name), request)
        if part == "requests" and request > limit:
            value = resources["requests"][name]
            yield invalid(f"{path}.requests", f'"{value}": must be less than or equal to {name} limit')


def _validate_node_selector(labels: Any, path: str) -> Iterator[FieldError]:
    for key, value in labels.items() if isinstance(labels, dict) else ():
        if not isinstance(value, str):
            yield invalid(f"{path}[{key}]", f"{value!r} is not a string")


def _validate_volumes(volumes: Any, path: str) -> Iterator[FieldError]:
    for index, volume in enumerate(volumes if isinstance(volumes, list) else ()):
        if not isinstance(volume, dict):
            yield invalid(f"{path}[{index}]", "a volume must be an object")
            continue
        if not volume.get("name"):
            yield required(f"{path}[{index}].name")
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict) and not claim.get("claimName"):
            yield required(f"{path}[{index}].persistentVolumeClaim.claimName")


def _validate_with(decode: Callable[[Field], object]) -> Callable[[Any, str], Iterator[FieldError]]:
    """Return a validator that reports the findings of a decoder."""

    def validate(part: Any, part_path: str) -> Iterator[FieldError]:
        findings = DecodeContext(api_rules_only=True)
        decode(Field(part, findings))
        for path, message in findings.errors:
            yield invalid(f"{part_path}.{format_path(path)}".replace(".[", "["), message)

    return validate


_PART_VALIDATORS: Final[tuple[tuple[str, Callable[[Any, str], Iterator[FieldError]]], ...]] = (
    ("initContainers", _validate_containers),
    ("containers", _validate_containers),
    ("nodeSelector", _validate_node_selector),
    ("volumes", _validate_volumes),
    ("affinity", _validate_with(lambda field: decode_affinity(field, EMPTY))),
    ("tolerations", _validate_with(decode_tolerations)),
    ("topologySpreadConstraints", _validate_with(decode_topology_spread)),
)


def validate_restart_policy(spec: Mapping[str, Any], path: str, *allowed: str) -> Iterator[FieldError]:
    """Yield an error if a pod template has a restartPolicy its workload does not allow."""
    policy = spec.get("restartPolicy", "Always")
    if policy not in allowed:
        yield _unsupported(f"{path}.restartPolicy", policy, allowed)


def _unsupported(field: str, value: Any, supported: tuple[str, ...]) -> FieldError:
    names = ", ".join(f'"{name}"' for name in supported)
    message = f'Unsupported value: "{value}": supported values: {names}'
    return field, "FieldValueNotSupported", message
