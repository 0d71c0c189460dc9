"""Decoding of scenario files; reports all validation errors with their lines."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

import msgspec

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.inputs.decoders import read_object
from dovetail.codec.quantities import decode_duration, encode_duration
from dovetail.codec.text.documents import FieldError, ManifestReader, RawObject
from dovetail.codec.text.suggestions import nearest_match
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.karpenter.ami_family import ALIAS_FAMILIES, DEFAULT_AMI_FAMILY
from dovetail.model.kube.quantity import parse_quantity
from dovetail.model.labels import ON_DEMAND, RESERVED, SPOT
from dovetail.ports.api_resources import find_resource
from dovetail.ports.kube_client import Object
from dovetail.simulator.scenario.model import (
    DEFAULT_LIMIT,
    Action,
    Apply,
    CapacityOutage,
    Delete,
    Interrupt,
    Load,
    ManagedNodeGroup,
    Phase,
    Release,
    Scale,
    ScaleDown,
    Scenario,
    Until,
    Wait,
)

_SCALABLE: Final = ("Deployment", "ReplicaSet", "StatefulSet", "NodePool")
_DELETABLE: Final = ("Node", "NodeClaim", "NodePool", "Pod", "Deployment", "StatefulSet", "Job")
_MAX_LATENCY: Final = 24 * 3600  # seconds
_Latencies = TypeVar("_Latencies", bound=msgspec.Struct)


def read_scenario(file: str, data: bytes, *, catalog: Catalog | None = None) -> Scenario:
    """Decode a scenario; raise ``InvalidInputError`` with all validation errors.

    With a catalogue, regions, zones and instance types that it does not have are errors.
    """
    files = ManifestReader()
    documents = list(files.read_objects(file, data))
    errors: list[ValidationError] = list(files.errors)
    if len(documents) > 1:
        errors.append(ValidationError(file, 0, "", "has several documents; a scenario is one document"))
    if not documents and not errors:
        errors.append(ValidationError(file, 0, "", "is empty; a scenario has a name and phases"))
    if errors:
        raise InvalidInputError(errors)
    decoder = _ScenarioDecoder(documents[0], catalog)
    scenario = decoder.scenario()
    errors = files.locate(decoder.field_errors())
    if errors:
        raise InvalidInputError(sorted(errors, key=lambda error: error.line))
    return scenario


class _ScenarioDecoder:
    """Decodes one document and the Kubernetes objects in it."""

    def __init__(self, raw: RawObject, catalog: Catalog | None) -> None:
        self._raw = raw
        self._catalog = catalog
        self._context = DecodeContext()
        self._object_errors: list[FieldError] = []
        self._decode_cache: dict[Any, Any] = {}

    def field_errors(self) -> list[FieldError]:
        raw = self._raw
        own = [
            FieldError(raw.file, raw.document, raw.path + path, message)
            for path, message in self._context.errors
        ]
        return [*own, *self._object_errors]

    def scenario(self) -> Scenario:
        root = Field(self._raw.value, self._context)
        _check_fields(root, "name about region seed home manifests phases cloud kubelet".split())
        root["name"].check_required()
        root["about"].check_required()
        defaults = Scenario(name="", about="")
        region = self._region(root["region"], defaults.region)
        return Scenario(
            name=root["name"].text(),
            about=root["about"].text(),
            region=region,
            seed=_default(root["seed"].integer(low=0), defaults.seed),
            node_group=self._node_group(root["home"], region),
            objects=self._objects(root["manifests"]),
            phases=tuple(self._phase(phase, region) for phase in root["phases"].items()),
            cloud=_latencies(root["cloud"], defaults.cloud),
            kubelet=_latencies(root["kubelet"], defaults.kubelet),
        )

    def _region(self, field: Field, default: str) -> str:
        if self._catalog is None:
            return field.text(default)
        return field.choice(sorted(self._catalog.regions), default, "region of the catalogue")

    def _node_group(self, field: Field, region: str) -> ManagedNodeGroup | None:
        if not field:
            return None
        _check_fields(field, ("count", "instanceType"))
        field["instanceType"].check_required()
        type_name = field["instanceType"].text()
        if self._catalog is not None and type_name:
            type_names = [instance_type.name for instance_type in self._catalog.instance_types_in(region)]
            field["instanceType"].choice(type_names, "", f"instance type in {region}")
        return ManagedNodeGroup(
            count=_default(field["count"].integer(low=1, high=1000), 1), instance_type=type_name
        )

    def _phase(self, field: Field, region: str) -> Phase:
        _check_fields(field, "name do until limit".split())
        field["name"].check_required()
        limit = decode_duration(field["limit"], never_allowed=False) if field["limit"] else None
        actions = [self._action(item, region) for item in field["do"].items()]
        phase = Phase(
            name=field["name"].text(),
            actions=tuple(action for action in actions if action is not None),
            until=_until(field["until"]),
            limit=DEFAULT_LIMIT if limit is None else limit,
        )
        waits = sum((action.duration for action in phase.actions if isinstance(action, Wait)), timedelta())
        if waits > phase.limit:
            limit_text, waits_text = encode_duration(phase.limit), encode_duration(waits)
            field["limit"].add_error(f"is {limit_text}, but the phase waits for {waits_text}")
        return phase

    def _action(self, field: Field, region: str) -> Action | None:
        decoders: dict[str, Callable[[Field], Action]] = {
            "apply": lambda item: Apply(self._objects(item)),
            "scale": _scale,
            "load": _load,
            "delete": _delete,
            "interrupt": lambda item: Interrupt(_share(item)),
            "sellOut": lambda item: self._capacity_outage(item, region),
            "thin": lambda item: ScaleDown(_share(item)),
            "release": _release,
            "wait": lambda item: Wait(decode_duration(item, never_allowed=False) or timedelta()),
        }
        if not _check_fields(field, decoders):
            return None
        keys = list(field.mapping())
        if len(keys) != 1:
            field.add_error(f"needs exactly one of {', '.join(decoders)}")
            return None
        return decoders[keys[0]](field[keys[0]])

    def _capacity_outage(self, field: Field, region: str) -> CapacityOutage:
        _check_fields(field, "types zones capacityTypes lasts".split())
        lasts = field["lasts"]
        capacity_types = (SPOT, ON_DEMAND, RESERVED)
        types: Iterable[str] = ()
        zones: Iterable[str] = ()
        if self._catalog is not None:
            types = [instance_type.name for instance_type in self._catalog.instance_types_in(region)]
            zones = self._catalog.regions[region].zones
        return CapacityOutage(
            types=_pattern(field["types"], types, "instance type"),
            zones=_pattern(field["zones"], zones, "zone"),
            capacity_types=_pattern(field["capacityTypes"], capacity_types, "capacity type"),
            duration=decode_duration(lasts, never_allowed=True) if lasts else None,
        )

    def _objects(self, field: Field) -> tuple[Object, ...]:
        objects: list[Object] = []
        for item in field.items():
            value = item.mapping()
            if not isinstance(item.value, dict):
                continue
            raw = RawObject(self._raw.file, self._raw.document, self._raw.path + item.path, value)
            read = read_object(raw, cache=self._decode_cache)
            self._object_errors.extend(read.errors)
            # Objects of older API versions are converted to v1.
            converted = [decoded.current for decoded in read.objects]
            if read.ignored is not None:
                _check_name(item["metadata"])
                converted.append(value)
            for obj in converted:
                if find_resource(obj["apiVersion"], obj["kind"]) is None:
                    item.add_error(f"{obj['apiVersion']} {obj['kind']} is not served here")
            objects.extend(converted)
        return tuple(objects)


def _check_fields(field: Field, known: Iterable[str]) -> bool:
    """Report a value that is not a map, and unknown fields; True if there are none."""
    fields, names = field.mapping(), list(known)
    unknown = [key for key in fields if key not in names]
    for key in unknown:
        suggestion = nearest_match(str(key), [name for name in names if name not in fields])
        hint = f"did you mean {suggestion!r}?" if suggestion else f"known fields: {', '.join(names)}"
        field[key].add_error(f"no such field; {hint}")
    return not unknown and isinstance(field.value, dict)


def _check_name(meta: Field) -> None:
    """Validate name and namespace, also for kinds that are not validated otherwise."""
    meta.mapping()
    meta["name"].check_required()
    meta["name"].text()
    meta["namespace"].text()


def _pattern(field: Field, known: Iterable[str], what: str) -> str:
    """Decode a glob that matches at least one of ``known``, if there are any."""
    pattern, names = field.text("*"), list(known)
    if names and not any(fnmatchcase(name, pattern) for name in names):
        suggestion = nearest_match(pattern, names)
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        field.add_error(f"{pattern!r} matches no {what}{hint}")
    return pattern


def _until(field: Field) -> Until:
    _check_fields(field, ("running", "nodes", "drifted", "quiet"))
    return Until(
        running=field["running"].integer(low=0),
        nodes=field["nodes"].integer(low=0),
        drifted=field["drifted"].integer(low=0),
        quiet=decode_duration(field["quiet"], never_allowed=False) if field["quiet"] else None,
    )


def _scale(field: Field) -> Scale:
    _check_fields(field, "kind name namespace replicas".split())
    field["name"].check_required()
    field["replicas"].check_required()
    return Scale(
        kind=field["kind"].choice(_SCALABLE, "Deployment", "scalable kind"),
        name=field["name"].text(),
        namespace=field["namespace"].text("default"),
        replicas=_default(field["replicas"].integer(low=0), 0),
    )


def _load(field: Field) -> Load:
    _check_fields(field, "name namespace metrics".split())
    field["name"].check_required()
    field["metrics"].check_required()
    metrics: dict[str, str] = {}
    for entry in field["metrics"].entries():
        try:
            parse_quantity(entry.value)
        except ValueError as error:
            entry.add_error(str(error))
        metrics[str(entry.key)] = str(entry.value)
    return Load(name=field["name"].text(), namespace=field["namespace"].text("default"), metrics=metrics)


def _delete(field: Field) -> Delete:
    _check_fields(field, "kind name namespace count".split())
    field["kind"].check_required()
    if field["name"] and field["count"]:
        field["count"].add_error("cannot be combined with name")
    return Delete(
        kind=field["kind"].choice(_DELETABLE, "Node", "deletable kind"),
        name=field["name"].text(),
        namespace=field["namespace"].text(),
        count=_default(field["count"].integer(low=1), 1),
    )


def _share(field: Field) -> float:
    _check_fields(field, ("share",))
    share = field["share"].value
    if type(share) not in (int, float) or not 0 < share <= 1:
        field["share"].add_error(f"{share!r} is not a share; use a number above 0 and at most 1")
        share = 1
    return float(share)


def _release(field: Field) -> Release:
    _check_fields(field, ("family",))
    return Release(field["family"].choice(sorted(ALIAS_FAMILIES.values()), DEFAULT_AMI_FAMILY, "AMI family"))


def _latencies(field: Field, default: _Latencies) -> _Latencies:
    """Decode latencies in seconds; missing ones keep their default."""
    fields = {
        _to_camel_case(name): name
        for name in default.__struct_fields__
        if isinstance(getattr(default, name), timedelta)
    }
    _check_fields(field, fields)
    values: dict[str, timedelta] = {}
    for entry in field.entries():
        value = entry.value
        if entry.key not in fields:
            continue
        if type(value) not in (int, float) or not 0 <= value <= _MAX_LATENCY:
            entry.add_error(f"{value!r} is not a number of seconds")
        else:
            values[fields[str(entry.key)]] = timedelta(seconds=value)
    return msgspec.structs.replace(default, **values)


def _to_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _default(value: int | None, default: int) -> int:
    return default if value is None else value
