"""Defaulting and validation of Karpenter's custom resources.

Defaults, and the messages of rules about updates, come from the schemas of the CRDs.
Validation uses the decoders of ``codec`` in their literal mode: what a real API server
with these CRDs accepts is accepted here, even if it is probably a mistake.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.codec.crds.definition import Definition
from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.codec.crds.nodeclaim import NODE_CLAIM
from dovetail.codec.crds.nodepool import NODE_POOL
from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.capacitybuffers import decode_capacitybuffer
from dovetail.codec.karpenter.nodeclaims import decode_nodeclaim
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.codec.karpenter.nodeoverlays import decode_nodeoverlay
from dovetail.codec.karpenter.nodepools import decode_nodepool
from dovetail.codec.text.field_path import format_path
from dovetail.ports.api_resources import (
    CAPACITY_BUFFERS,
    EC2_NODE_CLASSES,
    NODE_CLAIMS,
    NODE_OVERLAYS,
    NODE_POOLS,
    Resource,
    find_resource,
)
from dovetail.simulator.apiserver.admission.field_errors import FieldError, JsonObject, invalid, required
from dovetail.simulator.apiserver.patch.json_patch import json_equal
from dovetail.simulator.apiserver.storage.frozen_object import freeze, get_field

_DECODERS: Final[dict[Resource, Callable[[Field], Any]]] = {
    NODE_POOLS: decode_nodepool,
    NODE_CLAIMS: decode_nodeclaim,
    EC2_NODE_CLASSES: decode_nodeclass,
    NODE_OVERLAYS: decode_nodeoverlay,
    CAPACITY_BUFFERS: decode_capacitybuffer,
}
CUSTOM_RESOURCES: Final = tuple(_DECODERS)
_MISSING: Final = "is missing"


class SchemaDefaults(msgspec.Struct, frozen=True):
    """The parts of a structural schema that have defaults."""

    fields: dict[str, tuple[Any, "SchemaDefaults | None"]]
    """Default (None without) and nested defaults, by field."""
    items: "SchemaDefaults | None" = None

    def apply(self, value: Any) -> Any:
        """Return a value with its defaults; unchanged parts are shared, not copied.

        As in Kubernetes, null counts as absent.
        """
        if isinstance(value, list) and self.items is not None:
            return [self.items.apply(item) for item in value]
        if not isinstance(value, dict):
            return value
        changed = {}
        for name, (default, nested) in self.fields.items():
            current = value.get(name)
            new = default if current is None else current
            if new is not None and nested is not None:
                new = nested.apply(new)
            if new is not current:
                changed[name] = new
        return {**value, **changed} if changed else value


def find_defaults(schema: Mapping[str, Any]) -> SchemaDefaults | None:
    """Return the defaults of a structural schema; None if it has none."""
    fields = {}
    for name, field in schema.get("properties", {}).items():
        nested = find_defaults(field)
        if "default" in field or nested is not None:
            fields[name] = (freeze(field.get("default")), nested)
    items = find_defaults(schema["items"]) if "items" in schema else None
    return SchemaDefaults(fields, items) if fields or items is not None else None


_DEFAULTS: Final = {
    find_resource(f"{crd.group}/{crd.version}", crd.kind): {
        name: defaults
        for name, schema in (("spec", crd.spec), ("status", crd.status))
        if (defaults := find_defaults(schema)) is not None
    }
    for crd in DEFINITIONS
}


def default_custom_resource(resource: Resource, obj: dict[str, Any]) -> None:
    """Set the defaults of the CRD in the spec and status of an object, in place."""
    for name, defaults in _DEFAULTS.get(resource, {}).items():
        if isinstance(obj.get(name), dict):
            obj[name] = defaults.apply(obj[name])


def validate_custom_resource(resource: Resource, obj: JsonObject) -> Iterator[FieldError]:
    """Yield an error for every rule of the CRD that an object violates."""
    decode = _DECODERS.get(resource)
    if decode is None:
        return
    findings = DecodeContext(api_rules_only=True)
    # The status is not validated: controllers are responsible for it.
    decode(Field({**obj, "status": None}, findings))
    for path, message in findings.errors:
        if message.startswith(_MISSING):
            yield required(format_path(path), message.removeprefix(_MISSING).removeprefix("; "))
        else:
            yield invalid(format_path(path), message)


def _rule_message(crd: Definition, path: Sequence[str], expression: str) -> str:
    """Return the message of a CEL rule of a CRD; ``path`` is that of its field in the spec."""
    schema = crd.spec
    for name in path:
        schema = schema["properties"][name]
    rules = {rule["rule"]: rule["message"] for rule in schema["x-kubernetes-validations"]}
    return str(rules[expression])


_NODECLASS_REF: Final = ("template", "spec", "nodeClassRef")
_NODECLASS_REF_MESSAGES: Final = {
    name: _rule_message(NODE_POOL, _NODECLASS_REF, f"self.{name} == oldSelf.{name}")
    for name in ("group", "kind")
}
_REPLICAS_MESSAGE: Final = _rule_message(NODE_POOL, (), "has(self.replicas) == has(oldSelf.replicas)")
_SPEC_MESSAGE: Final = _rule_message(NODE_CLAIM, (), "self == oldSelf")


def validate_nodeclass_ref_update(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """Yield an error if the nodeClassRef of a NodePool changes its group or kind."""
    path = ("spec", *_NODECLASS_REF)
    for name, message in _NODECLASS_REF_MESSAGES.items():
        before, after = get_field(old, *path, name), get_field(new, *path, name)
        if before is not None and after is not None and before != after:
            yield invalid(".".join(path), message)


def validate_replicas_update(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """Yield an error if a NodePool becomes static or dynamic, by its replicas."""
    before, after = get_field(old, "spec", "replicas"), get_field(new, "spec", "replicas")
    if (before is None) != (after is None):
        yield invalid("spec", _REPLICAS_MESSAGE)


def validate_spec_update(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """Yield an error if the spec of a NodeClaim changes."""
    if not json_equal(old.get("spec"), new.get("spec")):
        yield invalid("spec", _SPEC_MESSAGE)
