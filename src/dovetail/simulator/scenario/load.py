"""Scenarios from YAML; every mistake at once, with its line."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

import msgspec

from dovetail.codec.fields import Field, Findings
from dovetail.codec.inputs.decoders import read_object
from dovetail.codec.quantities import duration, show_duration
from dovetail.codec.text.documents import Files, Misplaced, RawObject
from dovetail.codec.text.suggestions import nearest
from dovetail.errors import BadInput, Mistake
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.labels import ON_DEMAND, RESERVED, SPOT
from dovetail.ports.api_resources import resource_of_kind
from dovetail.ports.kube_client import Object
from dovetail.simulator.ec2.nodeclass_resolver import FAMILIES
from dovetail.simulator.scenario.model import (
    USUAL_LIMIT,
    Action,
    Apply,
    Delete,
    Home,
    Interrupt,
    Phase,
    Release,
    Scale,
    Scenario,
    SellOut,
    Thin,
    Until,
    Wait,
)

_SCALABLE: Final = ("Deployment", "ReplicaSet", "StatefulSet", "NodePool")
_DELETABLE: Final = ("Node", "NodeClaim", "NodePool", "Pod", "Deployment", "StatefulSet", "Job")
_LONGEST_WAIT: Final = 24 * 3600
_Latencies = TypeVar("_Latencies", bound=msgspec.Struct)


def read_scenario(file: str, data: bytes, *, catalog: Catalog | None = None) -> Scenario:
    """Read a scenario; raises ``BadInput`` with all that is wrong with it.

    With a catalogue, places and machines that it does not know are wrong, too.
    """
    files = Files()
    documents = list(files.objects(file, data))
    mistakes: list[Mistake] = list(files.mistakes)
    if len(documents) > 1:
        mistakes.append(Mistake(file, 0, "", "holds several documents; a scenario is one"))
    if not documents and not mistakes:
        mistakes.append(Mistake(file, 0, "", "is empty; a scenario has a name and phases"))
    if mistakes:
        raise BadInput(mistakes)
    reader = _Reader(documents[0], catalog)
    scenario = reader.scenario()
    found = files.placed(reader.misplaced())
    if found:
        raise BadInput(sorted(found, key=lambda one: one.line))
    return scenario


class _Reader:
    """Reads one document, and the Kubernetes objects inside it."""

    def __init__(self, raw: RawObject, catalog: Catalog | None) -> None:
        self._raw = raw
        self._catalog = catalog
        self._findings = Findings()
        self._inside: list[Misplaced] = []
        self._pool: dict[Any, Any] = {}

    def misplaced(self) -> list[Misplaced]:
        raw = self._raw
        own = [
            Misplaced(raw.file, raw.document, raw.path + path, message)
            for path, message in self._findings.found
        ]
        return [*own, *self._inside]

    def scenario(self) -> Scenario:
        root = Field(self._raw.value, self._findings)
        _only(root, "name about region seed home manifests phases cloud kubelet".split())
        root["name"].required()
        root["about"].required()
        plain = Scenario(name="", about="")
        region = self._region(root["region"], plain.region)
        return Scenario(
            name=root["name"].text(),
            about=root["about"].text(),
            region=region,
            seed=_or(root["seed"].whole(low=0), plain.seed),
            home=self._home(root["home"], region),
            objects=self._objects(root["manifests"]),
            phases=tuple(self._phase(one, region) for one in root["phases"].items()),
            cloud=_latencies(root["cloud"], plain.cloud),
            kubelet=_latencies(root["kubelet"], plain.kubelet),
        )

    def _region(self, field: Field, usual: str) -> str:
        if self._catalog is None:
            return field.text(usual)
        return field.choice(sorted(self._catalog.regions), usual, "region of the catalogue")

    def _home(self, field: Field, region: str) -> Home | None:
        if not field:
            return None
        _only(field, ("count", "instanceType"))
        field["instanceType"].required()
        kind = field["instanceType"].text()
        if self._catalog is not None and kind:
            sold = [one.name for one in self._catalog.machines_in(region)]
            field["instanceType"].choice(sold, "", f"instance type sold in {region}")
        return Home(
            count=_or(field["count"].whole(low=1, high=1000), 1),
            instance_type=kind,
        )

    def _phase(self, field: Field, region: str) -> Phase:
        _only(field, "name do until limit".split())
        field["name"].required()
        limit = duration(field["limit"], never_allowed=False) if field["limit"] else None
        actions = [self._action(one, region) for one in field["do"].items()]
        phase = Phase(
            name=field["name"].text(),
            actions=tuple(one for one in actions if one is not None),
            until=_until(field["until"]),
            limit=USUAL_LIMIT if limit is None else limit,
        )
        waits = sum((one.lasts for one in phase.actions if isinstance(one, Wait)), timedelta())
        if waits > phase.limit:
            most, taken = show_duration(phase.limit), show_duration(waits)
            field["limit"].mistake(f"is {most}, but the phase waits for {taken}")
        return phase

    def _action(self, field: Field, region: str) -> Action | None:
        readers: dict[str, Callable[[Field], Action]] = {
            "apply": lambda one: Apply(self._objects(one)),
            "scale": _scale,
            "delete": _delete,
            "interrupt": lambda one: Interrupt(_share(one)),
            "sellOut": lambda one: self._sell_out(one, region),
            "thin": lambda one: Thin(_share(one)),
            "release": _release,
            "wait": _wait,
        }
        if not _only(field, readers):
            return None
        verbs = list(field.mapping())
        if len(verbs) != 1:
            field.mistake(f"needs exactly one of {', '.join(readers)}")
            return None
        return readers[verbs[0]](field[verbs[0]])

    def _sell_out(self, field: Field, region: str) -> SellOut:
        _only(field, "types zones capacityTypes lasts".split())
        lasts = field["lasts"]
        kinds = (SPOT, ON_DEMAND, RESERVED)
        types: Iterable[str] = ()
        zones: Iterable[str] = ()
        if self._catalog is not None:
            types = [one.name for one in self._catalog.machines_in(region)]
            zones = self._catalog.regions[region].zones
        return SellOut(
            types=_pattern(field["types"], types, "instance type"),
            zones=_pattern(field["zones"], zones, "zone"),
            capacity_types=_pattern(field["capacityTypes"], kinds, "capacity type"),
            lasts=duration(lasts, never_allowed=True) if lasts else None,
        )

    def _objects(self, field: Field) -> tuple[Object, ...]:
        found: list[Object] = []
        for one in field.items():
            value = one.mapping()
            if not isinstance(one.value, dict):
                continue
            raw = RawObject(self._raw.file, self._raw.document, self._raw.path + one.path, value)
            read = read_object(raw, pool=self._pool)
            self._inside.extend(read.mistakes)
            # Older objects come out as the v1 objects that they mean.
            meant = [decoded.today for decoded in read.objects]
            if read.ignored is not None:
                _check_name(one["metadata"])
                meant.append(value)
            for obj in meant:
                if resource_of_kind(obj["apiVersion"], obj["kind"]) is None:
                    one.mistake(f"{obj['apiVersion']} {obj['kind']} is not served here")
            found.extend(meant)
        return tuple(found)


def _only(field: Field, known: Iterable[str]) -> bool:
    """Note what is no map, and fields that nobody reads; tell whether there are none."""
    given, names = field.mapping(), list(known)
    strange = [key for key in given if key not in names]
    for key in strange:
        guess = nearest(str(key), [one for one in names if one not in given])
        hint = f"did you mean {guess!r}?" if guess else f"known are {', '.join(names)}"
        field[key].mistake(f"no such field; {hint}")
    return not strange and isinstance(field.value, dict)


def _check_name(meta: Field) -> None:
    """Check what is looked at of every object, of kinds that mean nothing to us as well."""
    meta.mapping()
    meta["name"].required()
    meta["name"].text()
    meta["namespace"].text()


def _pattern(field: Field, known: Iterable[str], what: str) -> str:
    """Read a glob that fits at least one of those known, if any are."""
    pattern, names = field.text("*"), list(known)
    if names and not any(fnmatchcase(one, pattern) for one in names):
        guess = nearest(pattern, names)
        hint = f"; did you mean {guess!r}?" if guess else ""
        field.mistake(f"{pattern!r} fits no {what}{hint}")
    return pattern


def _until(field: Field) -> Until:
    _only(field, ("running", "nodes", "drifted", "quiet"))
    return Until(
        running=field["running"].whole(low=0),
        nodes=field["nodes"].whole(low=0),
        drifted=field["drifted"].whole(low=0),
        quiet=duration(field["quiet"], never_allowed=False) if field["quiet"] else None,
    )


def _scale(field: Field) -> Scale:
    _only(field, "kind name namespace replicas".split())
    field["name"].required()
    field["replicas"].required()
    return Scale(
        kind=field["kind"].choice(_SCALABLE, "Deployment", "kind that can be scaled"),
        name=field["name"].text(),
        namespace=field["namespace"].text("default"),
        replicas=_or(field["replicas"].whole(low=0), 0),
    )


def _delete(field: Field) -> Delete:
    _only(field, "kind name namespace count".split())
    field["kind"].required()
    if field["name"] and field["count"]:
        field["count"].mistake("is of no use beside a name")
    return Delete(
        kind=field["kind"].choice(_DELETABLE, "Node", "kind that a scenario deletes"),
        name=field["name"].text(),
        namespace=field["namespace"].text(),
        count=_or(field["count"].whole(low=1), 1),
    )


def _share(field: Field) -> float:
    _only(field, ("share",))
    share = field["share"].value
    if type(share) not in (int, float) or not 0 < share <= 1:
        field["share"].mistake(f"{share!r} is no share; write a number above 0 and up to 1")
        share = 1
    return float(share)


def _release(field: Field) -> Release:
    _only(field, ("family",))
    return Release(field["family"].choice(sorted(FAMILIES.values()), "AL2023", "family of images"))


def _wait(field: Field) -> Wait:
    return Wait(duration(field, never_allowed=False) or timedelta())


def _latencies(field: Field, usual: _Latencies) -> _Latencies:
    """Read how long things take, in seconds, beside the usual."""
    known = {
        _camel(name): name
        for name in usual.__struct_fields__
        if isinstance(getattr(usual, name), timedelta)
    }
    _only(field, known)
    given: dict[str, timedelta] = {}
    for entry in field.entries():
        value = entry.value
        if entry.key not in known:
            continue
        if type(value) not in (int, float) or not 0 <= value <= _LONGEST_WAIT:
            entry.mistake(f"{value!r} is no number of seconds")
        else:
            given[known[str(entry.key)]] = timedelta(seconds=value)
    return msgspec.structs.replace(usual, **given)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
