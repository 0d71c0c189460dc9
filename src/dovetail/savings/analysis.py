"""Savings analysis: today's bill, what consolidation reaches, and the lower bound."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from dovetail.codec.text.suggestions import pluralize
from dovetail.core.cost.lower_bound import DESCRIPTION, compute_lower_bound
from dovetail.core.cost.node_groups import GroupKind, NodeGroup, find_node_group, find_other_cloud
from dovetail.core.cost.node_prices import FARGATE_NOTE, NodePrices, PricedNode
from dovetail.core.disruption.candidates import (
    Blocker,
    Candidate,
    CandidateContext,
    DisruptionClass,
    StateNode,
    check_disruptable,
)
from dovetail.core.instancetypes.build import cached_instance_types
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.settings import SchedulingSettings
from dovetail.savings.adoption import AdoptedCluster, adopt_cluster
from dovetail.savings.consolidation import FleetCopy, ManagedNode
from dovetail.savings.further_options import OptionsInput, find_options
from dovetail.savings.other_cloud import plan_on_ec2
from dovetail.savings.planning import Fleet, PodHolds, plan_fleet
from dovetail.savings.report import BlockerLine, GroupBill, Line, OtherCloud, Savings, UnpricedNode
from dovetail.savings.uses import divide_bill
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.by_name import InstanceTypeIndex
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from dovetail.state.snapshot import build_provisioning_snapshot

_NO_PODS: Final = "there are no pods in the input; make a dump with: dovetail dump"
_DEFAULT_REGION: Final = "us-east-1"
_OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"

Object = dict[str, Any]


class ConsolidatedFleet(msgspec.Struct, frozen=True, kw_only=True):
    """Bill and number of nodes of a fleet."""

    price: float
    """USD per hour."""
    nodes: int


class SavingsInput(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded cluster, and the prices to evaluate it with."""

    objects: Sequence[Object]
    now: datetime
    catalog: Catalog
    prices: PriceBook
    region: Region
    scheduling: SchedulingSettings = SchedulingSettings()
    keep_types: bool = False
    """Inferred NodePools have only the instance types of their groups."""
    missing: tuple[str, ...] = ()
    """Kinds that could not be read, as sentences."""


class SavingsResult(msgspec.Struct, frozen=True, kw_only=True):
    """The report, and the cluster with the inferred NodePools."""

    report: Savings
    adopted: AdoptedCluster


def analyse(source: SavingsInput) -> SavingsResult:
    """Return what a cluster costs and could cost; ``DovetailError`` if nothing can be said."""
    named = [obj for obj in source.objects if (obj.get("metadata") or {}).get("name")]
    source = replace(source, objects=named)
    cache = ClusterCache.from_raw(source.objects)
    if not any(cache.pods_on(node.name) for node in cache.nodes()) and not cache.unbound_pods():
        raise DovetailError(_NO_PODS)
    provider = _create_provider(source)
    default_types = provider.instance_types(EC2NodeClass(name="default"), now=source.now)
    adopted = adopt_cluster(
        source.objects,
        cache,
        {instance_type.name: instance_type for instance_type in default_types},
        source.region,
        keep_types=source.keep_types,
    )
    analysis = _Analysis(source, cache, adopted, provider)
    if cache.nodes() and all(find_other_cloud(node.labels, node.provider_id) for node in cache.nodes()):
        # There is no bill, and nothing of it can be consolidated.
        report = analysis.run()
        report = replace(
            report,
            other_cloud=analysis.plan_on_ec2(default_types),
            uses=[],
            steps=[],
            options=[],
            notes=[note for note in report.notes if DESCRIPTION not in note],
        )
    else:
        report = analysis.run()
    return SavingsResult(report=report, adopted=adopted)


def find_cluster_region(objects: Sequence[Object], catalog: Catalog, name: str | None) -> Region:
    """Return the region of most nodes, or the named one.

    Raises ``DovetailError`` if the catalogue does not know it, as for nodes of another cloud.
    """
    counts: Counter[str] = Counter()
    for obj in objects:
        if obj.get("kind") == "Node":
            labels = (obj.get("metadata") or {}).get("labels") or {}
            counts[str(labels.get(label_keys.REGION) or labels.get(_OLD_REGION) or "")] += 1
    counts.pop("", None)
    chosen = name or min(counts, key=lambda region: (-counts[region], region), default=_DEFAULT_REGION)
    region = catalog.regions.get(chosen)
    if region is None and not name:
        known = [each for each in counts if each in catalog.regions]
        region = catalog.regions[known[0] if known else _DEFAULT_REGION]
    if region is None:
        raise DovetailError(f"region {chosen!r} is not in the catalogue; name one with --region")
    return region


def _create_provider(source: SavingsInput) -> InstanceTypeProvider:
    return InstanceTypeProvider(
        source.catalog.instance_types_in(source.region.name),
        region=source.region,
        prices=source.prices,
        unavailable=UnavailableOfferings(),
        settings=InstanceTypeSettings(kubelet_expressions=True),
        build=cached_instance_types,
    )


class _Analysis:
    """One analysis: the original nodes for bills, the adopted ones for plans."""

    def __init__(
        self,
        source: SavingsInput,
        original: ClusterCache,
        adopted: AdoptedCluster,
        provider: InstanceTypeProvider,
    ) -> None:
        self._source = source
        self._original = original
        self._adopted = adopted
        self._cache = ClusterCache.from_raw(adopted.objects)
        self._types: dict[str, tuple[InstanceType, ...]] = {}
        for pool in self._cache.pools():
            node_class = self._cache.node_class(pool.template.node_class.name)
            known = () if node_class is None else provider.instance_types(node_class, now=source.now)
            self._types[pool.name] = known
        self._snapshot = build_provisioning_snapshot(self._cache, self._types, source.now)
        self._holds = PodHolds(inferred.pool.name for inferred in adopted.inferred)
        node_prices = NodePrices(source.catalog, source.prices, source.region.name)
        self._priced = [
            node_prices.price(node, original.pods_on(node.name))
            for node in sorted(original.nodes(), key=lambda node: node.name)
        ]
        self._price = {entry.node: entry.price or 0.0 for entry in self._priced}
        self._managed = dict(self._find_managed())
        index = InstanceTypeIndex()
        self._candidate_context = CandidateContext(
            now=source.now,
            get_nodepool=self._cache.pool,
            get_instance_types=lambda pool: index.by_name(pool.name, self._types.get(pool.name, ())),
            get_pdbs=self._cache.pdbs_for,
            is_nominated=lambda provider_id, at: False,
            node_cost=source.scheduling.node_cost,
        )

    def _find_managed(self) -> Iterator[tuple[str, ManagedNode]]:
        """Yield the nodes with a NodeClaim whose instance types are known, by name."""
        for node in sorted(self._cache.nodes(), key=lambda node: node.name):
            claims = self._cache.claims_of(node.provider_id or node.name)
            is_foreign = find_node_group(node.labels, node.provider_id).kind is GroupKind.AUTO_MODE
            if claims and not is_foreign and self._types.get(claims[0].pool):
                yield node.name, ManagedNode(claim=claims[0], node=node)

    def run(self) -> Savings:
        today = sum(self._price.values())
        replaceable, blocked = self._split_nodes()
        consolidated = self._limit_to_today(self._consolidate())
        all_nodes = [*replaceable, *(name for names in blocked.values() for name in names)]
        scratch = self._plan(all_nodes)
        moving = frozenset(all_nodes) - scratch.kept
        fixed = [name for name in self._price if name not in moving]
        from_scratch = ConsolidatedFleet(
            price=self._bill(scratch, all_nodes), nodes=len(fixed) + scratch.new_nodes
        )
        if consolidated.price <= from_scratch.price:
            from_scratch = consolidated
        pods = [
            self._holds.hold(pod, node)
            for node in self._snapshot.nodes
            if node.name in moving
            for pod in node.pods
            if is_reschedulable(pod)
        ]
        pods_bound = compute_lower_bound(self._snapshot, pods)
        fixed_price = sum(self._price[name] for name in fixed)
        bound = min(from_scratch.price, pods_bound.price + fixed_price)
        options = find_options(
            OptionsInput(
                raw_pods=[obj for obj in self._source.objects if obj.get("kind") == "Pod"],
                snapshot=self._snapshot,
                holds=self._holds,
                priced=self._priced,
                moving=moving,
                fleet_price=scratch.price,
                scheduling=self._source.scheduling,
                facts=self._source.catalog.instance_types_in(self._source.region.name),
                prices=self._source.prices,
                region=self._source.region.name,
            )
        )
        return Savings(
            nodes=len(self._priced),
            pods=sum(len(self._original.pods_on(node.name)) for node in self._original.nodes()),
            today=today,
            groups=self._group_bills(),
            unpriced=[
                UnpricedNode(node=entry.node, group=entry.group, message=entry.note)
                for entry in self._priced
                if entry.price is None
            ],
            consolidated=consolidated.price,
            consolidated_nodes=consolidated.nodes,
            from_scratch=from_scratch.price,
            from_scratch_nodes=from_scratch.nodes,
            bound=bound,
            pods_bound=pods_bound,
            fixed=fixed_price,
            fixed_nodes=len(fixed),
            uses=divide_bill(
                {node.name: node for node in self._original.nodes()},
                self._priced,
                {entry.node: self._original.pods_on(entry.node) for entry in self._priced},
            ),
            steps=_steps(today, consolidated.price, from_scratch.price, bound),
            blockers=self._blocker_lines(blocked),
            options=options,
            inferred_pools=[inferred.pool.name for inferred in self._adopted.new_pools],
            notes=self._notes(scratch),
        )

    def plan_on_ec2(self, types: Sequence[InstanceType]) -> OtherCloud:
        """Return what the pods of a cluster of another cloud would cost on EC2."""
        nodes = self._original.nodes()
        bound = [pod for node in nodes for pod in self._original.pods_on(node.name)]
        return plan_on_ec2(self._snapshot, nodes, bound, types, self._source.scheduling)

    def _consolidate(self) -> ConsolidatedFleet:
        """Consolidate a copy in which pods are held as in plans; return what it ends with."""
        nodes = tuple(
            replace(node, pods=tuple(self._holds.hold(pod, node) for pod in node.pods))
            for node in self._snapshot.nodes
        )
        copy = FleetCopy(
            replace(self._snapshot, nodes=nodes),
            self._managed,
            self._candidate_context,
            self._source.scheduling,
        )
        copy.consolidate()
        prices = [self._price[node.name] for node in copy.nodes if node.name in self._price]
        prices += copy.price_launched()
        return ConsolidatedFleet(price=sum(prices), nodes=len(prices))

    def _limit_to_today(self, end: ConsolidatedFleet) -> ConsolidatedFleet:
        """Return today's fleet instead of a more expensive one: consolidation does not add to a bill."""
        today = ConsolidatedFleet(price=sum(self._price.values()), nodes=len(self._price))
        return today if end.price >= today.price else end

    def _plan(self, removable: Sequence[str]) -> Fleet:
        return plan_fleet(self._snapshot, removable, self._source.scheduling, self._holds.hold)

    def _bill(self, fleet: Fleet, removed: Sequence[str]) -> float:
        """Return the bill of a fleet with all nodes that were not removed."""
        gone = set(removed) - fleet.kept
        return fleet.price + sum(price for name, price in self._price.items() if name not in gone)

    def _split_nodes(self) -> tuple[list[str], dict[tuple[Blocker, str], list[str]]]:
        """Return the nodes that consolidation may replace, and the others by blocker."""
        replaceable: list[str] = []
        blocked: dict[tuple[Blocker, str], list[str]] = {}
        for name, managed in self._managed.items():
            node, pods = managed.node, self._cache.pods_on(name)
            state = StateNode(provider_id=node.provider_id or name, claim=managed.claim, node=node, pods=pods)
            result = check_disruptable(state, self._candidate_context, DisruptionClass.GRACEFUL)
            if isinstance(result, Candidate):
                setting = _find_setting(result.pool, pods)
                if setting:
                    blocked.setdefault((Blocker("NodePool", result.pool.name), setting), []).append(node.name)
                else:
                    replaceable.append(node.name)
            elif result.blocker is not None:
                blocked.setdefault((result.blocker, result.message), []).append(node.name)
        return replaceable, blocked

    def _blocker_lines(self, blocked: Mapping[tuple[Blocker, str], Sequence[str]]) -> list[BlockerLine]:
        by_blocker: dict[Blocker, tuple[str, list[str]]] = {}
        for (blocker, message), names in blocked.items():
            by_blocker.setdefault(blocker, (message, []))[1].extend(names)
        lines = [
            BlockerLine(
                blocker=str(blocker),
                nodes=len(names),
                price=sum(self._price[name] for name in names),
                message=message,
            )
            for blocker, (message, names) in by_blocker.items()
        ]
        return sorted(lines, key=lambda line: (-line.price, line.blocker))

    def _group_bills(self) -> list[GroupBill]:
        groups: dict[NodeGroup, list[PricedNode]] = {}
        for entry in self._priced:
            groups.setdefault(entry.group, []).append(entry)
        bills = [
            GroupBill(
                group=group,
                nodes=len(entries),
                price=sum(entry.price or 0.0 for entry in entries),
                unpriced=sum(entry.price is None for entry in entries),
            )
            for group, entries in groups.items()
        ]
        return sorted(bills, key=lambda bill: (-bill.price, bill.group))

    def _notes(self, scratch: Fleet) -> list[str]:
        notes = [*self._source.missing, *self._adopted.notes]
        counts: dict[str, int] = {}
        for entry in self._priced:
            if entry.price is not None and entry.note:
                counts[entry.note] = counts.get(entry.note, 0) + 1
        notes += [f"{pluralize(count, 'node')}: {note}" for note, count in sorted(counts.items())]
        regions = {node.labels.get(label_keys.REGION) for node in self._original.nodes()} - {None}
        if len(regions) > 1:
            names = ", ".join(sorted(map(str, regions)))
            notes.append(f"nodes of more than one region or cluster: {names}; plans are for one")
        kinds = {entry.group.kind for entry in self._priced}
        if GroupKind.FARGATE in kinds:
            notes.append(FARGATE_NOTE)
        if GroupKind.AUTO_MODE in kinds:
            notes.append("nodes of EKS Auto Mode belong to AWS: they stay as they are")
        if scratch.kept:
            verb = "stays" if len(scratch.kept) == 1 else "stay"
            notes.append(f"{pluralize(len(scratch.kept), 'node')} {verb}: {scratch.message}")
        if self._adopted.inferred:
            notes.append("pods of node groups keep capacity type and architecture, except in the options")
        notes.append(f"lower bound by {DESCRIPTION}")
        return notes


def _find_setting(pool: NodePool, pods: Sequence[Pod]) -> str:
    """Return the setting of a NodePool that keeps a node; empty: none does."""
    if pool.disruption.consolidate_after is None:
        return "consolidateAfter: Never"
    only_empty = pool.disruption.policy is ConsolidationPolicy.WHEN_EMPTY
    if only_empty and any(is_reschedulable(pod) for pod in pods):
        return "consolidationPolicy: WhenEmpty"
    return ""


def _steps(today: float, consolidated: float, from_scratch: float, bound: float) -> list[Line]:
    return [
        Line(
            name="consolidation",
            price=today - consolidated,
            assumes="to its end, in a copy; PodDisruptionBudgets, do-not-disrupt and NodePool settings "
            "stay as they are",
        ),
        Line(
            name="blockers and single steps",
            price=consolidated - from_scratch,
            assumes="a fleet planned from scratch: nothing blocks, and no step has to pay for its evictions",
        ),
        Line(
            name="above the lower bound",
            price=from_scratch - bound,
            assumes="whole nodes and pods, spread and affinity: an optimum is between the two",
        ),
        Line(
            name="lower bound", price=bound, assumes="no fleet of these NodePools is cheaper for these pods"
        ),
    ]
