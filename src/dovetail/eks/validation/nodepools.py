"""Checks: NodePools and node classes, by their own rules and against the catalogue.

Where in a short NodePool or node class a part of the whole object was written.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter.nodeclasses import decode_node_class
from dovetail.codec.karpenter.nodepools import decode_node_pool
from dovetail.codec.text.field_path import Path
from dovetail.codec.text.suggestions import nearest
from dovetail.core.instancetypes.ami_families import family_named
from dovetail.core.instancetypes.labels import machine_labels
from dovetail.core.instancetypes.offerings import capacity_types
from dovetail.core.instancetypes.type_names import category_and_generation, family_of, size_of
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.nodepools import Class, Pool, name_of
from dovetail.eks.desired.names import Names
from dovetail.eks.desired.network import network_of
from dovetail.eks.desired.nodepools import class_object, pool_object, requirements_of
from dovetail.eks.desired.zones import zones_of
from dovetail.eks.validation.finding import Finding
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog, Machine, Region
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Requirements

_TEMPLATE: Final = ("spec", "template", "spec")
_OF_POOLS: Final[tuple[tuple[Path, Path, bool], ...]] = (
    ((*_TEMPLATE, "expireAfter"), ("expireAfter",), False),
    ((*_TEMPLATE, "terminationGracePeriod"), ("terminationGracePeriod",), False),
    ((*_TEMPLATE, "taints"), ("taints",), True),
    ((*_TEMPLATE, "startupTaints"), ("startupTaints",), True),
    ((*_TEMPLATE, "nodeClassRef"), ("nodeClass",), False),
    (("spec", "template", "metadata", "labels"), ("labels",), True),
    (("spec", "disruption", "budgets"), ("budget",), False),
    (("spec", "limits"), ("limits",), True),
    (("spec", "weight"), ("weight",), False),
)
_OF_CLASSES: Final[tuple[tuple[Path, Path, bool], ...]] = (
    (("spec", "amiSelectorTerms"), ("image",), False),
    (("spec", "amiFamily"), ("imageFamily",), False),
    (("spec", "userData"), ("userData",), False),
    (("spec", "blockDeviceMappings"), ("diskGib",), False),
    (("spec", "metadataOptions"), ("hopLimit",), False),
    (("spec", "tags"), ("tags",), True),
)
"""A place in the object, the short field, and whether what is below is the same in both."""
_REQUIREMENTS: Final = (*_TEMPLATE, "requirements")
_GIVING_BACK: Final = ("spec", "disruption", "consolidateAfter")


def short_place(written: Pool | Class, place: Path) -> Path:
    """Return the short field that a part of the object came from; empty for none."""
    if isinstance(written, Class):
        return _mapped(_OF_CLASSES, place)
    if place[: len(_GIVING_BACK)] == _GIVING_BACK:
        return ("consolidateAfter",) if written.ttl_after_empty is None else ("ttlAfterEmpty",)
    if place[: len(_REQUIREMENTS)] == _REQUIREMENTS and len(place) > len(_REQUIREMENTS):
        number = place[len(_REQUIREMENTS)]
        own = int(number) - len(requirements_of(written))
        return ("requirements", own, *place[len(_REQUIREMENTS) + 1 :]) if own >= 0 else ()
    return _mapped(_OF_POOLS, place)


def _mapped(places: tuple[tuple[Path, Path, bool], ...], place: Path) -> Path:
    for whole, short, goes_on in places:
        if place[: len(whole)] == whole:
            return (*short, *place[len(whole) :]) if goes_on else short
    return ()


FAMILY: Final = "AL2023"


def pool_findings(spec: ClusterSpec, catalog: Catalog) -> Iterator[Finding]:
    """Check every node class and NodePool; a pool that no machine satisfies is a mistake."""
    region = catalog.regions.get(spec.region)
    if region is None or not spec.node_classes:
        if not spec.node_classes:
            yield ("nodeClasses",), "is empty; leave it out for one named 'default'"
        return
    names = Names.of(spec)
    network = network_of(spec, region)
    yield from _twins(spec)
    for number, node_class in enumerate(spec.node_classes):
        manifest = class_object(node_class, spec, names, network)
        yield from _kind(("nodeClasses", number), manifest, "EC2NodeClass")
        _, found = _read(("nodeClasses", number), node_class, manifest, decode_node_class)
        yield from found
    machines = catalog.machines_in(spec.region)
    classes = {name_of(one) for one in spec.node_classes}
    for number, pool in enumerate(spec.node_pools):
        path: Path = ("nodePools", number)
        manifest = pool_object(pool, spec)
        yield from _kind(path, manifest, "NodePool")
        decoded, found = _read(path, pool, manifest, decode_node_pool)
        yield from found
        if found:
            continue
        if decoded.template.node_class.name not in classes:
            wanted = decoded.template.node_class.name
            guess = nearest(wanted, classes)
            hint = f"; did you mean {guess!r}?" if guess else ""
            yield (*path, "nodeClass"), f"there is no node class {wanted!r}{hint}"
        wrong = list(_words(path, pool, machines, region)) if isinstance(pool, Pool) else []
        yield from wrong
        if not wrong and not _is_satisfiable(decoded, machines, region, _zones(spec, region)):
            yield path, f"NodePool {decoded.name}: no instance type of {region.name} does all that"


def _twins(spec: ClusterSpec) -> Iterator[Finding]:
    for field, ones in (("nodeClasses", spec.node_classes), ("nodePools", spec.node_pools)):
        names = [name_of(one) for one in ones]
        for number, name in enumerate(names):
            if name in names[:number]:
                yield (field, number), f"{name!r} is there twice"


def _kind(path: Path, manifest: dict[str, Any], kind: str) -> Iterator[Finding]:
    if manifest.get("kind") != kind:
        yield (*path, "kind"), f"must be {kind}, not {manifest.get('kind')!r}"


def _read(
    path: Path, written: Any, manifest: dict[str, Any], decode: Callable[[Field], Any]
) -> tuple[Any, list[Finding]]:
    """Read an object by its CRD's rules; in a short form mistakes are those of the whole."""
    findings = Findings()
    decoded = decode(Field(manifest, findings))
    if isinstance(written, dict):
        return decoded, [((*path, *place), message) for place, message in findings.found]
    return decoded, [_in_short(path, written, place, text) for place, text in findings.found]


def _in_short(path: Path, written: Pool | Class, place: Path, message: str) -> Finding:
    """Return a mistake of the whole object where the user wrote it."""
    field = short_place(written, place)
    if field:
        return (*path, *field), message
    return path, f"{'.'.join(str(step) for step in place)}: {message}"


def _words(
    path: Path, pool: Pool, machines: Sequence[Machine], region: Region
) -> Iterator[Finding]:
    """Check single words of the short form, with a guess for each that nothing has."""
    names = [one.name for one in machines]
    known: dict[str, tuple[list[str], set[str]]] = {
        "families": (pool.families, {family_of(one) for one in names}),
        "sizes": (pool.sizes, {size_of(one) for one in names}),
        "instanceTypes": (pool.instance_types, set(names)),
        "categories": (
            pool.categories,
            {found[0] for one in names if (found := category_and_generation(one))},
        ),
        "zones": (pool.zones, set(region.zones)),
    }
    for field, (asked, there) in known.items():
        for number, word in enumerate(asked):
            if word not in there:
                guess = nearest(word, sorted(there))
                hint = f"; did you mean {guess!r}?" if guess else ""
                yield (*path, field, number), f"{region.name} has no {word!r}{hint}"


def _zones(spec: ClusterSpec, region: Region) -> set[str]:
    """Return the zones in which nodes can be, as far as the file tells."""
    created = spec.vpc.create if spec.vpc else None
    return set(zones_of(created, region)) if created else set(region.zones)


def _is_satisfiable(
    pool: NodePool, machines: Sequence[Machine], region: Region, zones: set[str]
) -> bool:
    asked = pool.requirements()
    family = family_named(FAMILY)
    allowed_zone = asked.allowed(label_keys.ZONE)
    sold_as = asked.allowed(label_keys.CAPACITY_TYPE)
    reserved = sold_as.has(label_keys.RESERVED)
    own = Requirements(
        {
            key: value
            for key, value in asked.items()
            if key not in (label_keys.ZONE, label_keys.CAPACITY_TYPE)
        }
    )
    reachable = {zone for zone in zones if allowed_zone.has(zone)}
    for machine in machines:
        if not reachable & region.offered.get(machine.name, frozenset()):
            continue
        if not reserved and not any(sold_as.has(one) for one in capacity_types(machine)):
            continue
        if machine_labels(machine, family).clash(own) is None:
            return True
    return False
