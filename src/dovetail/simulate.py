"""Putting the parts together: what a user gave, into the picture a decision sees."""

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import msgspec

from dovetail.codec.inputs.cluster_inputs import Inputs
from dovetail.core.instancetypes.build import instance_types
from dovetail.core.instancetypes.unsatisfiable import unmet
from dovetail.errors import BadInput, Mistake
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import CPU, MEMORY
from dovetail.model.node import Node
from dovetail.model.snapshot import ClusterSnapshot

_POOR = 0.25
"""Of the types that a region's best zone sells; below that a zone is of little use."""
DEFAULT_REGION = "us-east-1"
DEFAULT_POOL = NodePool(
    name="default",
    template=NodeTemplate(
        requirements=(
            RequirementSpec(label_keys.OS, Operator.IN, ("linux",)),
            # Whether images exist for arm64 cannot be seen from a manifest.
            RequirementSpec(label_keys.ARCH, Operator.IN, ("amd64",)),
            RequirementSpec(label_keys.CAPACITY_TYPE, Operator.IN, (label_keys.ON_DEMAND,)),
            RequirementSpec("karpenter.k8s.aws/instance-category", Operator.IN, ("c", "m", "r")),
            RequirementSpec("karpenter.k8s.aws/instance-generation", Operator.GT, ("2",)),
        )
    ),
)
"""Used when no NodePool is given; what Karpenter's guide starts people with."""
DEFAULT_POOL_NOTE = (
    "no NodePool given; used one for linux/amd64, on-demand, "
    "instance categories c, m and r from generation 3 on"
)


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot, and what was assumed to make it."""

    snapshot: ClusterSnapshot
    region: str
    notes: tuple[str, ...]


def assemble(
    inputs: Inputs,
    *,
    catalog: Catalog,
    prices: PriceBook,
    region: str | None = None,
    zones: Sequence[str] = (),
) -> Assembled:
    """Return the snapshot in which these inputs meet the catalogue and its prices.

    The region is the one asked for, else that of the nodes, else that of the
    zones which node classes and NodePools name, else us-east-1. ``zones``, names
    or ids, narrows what node classes reach. Raises ``BadInput`` where the
    catalogue or the prices do not know the place.
    """
    found = _region_of(inputs.nodes) or _region_named(inputs, catalog) or DEFAULT_REGION
    place = _region(catalog, prices, region or found)
    zones = _known_zones(place, zones)
    notes = [*inputs.notes, *_about_requests(inputs.pending)]
    pools = inputs.node_pools
    if not pools:
        pools = (DEFAULT_POOL,)
        notes.append(DEFAULT_POOL_NOTE)
    classes = _class_of_each(pools, inputs.node_classes, notes, assumed=not inputs.node_pools)
    if not zones and any(one.zones is None for one in classes.values()):
        poor = _poor_zones(place, inputs, classes.values())
        zones = [zone for zone in place.zones if zone not in poor] if poor else []
        notes.extend(
            f"{zone} sells few instance types and is left out; name it with --zones to use it"
            for zone in poor
        )
    types = _types_of_each(classes, catalog, prices, place, zones)
    notes.extend(remark for pool in pools for remark in unmet(pool, types[pool.name], place))
    snapshot = ClusterSnapshot(
        pending=inputs.pending,
        nodes=inputs.nodes,
        node_pools=tuple(_with_readiness(pool, classes[pool.name]) for pool in pools),
        instance_types=types,
        daemon_sets=inputs.daemon_sets,
        volume_claims=inputs.volume_claims,
        volumes=inputs.volumes,
        storage_classes=inputs.storage_classes,
        namespaces=inputs.namespaces,
        disruption_budgets=inputs.disruption_budgets,
        services=inputs.services,
        controllers=inputs.controllers,
    )
    return Assembled(snapshot=snapshot, region=place.name, notes=tuple(notes))


def _about_requests(pods: Iterable[Pod]) -> list[str]:
    """Warn of pods that a plan cannot take seriously, because they ask for nothing."""
    bare = sum(
        1 for pod in pods if not (pod.spec.requests.get(CPU) or pod.spec.requests.get(MEMORY))
    )
    if not bare:
        return []
    who = "1 pod requests" if bare == 1 else f"{bare:,} pods request"
    return [f"{who} neither CPU nor memory: only a node's pod limit counts"]


def _region_of(nodes: Iterable[Node]) -> str | None:
    """Return the region that most nodes say they are in."""
    said = Counter(node.labels.get(label_keys.REGION, "") for node in nodes)
    said.pop("", None)
    return min(said, key=lambda name: (-said[name], name), default=None)


def _region_named(inputs: Inputs, catalog: Catalog) -> str | None:
    """Return the region of which node classes and NodePools name the most zones."""
    named = [zone for one in inputs.node_classes for zone in one.zones or ()]
    for pool in inputs.node_pools:
        for spec in pool.template.requirements:
            if spec.key == label_keys.ZONE and spec.operator is Operator.IN:
                named.extend(spec.values)
    homes = {zone: region.name for region in catalog.regions.values() for zone in region.zones}
    said = Counter(homes[zone] for zone in named if zone in homes)
    return min(said, key=lambda name: (-said[name], name), default=None)


def _region(catalog: Catalog, prices: PriceBook, name: str) -> Region:
    known = catalog.regions.get(name)
    if known is None:
        raise BadInput(
            [unknown_place("--region", name, "is not in the catalogue", catalog.regions)]
        )
    if not prices.covers(name):
        covered = [one for one in sorted(catalog.regions) if prices.covers(one)]
        hint = f"; it has {', '.join(covered)}: choose with --region" if covered else ""
        message = f"{prices.source} has no prices for {name}{hint}"
        raise BadInput([Mistake("--prices:", 0, "", message)])
    return known


def _known_zones(region: Region, zones: Iterable[str]) -> list[str]:
    """Return zones by name, also those given by id; raises with all that are unknown."""
    by_id = region.zone_names
    named = [by_id.get(zone, zone) for zone in zones]
    mistakes = [
        unknown_place("--zones", zone, f"is no zone of {region.name}", region.zones)
        for zone in named
        if zone not in region.zones
    ]
    if mistakes:
        raise BadInput(mistakes)
    return named


def unknown_place(option: str, value: str, what: str, known: Iterable[str]) -> Mistake:
    """Return the mistake of naming a place that is not among those known, with a guess."""
    close = get_close_matches(value, sorted(known), n=5)
    # Swapped letters first: us-esat-1 is nearer to us-west-1 letter by letter.
    close.sort(key=lambda one: sorted(one) != sorted(value))
    hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(sorted(known))}"
    return Mistake(f"{option}:", 0, "", f"{value!r} {what}{hint}")


def _class_of_each(
    pools: Iterable[NodePool], classes: Iterable[NodeClass], notes: list[str], *, assumed: bool
) -> dict[str, NodeClass]:
    known = {one.name: one for one in classes}
    missing: dict[str, list[str]] = {}
    found: dict[str, NodeClass] = {}
    for pool in pools:
        name = pool.template.node_class.name
        if name not in known:
            missing.setdefault(name, []).append(pool.name)
        found[pool.name] = known.get(name) or NodeClass(name=name)
    if not assumed:
        notes.extend(
            f"EC2NodeClass {name} of NodePool {', '.join(users)} is not given; "
            "used AL2023 defaults and every zone"
            for name, users in missing.items()
        )
    return found


def _poor_zones(region: Region, inputs: Inputs, classes: Iterable[NodeClass]) -> list[str]:
    """Return zones that nobody names and that sell next to nothing.

    A real cluster rarely has a subnet there, and a spread over zones would wait
    for a zone in which most pods find no machine.
    """
    sold = Counter(zone for zones in region.offered.values() for zone in zones)
    most = max(sold.values(), default=0)
    named = {node.labels.get(label_keys.ZONE) for node in inputs.nodes}
    named |= {zone for one in classes for zone in one.zones or ()}
    for pool in inputs.node_pools:
        wanted = pool.requirements().get(label_keys.ZONE)
        named |= set(wanted.values) if wanted else set()
    return [zone for zone in region.zones if sold[zone] < _POOR * most and zone not in named]


def _types_of_each(
    classes: dict[str, NodeClass],
    catalog: Catalog,
    prices: PriceBook,
    region: Region,
    zones: Sequence[str],
) -> FrozenDict[str, tuple[InstanceType, ...]]:
    machines = catalog.machines_in(region.name)
    # Pools of one class share one tuple: building it takes a while, and so does compiling it.
    built: dict[NodeClass, tuple[InstanceType, ...]] = {}
    for node_class in classes.values():
        if node_class not in built:
            built[node_class] = instance_types(
                machines,
                region=region,
                node_class=_narrowed(node_class, region, zones),
                prices=prices,
            )
    return FrozenDict({pool: built[node_class] for pool, node_class in classes.items()})


def _narrowed(node_class: NodeClass, region: Region, zones: Sequence[str]) -> NodeClass:
    if not zones:
        return node_class
    reached = region.zones if node_class.zones is None else node_class.zones
    kept = FrozenDict({zone: zone_id for zone, zone_id in reached.items() if zone in zones})
    return msgspec.structs.replace(node_class, zones=kept)


def _with_readiness(pool: NodePool, node_class: NodeClass) -> NodePool:
    if node_class.ready and not node_class.deleting:
        return pool
    return msgspec.structs.replace(pool, ready=False)
