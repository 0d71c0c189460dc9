"""Changed manifests: read strictly, with the line of every error."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.codec.inputs.decoders import read_object
from dovetail.codec.text.documents import FieldError, ManifestReader, RawObject
from dovetail.codec.text.field_path import FieldPath
from dovetail.errors import InvalidInputError
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource, find_resource
from dovetail.ports.kube_errors import ApiError, BadRequest, Invalid
from dovetail.simulator.rest.schema.decode import decode_fields

_WITHOUT_EFFECT: Final = (
    *(kinds.ROLES, kinds.ROLE_BINDINGS, kinds.CLUSTER_ROLES, kinds.CLUSTER_ROLE_BINDINGS),
    *(kinds.INGRESSES, kinds.INGRESS_CLASSES, kinds.NETWORK_POLICIES),
    *(kinds.ENDPOINT_SLICES, kinds.ENDPOINTS, kinds.CSI_DRIVERS),
    *(kinds.API_SERVICES, kinds.VALIDATING_POLICIES, kinds.VALIDATING_POLICY_BINDINGS),
)
"""Kinds that the simulator serves and that change no node."""
_STEP: Final = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_PROBLEM: Final = re.compile(r"([A-Za-z][\w.\[\]'/-]*): (.*?)(?=, [a-z][\w.\[\]]*: |$)")


class ChangedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object of a file, with the place it was read from."""

    resource: Resource
    namespace: str
    name: str
    value: dict[str, Any]
    source: RawObject

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.kind} {name}"


class ChangedManifests:
    """Objects of all files, in their order."""

    def __init__(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Read all files; ``raise_refusals`` reports their errors with those of the API server."""
        self._reader = ManifestReader()
        self._order = {name: index for index, (name, _) in enumerate(files)}
        self.objects: list[ChangedObject] = []
        self.ignored: list[str] = []
        """Objects of kinds that have no effect on nodes."""
        self._refusals: list[FieldError] = []
        seen: dict[tuple[Resource, str, str], ChangedObject] = {}
        for name, data in files:
            for raw in self._reader.read_objects(name, data):
                for changed in self._read(raw):
                    key = (changed.resource, changed.namespace, changed.name)
                    if key in seen:
                        message = f"{changed} is defined twice; first in {seen[key].source.file}"
                        self._refusals.append(raw.error_at(("metadata", "name"), message))
                    seen.setdefault(key, changed)
                    self.objects.append(changed)

    def refuse(self, changed: ChangedObject, error: ApiError) -> None:
        """Note that the API server refuses an object."""
        self._refusals += [changed.source.error_at(path, message) for path, message in _find_problems(error)]

    def raise_refusals(self) -> None:
        """Raise ``InvalidInputError`` with every error so far, if there are any."""
        errors = [*self._reader.errors, *self._reader.locate(dict.fromkeys(self._refusals))]
        if errors:
            errors.sort(key=lambda error: (self._order.get(error.file, 0), error.line))
            raise InvalidInputError(errors)

    def _read(self, raw: RawObject) -> Iterator[ChangedObject]:
        result = read_object(raw, cache={})
        self._refusals += result.errors
        if result.errors:
            return
        values = [decoded.current for decoded in result.objects] or [raw.value]
        for value in values:
            meta = value.get("metadata")
            name = meta.get("name") if isinstance(meta, dict) else None
            if not isinstance(meta, dict) or not isinstance(name, str) or not name:
                self._refusals.append(raw.error_at(("metadata", "name"), "is missing"))
                continue
            resource = find_resource(str(value["apiVersion"]), str(value["kind"]))
            if resource is None or resource in _WITHOUT_EFFECT:
                self.ignored.append(f"{value['kind']} {name}")
                continue
            namespace = (meta.get("namespace") or "default") if resource.namespaced else ""
            changed = ChangedObject(
                resource=resource, namespace=namespace, name=name, value=_without_status(value), source=raw
            )
            if value is raw.value:
                self._check_fields(changed)
            yield changed

    def _check_fields(self, changed: ChangedObject) -> None:
        """Refuse unknown fields and wrong types, as ``kubectl apply`` does."""
        try:
            decoded = decode_fields(changed.resource, changed.source.value)
        except (BadRequest, Invalid) as error:
            self.refuse(changed, error)
            return
        for field in decoded.unknown_fields:
            self._refusals.append(changed.source.error_at(parse_path(field), "unknown field"))


def _without_status(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without what the server writes, as files from ``kubectl get`` have it."""
    meta = {
        key: item
        for key, item in value["metadata"].items()
        if key not in ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields")
    }
    return {**{key: item for key, item in value.items() if key != "status"}, "metadata": meta}


def _find_problems(error: ApiError) -> Iterator[tuple[FieldPath, str]]:
    """Yield path and message of each cause; without causes, those in the message."""
    causes = error.details.get("causes")
    if causes:
        for cause in causes:
            yield parse_path(cause.get("field", "")), cause["message"]
        return
    _, marker, problems = error.message.partition(" cannot be handled as a ")
    pairs = _PROBLEM.findall(problems.partition(": ")[2]) if marker else []
    if not pairs:
        yield (), error.message
    for path, message in pairs:
        yield parse_path(path), message


def parse_path(text: str) -> FieldPath:
    """Parse a field path of the API server: ``spec.containers[0].env[NAME]``."""
    path: list[str | int] = []
    for name, index in _STEP.findall(text):
        step = name or index.strip("'\"")
        path.append(int(step) if index and step.isdecimal() else step)
    return tuple(path)
