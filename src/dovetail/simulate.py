"""Simulation: plan nodes for manifests and dumps, without a cluster or AWS.

The library behind ``dovetail simulate`` and ``dovetail explain``. Both read files in
one way:

    files -> codec.inputs -> Inputs -> load_cache -> ClusterCache -> state.snapshot -> ClusterSnapshot

``codec.inputs`` reports all errors with file and line. From the cache on, it is the
path of the controllers. One difference: ``simulate`` takes nodes as recorded, and leaves
out pending NodeClaims, whose instance is not known.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import msgspec

from dovetail.codec.inputs.cluster_inputs import Inputs
from dovetail.codec.text.suggestions import join_first, pluralize
from dovetail.core.instancetypes.build import cached_instance_types
from dovetail.core.instancetypes.discounts import Discounts
from dovetail.core.instancetypes.kubelet import find_failures
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.core.instancetypes.unsatisfiable import find_unsatisfiable_requirements
from dovetail.core.scheduling.discounted import BilledPlan, solve_discounted
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import CPU, MEMORY, NO_RESOURCES, Resources
from dovetail.model.node import NodeObject
from dovetail.model.plan import Plan, PlannedNode
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.ports import api_resources as kinds
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.pods.assignments import PodAssignments
from dovetail.state.snapshot import SnapshotBuilder

__all__ = ["SimulationResult", "cluster_snapshot", "load_cache", "simulate"]

DEFAULT_REGION: Final = "us-east-1"
DEFAULT_NODEPOOL: Final = NodePool(
    name="default",
    template=NodeTemplate(
        requirements=(
            RequirementSpec(label_keys.OS, Operator.IN, ("linux",)),
            # A manifest does not show if its images exist for arm64.
            RequirementSpec(label_keys.ARCH, Operator.IN, ("amd64",)),
            RequirementSpec(label_keys.CAPACITY_TYPE, Operator.IN, (label_keys.ON_DEMAND,)),
            RequirementSpec("karpenter.k8s.aws/instance-category", Operator.IN, ("c", "m", "r")),
            RequirementSpec("karpenter.k8s.aws/instance-generation", Operator.GT, ("2",)),
        )
    ),
)
"""Used if no NodePool is given; equal to that of Karpenter's getting started guide."""
_DEFAULT_NODEPOOL_NOTE: Final = (
    "no NodePool given; used one for linux/amd64, on-demand, "
    "instance categories c, m and r from generation 3 on"
)


class SimulatedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of inputs, and the assumptions made for it."""

    snapshot: ClusterSnapshot
    region: str
    notes: tuple[str, ...]


class SimulationResult(SimulatedSnapshot, frozen=True, kw_only=True):
    """The plan for the inputs, with its bill."""

    billed: BilledPlan

    @property
    def plan(self) -> Plan:
        return self.billed.plan


def simulate(
    inputs: Inputs,
    *,
    catalog: Catalog,
    prices: PriceBook,
    region: str | None = None,
    zones: Sequence[str] = (),
    settings: SchedulingSettings | None = None,
    discounts: DiscountBook = NO_DISCOUNTS,
    burstable: BurstablePolicy = BurstablePolicy.BASELINE,
    assumed_requests: Resources = NO_RESOURCES,
) -> SimulationResult:
    """Plan nodes for the pending pods of the inputs.

    See ``cluster_snapshot`` for errors. Pods that do not request a resource of
    ``assumed_requests`` are planned with it.
    """
    settings = settings or SchedulingSettings()
    planned = assume_requests(inputs, assumed_requests)
    result = cluster_snapshot(
        planned, catalog=catalog, prices=prices, region=region, zones=zones, burstable=burstable
    )
    billed = solve_discounted(result.snapshot, settings, Discounts(discounts, region=result.region))
    notes = (
        *result.notes,
        *_note_burstable(billed.plan),
        *_note_little_memory(billed.plan, settings.min_node_memory),
    )
    return SimulationResult(snapshot=result.snapshot, region=result.region, notes=notes, billed=billed)


def assume_requests(inputs: Inputs, assumed: Resources) -> Inputs:
    """Return the inputs with requests for pods that have none, and a note."""
    specs: dict[PodSpec, PodSpec] = {}
    pending = []
    changed = 0
    for pod in inputs.pending:
        missing = {name: amount for name, amount in assumed.items() if not pod.spec.requests.get(name)}
        if not missing:
            pending.append(pod)
            continue
        changed += 1
        if pod.spec not in specs:
            requests = Resources({**pod.spec.requests, **missing})
            specs[pod.spec] = msgspec.structs.replace(pod.spec, requests=requests)
        pending.append(msgspec.structs.replace(pod, spec=specs[pod.spec]))
    if not changed:
        return inputs
    amounts = ", ".join(f"{name} {amount}" for name, amount in assumed.to_quantities().items())
    note = f"{pluralize(changed, 'pod')} without requests planned with {amounts}"
    return msgspec.structs.replace(inputs, pending=tuple(pending), warnings=(*inputs.warnings, note))


def _note_burstable(plan: Plan) -> list[str]:
    """Return a note for each burstable type of a plan: expected and included CPU."""
    nodes_by_type: dict[str, list[PlannedNode]] = {}
    for node in plan.nodes:
        if node.instance_type.cpu_credits is not None:
            nodes_by_type.setdefault(node.instance_type.name, []).append(node)
    notes = []
    for name, nodes in sorted(nodes_by_type.items()):
        cpu_credits = nodes[0].instance_type.cpu_credits
        if cpu_credits is not None:
            verb = "is" if len(nodes) == 1 else "are"
            text = cpu_credits.describe_choice([node.expected_cpu for node in nodes])
            notes.append(f"{len(nodes):,} × {name} {verb} {text}")
    return notes


def _note_little_memory(plan: Plan, min_memory: int) -> list[str]:
    """Return a note for each type that leaves less memory for pods than ``min_memory`` bytes."""
    left: dict[str, int] = {}
    for node in plan.nodes:
        instance_type = node.instance_type
        if MEMORY in instance_type.capacity:
            memory = instance_type.allocatable.get(MEMORY, 0) - node.daemon_requests.get(MEMORY, 0)
            if memory < min_memory:
                left[instance_type.name] = memory
    return [
        f"{name} leaves {memory / 2**20:.0f} MiB of memory for pods; no other type fits"
        for name, memory in sorted(left.items())
    ]


def cluster_snapshot(
    inputs: Inputs,
    *,
    catalog: Catalog,
    prices: PriceBook,
    region: str | None = None,
    zones: Sequence[str] = (),
    burstable: BurstablePolicy = BurstablePolicy.BASELINE,
) -> SimulatedSnapshot:
    """Return the snapshot of inputs, with instance types for their NodePools.

    The default region is that of the nodes, else that of the zones in node classes
    and NodePools, else us-east-1. ``zones``, names or IDs, restricts node classes.
    Raises ``InvalidInputError`` if the catalogue lacks region or zones, or if prices are
    those of other regions and none is named.
    """
    named = region or get_region_of_nodes(inputs.nodes) or _get_region_of_zones(inputs, catalog)
    place = find_region(catalog, named)
    # A file of other regions and no region named: most likely the region was forgotten.
    is_forgotten = not named and bool(prices.rows) and not prices.has_prices_of(place.name)
    if is_forgotten or not prices.covers_region(place.name):
        raise InvalidInputError([_missing_prices(catalog, prices, place.name)])
    zones = _resolve_zones(place, zones)
    pools = inputs.nodepools or (DEFAULT_NODEPOOL,)
    classes, class_notes = _get_node_classes(pools, inputs.node_classes)
    if not inputs.nodepools:
        class_notes = [_DEFAULT_NODEPOOL_NOTE]
    zone_notes = []
    if not zones and any(node_class.zones is None for node_class in classes.values()):
        sparse = _find_unused_sparse_zones(place, inputs, classes.values())
        zones = [zone for zone in place.zones if zone not in sparse] if sparse else []
        zone_notes = [
            f"{zone} offers few instance types and is left out; name it with --zones to use it"
            for zone in sparse
        ]
    settings = InstanceTypeSettings(kubelet_expressions=True, burstable=burstable)
    types = _build_types(classes, catalog, prices, place, zones, settings)
    cache = load_cache(inputs)
    snapshot = SnapshotBuilder(cache, PodAssignments(cache)).build(
        None,
        pending=inputs.pending,
        pools=[_with_readiness(pool, classes[pool.name]) for pool in pools],
        types=types,
    )
    # The newest pod of a changed DaemonSet still has the requests of the old template.
    daemon_sets = tuple(
        msgspec.structs.replace(daemon_set, newest_pod=None)
        if (daemon_set.namespace, daemon_set.name) in inputs.changed_daemon_sets
        else daemon_set
        for daemon_set in snapshot.daemon_sets
    )
    return SimulatedSnapshot(
        snapshot=msgspec.structs.replace(snapshot, daemon_sets=daemon_sets),
        region=place.name,
        notes=(
            *inputs.notes,
            *_note_incomplete_nodes(inputs, cache),
            *_note_missing_requests(inputs.pending),
            *class_notes,
            *zone_notes,
            *(
                warning
                for pool in pools
                for warning in find_unsatisfiable_requirements(pool, types[pool.name], place)
            ),
        ),
    )


def load_cache(inputs: Inputs) -> ClusterCache:
    """Return a cluster cache with the objects of the inputs."""
    provider_ids = {claim.node_name: claim.provider_id for claim in inputs.claims if claim.node_name}
    # The cache joins by provider ID; hand-written manifests may name the node instead.
    nodes = [
        msgspec.structs.replace(node, provider_id=provider_ids.get(node.name) or node.name)
        if not node.provider_id and (node.name in provider_ids or label_keys.NODEPOOL in node.labels)
        else node
        for node in inputs.nodes
    ]
    return ClusterCache.from_objects(
        {
            kinds.PODS: inputs.pods,
            kinds.NODES: nodes,
            kinds.NODE_CLAIMS: inputs.claims,
            kinds.NODE_POOLS: inputs.nodepools,
            kinds.EC2_NODE_CLASSES: inputs.node_classes,
            kinds.DAEMON_SETS: inputs.daemon_sets,
            kinds.REPLICA_SETS: [owner for owner in inputs.controllers if owner.kind != "StatefulSet"],
            kinds.STATEFUL_SETS: [owner for owner in inputs.controllers if owner.kind == "StatefulSet"],
            kinds.POD_DISRUPTION_BUDGETS: inputs.pdbs,
            kinds.SERVICES: inputs.services,
            kinds.NAMESPACES: inputs.namespaces,
            kinds.PERSISTENT_VOLUMES: inputs.volumes,
            kinds.PERSISTENT_VOLUME_CLAIMS: inputs.volume_claims,
            kinds.STORAGE_CLASSES: inputs.storage_classes,
            kinds.CSI_NODES: inputs.csi_nodes,
            kinds.LIMIT_RANGES: inputs.limit_ranges,
            kinds.RUNTIME_CLASSES: inputs.runtime_classes,
        }
    )


def _note_incomplete_nodes(inputs: Inputs, cache: ClusterCache) -> list[str]:
    """Return notes about nodes, NodeClaims and bound pods that the snapshot lacks."""
    notes = [
        f"node {node.name} has no instance type label yet; left out"
        for node in cache.nodes()
        if cache.joined_node(node.provider_id or node.name) is None
    ]
    notes += [f"nodeclaim {claim.name} is not launched yet; left out" for claim in cache.pending_claims()]
    missing = Counter(
        pod.node_name
        for pod in inputs.pods
        if pod.node_name and not pod.is_terminal and cache.node(pod.node_name) is None
    )
    if missing:
        pods = pluralize(missing.total(), "bound pod")
        notes.append(f"{pods} left out: nodes not given: {join_first(sorted(missing))}")
    return notes


def _note_missing_requests(pods: Iterable[Pod]) -> list[str]:
    """Return notes about pods without requests, which any node seems to have room for."""
    missing = Counter(
        tuple(name for name in (CPU, MEMORY) if not pod.spec.requests.get(name)) for pod in pods
    )
    texts = {
        (CPU, MEMORY): "neither CPU nor memory: only a node's pod limit counts",
        (CPU,): "no CPU: any node seems to have enough",
        (MEMORY,): "no memory: any node seems to have enough",
    }
    return [
        f"{'1 pod requests' if missing[key] == 1 else f'{missing[key]:,} pods request'} {text}; "
        "see --assume-requests"
        for key, text in texts.items()
        if missing[key]
    ]


def get_region_of_nodes(nodes: Iterable[NodeObject]) -> str | None:
    """Return the region in the labels of most nodes; None without such labels."""
    return _most_common(node.labels.get(label_keys.REGION, "") for node in nodes)


def _get_region_of_zones(inputs: Inputs, catalog: Catalog) -> str | None:
    """Return the region of most zones in node classes and NodePools."""
    zones = [zone for node_class in inputs.node_classes for zone in node_class.zones or ()]
    for pool in inputs.nodepools:
        for spec in pool.template.requirements:
            if spec.key == label_keys.ZONE and spec.operator is Operator.IN:
                zones.extend(spec.values)
    region_of = {zone: region.name for region in catalog.regions.values() for zone in region.zones}
    return _most_common(region_of.get(zone, "") for zone in zones)


def _most_common(names: Iterable[str]) -> str | None:
    """Return the most common name, the first by name of several; empty ones do not count."""
    counts = Counter(filter(None, names))
    return min(counts, key=lambda name: (-counts[name], name), default=None)


def find_region(catalog: Catalog, name: str | None) -> Region:
    """Return a region of the catalogue, else the default; raise ``InvalidInputError`` if unknown."""
    region = catalog.regions.get(name or DEFAULT_REGION)
    if region is None:
        raise InvalidInputError(
            [unknown_value("--region", name or DEFAULT_REGION, "is not in the catalogue", catalog.regions)]
        )
    return region


def _missing_prices(catalog: Catalog, prices: PriceBook, region: str) -> ValidationError:
    covers = prices.has_prices_of if prices.rows else prices.covers_region
    covered = [name for name in sorted(catalog.regions) if covers(name)]
    hint = f"; it has {', '.join(covered)}: choose with --region" if covered else ""
    return ValidationError("--prices:", 0, "", f"{prices.source} has no prices for {region}{hint}")


def _resolve_zones(region: Region, zones: Iterable[str]) -> list[str]:
    """Return the names of zones given by name or ID; raise with all unknown ones."""
    names = [region.zone_names.get(zone, zone) for zone in zones]
    errors = [
        unknown_value("--zones", zone, f"is not a zone of {region.name}", region.zones)
        for zone in names
        if zone not in region.zones
    ]
    if errors:
        raise InvalidInputError(errors)
    return names


def unknown_value(option: str, value: str, problem: str, known: Iterable[str]) -> ValidationError:
    """Return the error of an unknown region, zone or type in an option, with a suggestion."""
    close = get_close_matches(value, sorted(known), n=5)
    # Swapped letters first: us-esat-1 is nearer to us-west-1 letter by letter.
    close.sort(key=lambda match: sorted(match) != sorted(value))
    hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(sorted(known))}"
    return ValidationError(f"{option}:", 0, "", f"{value!r} {problem}{hint}")


def _get_node_classes(
    pools: Iterable[NodePool], classes: Iterable[EC2NodeClass]
) -> tuple[dict[str, EC2NodeClass], list[str]]:
    """Return the node class of each NodePool, and notes about missing ones."""
    known = {node_class.name: node_class for node_class in classes}
    missing: dict[str, list[str]] = {}
    by_pool: dict[str, EC2NodeClass] = {}
    for pool in pools:
        name = pool.template.node_class.name
        if name not in known:
            missing.setdefault(name, []).append(pool.name)
        by_pool[pool.name] = known.get(name) or EC2NodeClass(name=name)
    return by_pool, [
        f"EC2NodeClass {name} of {'NodePool' if len(users) == 1 else 'NodePools'} {', '.join(users)} "
        "is not given; used AL2023 defaults and every zone"
        for name, users in missing.items()
    ]


def _find_unused_sparse_zones(region: Region, inputs: Inputs, classes: Iterable[EC2NodeClass]) -> list[str]:
    """Return sparse zones that no node, node class or NodePool names.

    A topology spread over zones would wait for a zone that has no instance type
    for most pods.
    """
    named = {node.labels.get(label_keys.ZONE) for node in inputs.nodes}
    named |= {zone for node_class in classes for zone in node_class.zones or ()}
    for pool in inputs.nodepools:
        requirement = pool.requirements().get(label_keys.ZONE)
        named |= set(requirement.values) if requirement else set()
    return [zone for zone in region.sparse_zones if zone not in named]


def _build_types(
    classes: Mapping[str, EC2NodeClass],
    catalog: Catalog,
    prices: PriceBook,
    region: Region,
    zones: Sequence[str],
    settings: InstanceTypeSettings,
) -> FrozenDict[str, tuple[InstanceType, ...]]:
    """Return the instance types of each NodePool.

    The reader rejects kubelet expressions whose feature gate is off.
    """
    facts = catalog.instance_types_in(region.name)
    errors = [
        ValidationError(f"EC2NodeClass {node_class.name}", 0, f"spec.kubelet.{field}", message)
        for node_class in dict.fromkeys(classes.values())
        if node_class.ready  # Else nothing is launched from it, in the cluster and in the plan.
        for field, message in find_failures(facts, node_class, settings)
    ]
    if errors:
        raise InvalidInputError(errors)
    # NodePools of one class share one tuple: building it and compiling it take a while.
    built = {
        node_class: cached_instance_types(
            facts,
            region=region,
            node_class=_restrict_zones(node_class, region, zones),
            prices=prices,
            settings=settings,
        )
        for node_class in dict.fromkeys(classes.values())
    }
    return FrozenDict({pool: built[node_class] for pool, node_class in classes.items()})


def _restrict_zones(node_class: EC2NodeClass, region: Region, zones: Sequence[str]) -> EC2NodeClass:
    if not zones:
        return node_class
    reached = region.zones if node_class.zones is None else node_class.zones
    kept = FrozenDict({zone: zone_id for zone, zone_id in reached.items() if zone in zones})
    return msgspec.structs.replace(node_class, zones=kept)


def _with_readiness(pool: NodePool, node_class: EC2NodeClass) -> NodePool:
    if node_class.ready and not node_class.deleting:
        return pool
    return msgspec.structs.replace(pool, ready=False)
