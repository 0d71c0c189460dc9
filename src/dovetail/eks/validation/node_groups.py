"""Checks: node groups and the machines that they name."""

from collections.abc import Iterator

from dovetail.codec.text.field_path import Path
from dovetail.codec.text.suggestions import nearest
from dovetail.core.instancetypes.labels import architecture_of
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.node_groups import HomeGroup, NodeGroup
from dovetail.eks.validation.finding import Finding
from dovetail.model.cloud.ec2_catalog import Catalog


def group_findings(spec: ClusterSpec, catalog: Catalog) -> Iterator[Finding]:
    """Check sizes, machine types and names of node groups."""
    groups: list[tuple[Path, NodeGroup]] = []
    if isinstance(spec.home, HomeGroup):
        groups.append((("home",), spec.home))
    groups.extend((("nodeGroups", number), one) for number, one in enumerate(spec.node_groups))
    seen: set[str] = set()
    for path, group in groups:
        if group.name in seen:
            yield (*path, "name"), f"there are two node groups named {group.name}"
        seen.add(group.name)
        if not group.min <= group.desired <= group.max:
            yield (
                (*path, "desired"),
                f"min {group.min}, desired {group.desired}, max {group.max} are not in order",
            )
        yield from _machines(path, group, spec.region, catalog)


def _machines(path: Path, group: NodeGroup, region: str, catalog: Catalog) -> Iterator[Finding]:
    place = catalog.regions.get(region)
    if place is None:
        return
    known = {one.name: one for one in catalog.machines}
    for number, name in enumerate(group.instance_types):
        where = (*path, "instanceTypes", number)
        if name not in known:
            guess = nearest(name, known)
            yield (
                where,
                f"{name!r} is no instance type" + (f"; did you mean {guess!r}?" if guess else ""),
            )
        elif not place.offered.get(name):
            yield where, f"{name} is not sold in {region}"
        elif architecture_of(known[name]) != group.architecture:
            found = architecture_of(known[name])
            yield where, f"{name} is {found}, the group {group.architecture}: set architecture"
