"""Validation of NodePools and node classes, by CRD rules and by the catalogue.

A short form is validated as the full object that it stands for. Errors are then
mapped back to the field of the short form.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from dovetail.aws.amifamily.registry import unsupported_alias_reason
from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.codec.karpenter.nodepools import decode_nodepool
from dovetail.codec.text.field_path import FieldPath
from dovetail.codec.text.suggestions import nearest_match
from dovetail.core.instancetypes.ami_families import ami_family_facts
from dovetail.core.instancetypes.labels import instance_type_labels
from dovetail.core.instancetypes.offerings import capacity_types
from dovetail.core.instancetypes.type_names import category_and_generation, family_of, size_of
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.error_messages import FieldError
from dovetail.eks.config.nodepools import NodeClassConfig, NodePoolConfig, entry_name
from dovetail.eks.desired.names import Names
from dovetail.eks.desired.network import network_settings
from dovetail.eks.desired.nodepools import nodeclass_manifest, nodepool_manifest, short_requirements
from dovetail.eks.desired.zones import get_region, select_zones
from dovetail.eks.validation.cluster import UNRECORDED_REGIONS
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog, Ec2InstanceType, Region
from dovetail.model.karpenter.ami_family import DEFAULT_AMI_FAMILY, AmiFamily
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Requirements

_TEMPLATE: Final = ("spec", "template", "spec")
_NODEPOOL_FIELDS: Final[tuple[tuple[FieldPath, FieldPath, bool], ...]] = (
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
_NODECLASS_FIELDS: Final[tuple[tuple[FieldPath, FieldPath, bool], ...]] = (
    (("spec", "amiSelectorTerms"), ("image",), False),
    (("spec", "amiFamily"), ("imageFamily",), False),
    (("spec", "userData"), ("userData",), False),
    (("spec", "blockDeviceMappings"), ("diskGib",), False),
    (("spec", "metadataOptions"), ("hopLimit",), False),
    (("spec", "tags"), ("tags",), True),
)
"""Path in the object, field of the short form, and whether deeper paths are the same."""
_REQUIREMENTS: Final = (*_TEMPLATE, "requirements")
_CONSOLIDATE_AFTER: Final = ("spec", "disruption", "consolidateAfter")


def _short_field(entry: NodePoolConfig | NodeClassConfig, path: FieldPath) -> FieldPath:
    """Return the field of the short form for a path of the object; empty for none."""
    if isinstance(entry, NodeClassConfig):
        return _map_path(_NODECLASS_FIELDS, path)
    if path[: len(_CONSOLIDATE_AFTER)] == _CONSOLIDATE_AFTER:
        return ("consolidateAfter",) if entry.ttl_after_empty is None else ("ttlAfterEmpty",)
    if path[: len(_REQUIREMENTS)] == _REQUIREMENTS and len(path) > len(_REQUIREMENTS):
        # The requirements of the short fields come first, then those of ``requirements``.
        index = int(path[len(_REQUIREMENTS)]) - len(short_requirements(entry))
        return ("requirements", index, *path[len(_REQUIREMENTS) + 1 :]) if index >= 0 else ()
    return _map_path(_NODEPOOL_FIELDS, path)


def _map_path(fields: tuple[tuple[FieldPath, FieldPath, bool], ...], path: FieldPath) -> FieldPath:
    for full, short, is_nested in fields:
        if path[: len(full)] == full:
            return (*short, *path[len(full) :]) if is_nested else short
    return ()


def validate_nodepools(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Validate node classes and NodePools; every NodePool needs an instance type."""
    is_recorded = config.region in catalog.regions
    region = get_region(config, catalog)
    if not config.node_classes or (not is_recorded and config.region not in UNRECORDED_REGIONS):
        if not config.node_classes:
            yield ("nodeClasses",), "is empty; remove the field to get one named 'default'"
        return
    yield from _find_duplicates(config)
    classes: dict[str, EC2NodeClass] = {}
    yield from _validate_nodeclasses(config, region, classes)
    for number in range(len(config.node_pools)):
        yield from _validate_nodepool(("nodePools", number), config, catalog, classes)


def _validate_nodeclasses(
    config: ClusterConfig, region: Region, classes: dict[str, EC2NodeClass]
) -> Iterator[FieldError]:
    """Validate node classes; add the valid ones to ``classes``."""
    names = Names.from_config(config)
    network = network_settings(config, region)
    for number, node_class in enumerate(config.node_classes):
        path: FieldPath = ("nodeClasses", number)
        manifest = nodeclass_manifest(node_class, config, names, network)
        yield from _validate_kind(path, manifest, "EC2NodeClass")
        decoded, errors = _decode(path, node_class, manifest, decode_nodeclass)
        yield from errors
        if not errors:
            classes[entry_name(node_class)] = decoded
            yield from _validate_image(path, manifest, decoded, config.version)


def _validate_nodepool(
    path: FieldPath, config: ClusterConfig, catalog: Catalog, classes: Mapping[str, EC2NodeClass]
) -> Iterator[FieldError]:
    pool, region = config.node_pools[int(path[1])], get_region(config, catalog)
    is_recorded = config.region in catalog.regions
    # Which types a region offers that is not in the catalogue is known only to AWS.
    instance_types = catalog.instance_types_in(config.region) if is_recorded else catalog.instance_types
    manifest = nodepool_manifest(pool, config)
    yield from _validate_kind(path, manifest, "NodePool")
    decoded, errors = _decode(path, pool, manifest, decode_nodepool)
    yield from errors
    if errors:
        return
    class_name = decoded.template.node_class.name
    class_names = {entry_name(entry) for entry in config.node_classes}
    if class_name not in class_names:
        guess = nearest_match(class_name, class_names)
        hint = f"; did you mean {guess!r}?" if guess else ""
        yield (*path, "nodeClass"), f"there is no node class {class_name!r}{hint}"
    elif class_name in classes:
        yield from _validate_os(path, pool, decoded, classes[class_name])
    if isinstance(pool, NodePoolConfig):
        errors = list(_validate_values(path, pool, instance_types, region))
        yield from errors
    zones = _node_zones(config, region)
    if is_recorded and not errors and not _is_satisfiable(decoded, instance_types, region, zones):
        yield (path, f"NodePool {decoded.name}: no instance type in {region.name} meets its requirements")


def _validate_image(
    path: FieldPath, manifest: dict[str, Any], node_class: EC2NodeClass, version: str
) -> Iterator[FieldError]:
    """Validate that AMIs exist for the version, and that the family can read the user data."""
    for term in manifest.get("spec", {}).get("amiSelectorTerms", ()):
        reason = unsupported_alias_reason(str(term.get("alias", "")), version)
        if reason is not None:
            yield path, reason
    text = manifest.get("spec", {}).get("userData")
    if node_class.ami_family is AmiFamily.BOTTLEROCKET and text:
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            yield path, f"userData is not TOML, which Bottlerocket requires: {error}"


def _validate_os(
    path: FieldPath, entry: NodePoolConfig | dict[str, Any], pool: NodePool, node_class: EC2NodeClass
) -> Iterator[FieldError]:
    """Validate that the NodePool allows the operating system of its node class."""
    name = "windows" if ami_family_facts(node_class.ami_family).is_windows else "linux"
    if pool.requirements().get_or_exists(label_keys.OS).has(name):
        return
    advice = f"require {label_keys.OS} In [{name}]"
    if isinstance(entry, NodePoolConfig):
        advice = "the short form is for linux: write the NodePool as an object"
    yield (*path, "nodeClass"), f"{node_class.name} boots {name}, which the NodePool excludes; {advice}"


def _find_duplicates(config: ClusterConfig) -> Iterator[FieldError]:
    for field, entries in (("nodeClasses", config.node_classes), ("nodePools", config.node_pools)):
        names = [entry_name(entry) for entry in entries]
        for number, name in enumerate(names):
            if name in names[:number]:
                yield (field, number), f"{name!r} is defined twice"


def _validate_kind(path: FieldPath, manifest: dict[str, Any], kind: str) -> Iterator[FieldError]:
    if manifest.get("kind") != kind:
        yield (*path, "kind"), f"must be {kind}, not {manifest.get('kind')!r}"


def _decode(
    path: FieldPath, entry: Any, manifest: dict[str, Any], decode: Callable[[Field], Any]
) -> tuple[Any, list[FieldError]]:
    """Decode an object by the rules of its CRD; return it and its errors."""
    context = DecodeContext()
    decoded = decode(Field(manifest, context))
    if isinstance(entry, dict):
        return decoded, [((*path, *inner), message) for inner, message in context.errors]
    return decoded, [_to_short_form(path, entry, *error) for error in context.errors]


def _to_short_form(
    path: FieldPath, entry: NodePoolConfig | NodeClassConfig, inner: FieldPath, message: str
) -> FieldError:
    """Return an error of the full object at the field of the short form."""
    field = _short_field(entry, inner)
    if field:
        return (*path, *field), message
    return path, f"{'.'.join(str(step) for step in inner)}: {message}"


def _validate_values(
    path: FieldPath, pool: NodePoolConfig, instance_types: Sequence[Ec2InstanceType], region: Region
) -> Iterator[FieldError]:
    """Check each value of the short form against the catalogue, with a hint."""
    if pool.ttl_after_empty is not None and pool.consolidate_after is not None:
        message = "conflicts with ttlAfterEmpty, which consolidates empty nodes only; set one of them"
        yield (*path, "consolidateAfter"), message
    names = [instance_type.name for instance_type in instance_types]
    values: dict[str, tuple[list[str], set[str]]] = {
        "families": (pool.families, {family_of(name) for name in names}),
        "sizes": (pool.sizes, {size_of(name) for name in names}),
        "instanceTypes": (pool.instance_types, set(names)),
        "categories": (
            pool.categories,
            {parts[0] for name in names if (parts := category_and_generation(name))},
        ),
        "zones": (pool.zones, {*region.zones, *_possible_zones(pool.zones, region)}),
    }
    for field, (requested, available) in values.items():
        for number, value in enumerate(requested):
            if value not in available:
                guess = nearest_match(value, sorted(available))
                hint = f"; did you mean {guess!r}?" if guess else ""
                yield (*path, field, number), f"{region.name} has no {value!r}{hint}"


def _possible_zones(names: Iterable[str], region: Region) -> set[str]:
    """Return names that the region's zones can have; which exist depends on the account."""
    return {name for name in names if not region.zones or re.fullmatch(rf"{region.name}[a-z]", name)}


def _node_zones(config: ClusterConfig, region: Region) -> set[str]:
    """Return the zones that nodes can run in, as far as the file says."""
    created = config.vpc.create if config.vpc else None
    return set(select_zones(created, region)) if created else set(region.zones)


def _is_satisfiable(
    pool: NodePool, instance_types: Sequence[Ec2InstanceType], region: Region, zones: set[str]
) -> bool:
    requirements = pool.requirements()
    family = ami_family_facts(DEFAULT_AMI_FAMILY)
    zone_requirement = requirements.get_or_exists(label_keys.ZONE)
    capacity_type = requirements.get_or_exists(label_keys.CAPACITY_TYPE)
    # Offerings of capacity reservations are not in the catalogue.
    allows_reserved = capacity_type.has(label_keys.RESERVED)
    type_requirements = Requirements(
        {
            key: value
            for key, value in requirements.items()
            if key not in (label_keys.ZONE, label_keys.CAPACITY_TYPE)
        }
    )
    allowed_zones = {zone for zone in zones if zone_requirement.has(zone)}
    has_unrecorded_zone = not allowed_zones <= set(region.zones)
    for instance_type in instance_types:
        offered = region.offered_zones.get(instance_type.name, frozenset())
        if not has_unrecorded_zone and not allowed_zones & offered:
            continue
        if not allows_reserved and not any(map(capacity_type.has, capacity_types(instance_type))):
            continue
        if instance_type_labels(instance_type, family).find_disjoint_key(type_requirements) is None:
            return True
    return False
