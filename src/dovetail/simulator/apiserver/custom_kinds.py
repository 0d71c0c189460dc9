"""Kinds that CustomResourceDefinitions of clients define while the server runs.

A definition is stored under one version and served under all of its versions, whose
objects differ in their apiVersion alone (conversion strategy ``None``).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import RESOURCES, Resource
from dovetail.simulator.apiserver.admission.custom_resources import SchemaDefaults, find_defaults
from dovetail.simulator.apiserver.admission.field_errors import raise_if_invalid
from dovetail.simulator.apiserver.admission.structural_schema import Schema, validate_root
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import Change, Store

_BUILT_IN: Final = frozenset(resource.qualified_name for resource in RESOURCES)
_SCALE_PATHS: Final = (".spec.replicas", ".status.replicas")
"""The only paths of replicas that the scale subresource supports."""


class CustomVersion(msgspec.Struct, frozen=True):
    """A served version of a custom kind."""

    resource: Resource
    storage: Resource
    """The resource that its objects are stored under."""
    schema: Schema
    columns: tuple[Mapping[str, Any], ...]
    """``additionalPrinterColumns``."""


class _Kind(msgspec.Struct, frozen=True):
    storage: Resource
    versions: tuple[CustomVersion, ...]
    schema: Schema
    """Of the storage version."""
    defaults: SchemaDefaults | None
    selectable_fields: tuple[str, ...]
    """Fields of all versions that field selectors may name."""


class CustomKinds:
    """Registers kinds as CustomResourceDefinitions come and go."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kinds: dict[str, _Kind] = {}
        """By name of the definition."""

    def versions(self) -> Iterator[CustomVersion]:
        """Yield all served versions."""
        for kind in self._kinds.values():
            yield from kind.versions

    def find(self, api_version: str, plural: str) -> CustomVersion | None:
        """Return a served version by the names in a URL."""
        kind = self._kinds.get(f"{plural}.{api_version.partition('/')[0]}")
        versions = kind.versions if kind is not None else ()
        return next((version for version in versions if version.resource.api_version == api_version), None)

    def handle_change(self, change: Change) -> Resource | None:
        """Register, update or remove the kind of a definition; return the resource if removed."""
        name = change.key[1]
        if name in _BUILT_IN:
            return None
        if change.new is None:
            removed = self._kinds.pop(name).storage
            self._store.remove_collection(removed)
            return removed
        known = self._kinds.get(name)
        storage = known.storage if known is not None else _storage_resource(change.new)
        self._kinds[name] = _decode_kind(change.new, storage)
        if known is None:
            self._store.add_collection(storage)
        return None

    def selectable_fields(self, resource: Resource) -> tuple[str, ...]:
        """Return the fields that field selectors of a kind may name, beside its name and namespace."""
        kind = self._kinds.get(resource.qualified_name)
        return kind.selectable_fields if kind is not None else ()

    def apply_defaults(self, resource: Resource, obj: dict[str, Any]) -> None:
        """Set the defaults of the schema in an object, in place."""
        kind = self._kinds.get(resource.qualified_name)
        if kind is not None and kind.defaults is not None:
            obj |= kind.defaults.apply(obj)

    def validate(self, resource: Resource, obj: Object) -> None:
        """Raise Invalid if an object violates the schema of its kind."""
        kind = self._kinds.get(resource.qualified_name)
        if kind is not None:
            raise_if_invalid(resource, obj, validate_root(kind.schema, obj))


def _storage_resource(definition: Object) -> Resource:
    version = next(version for version in definition["spec"]["versions"] if version.get("storage"))
    return _resource(definition, version)


def _resource(definition: Object, version: Mapping[str, Any]) -> Resource:
    spec, names = definition["spec"], definition["spec"]["names"]
    subresources = []
    requested = version.get("subresources") or {}
    if requested.get("status") is not None:
        subresources.append("status")
    scale = requested.get("scale") or {}
    if (scale.get("specReplicasPath"), scale.get("statusReplicasPath")) == _SCALE_PATHS:
        subresources.append("scale")
    return Resource(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        spec["scope"] == "Namespaced",
        tuple(names.get("shortNames") or ()),
        tuple(subresources),
        has_generation=True,
        is_custom=True,
        singular=names.get("singular") or "",
        categories=tuple(names.get("categories") or ()),
    )


def _decode_kind(definition: Object, storage: Resource) -> _Kind:
    versions = definition["spec"]["versions"]
    schemas = {version["name"]: get_field(version, "schema", "openAPIV3Schema") or {} for version in versions}
    stored = next(version["name"] for version in versions if version.get("storage"))
    return _Kind(
        storage,
        tuple(
            CustomVersion(
                _resource(definition, version),
                storage,
                schemas[version["name"]],
                tuple(version.get("additionalPrinterColumns") or ()),
            )
            for version in versions
            if version.get("served")
        ),
        schemas[stored],
        find_defaults(schemas[stored]),
        tuple(
            dict.fromkeys(
                field["jsonPath"].removeprefix(".")
                for version in versions
                for field in version.get("selectableFields") or ()
            )
        ),
    )
