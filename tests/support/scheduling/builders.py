"""Builders of pods, nodes, NodePools and snapshots.

``tests.support.scheduling.plans`` reads plans (``node_of``, ``zones_of``, ``unplaced``)
and applies them (``settled``).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.pod import (
    HostPort,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PodVolume,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import ONE_POD, Resources
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.taints import Taint, TaintEffect, Toleration
from dovetail.model.kube.workloads import DaemonSet
from dovetail.model.node import Node
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.instance_types import DEFAULT_TYPES
from tests.support.scheduling.plans import bound

Labels = Mapping[str, str]
Entry = tuple[str, str] | tuple[str, str, Sequence[str]] | tuple[str, str, Sequence[str], int]
"""(key, operator[, values[, minValues]])."""


def requirement(
    key: str, operator: str, values: Sequence[str] = (), min_values: int | None = None
) -> RequirementSpec:
    return RequirementSpec(key, Operator(operator), tuple(values), min_values)


def requirements(entries: Iterable[Entry]) -> tuple[RequirementSpec, ...]:
    return tuple(requirement(*entry) for entry in entries)


def node_term(*entries: Entry) -> NodeSelectorTerm:
    """Return one term of a required node affinity."""
    return NodeSelectorTerm(requirements(entries))


def prefer_node(weight: int, *entries: Entry) -> PreferredSchedulingTerm:
    return PreferredSchedulingTerm(weight, node_term(*entries))


def selector(labels: Labels | None = None, *entries: Entry) -> LabelSelector:
    return LabelSelector(FrozenDict(labels or {}), requirements(entries))


def spread(
    key: str, select: Labels | LabelSelector | None, max_skew: int = 1, **more: Any
) -> TopologySpreadConstraint:
    """A spread constraint; ``select`` None is a constraint without a selector."""
    return TopologySpreadConstraint(topology_key=key, max_skew=max_skew, selector=_selector(select), **more)


def zone_spread(
    select: Labels | LabelSelector | None, max_skew: int = 1, **more: Any
) -> TopologySpreadConstraint:
    return spread(label_keys.ZONE, select, max_skew, **more)


def host_spread(
    select: Labels | LabelSelector | None, max_skew: int = 1, **more: Any
) -> TopologySpreadConstraint:
    return spread(label_keys.HOSTNAME, select, max_skew, **more)


def affinity(
    select: Labels | LabelSelector | None,
    key: str = label_keys.HOSTNAME,
    *,
    namespaces: Sequence[str] = (),
    namespace_selector: LabelSelector | None = None,
) -> PodAffinityTerm:
    """Return a term of pod affinity or anti-affinity."""
    return PodAffinityTerm(
        topology_key=key,
        selector=_selector(select),
        namespaces=tuple(namespaces),
        namespace_selector=namespace_selector,
    )


def prefer_pods(weight: int, term: PodAffinityTerm) -> WeightedPodAffinityTerm:
    return WeightedPodAffinityTerm(weight, term)


def _selector(select: Labels | LabelSelector | None) -> LabelSelector | None:
    if select is None or isinstance(select, LabelSelector):
        return select
    return selector(select)


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Taint:
    return Taint(key, TaintEffect(effect), value)


def tolerate(key: str = "", value: str | None = None, effect: str | None = None) -> Toleration:
    """Return a toleration; without a value it matches any value."""
    return Toleration(
        key=key,
        operator="Exists" if value is None else "Equal",
        value=value or "",
        effect=None if effect is None else TaintEffect(effect),
    )


def requests(
    cpu: str | int = "100m", memory: str = "64Mi", more: Mapping[str, str | int] | None = None
) -> Resources:
    """Return the requests of a pod, with one unit of ``pods``."""
    return Resources.parse({"cpu": cpu, "memory": memory, **(more or {})}) + ONE_POD


def a_spec(**fields: Any) -> PodSpec:
    """A PodSpec from plain dicts and lists; ``ports`` and ``claims`` are short forms."""
    if "node_selector" in fields:
        fields["node_selector"] = FrozenDict(fields["node_selector"])
    ports = fields.pop("ports", ())
    if ports:
        fields["host_ports"] = [port if isinstance(port, HostPort) else HostPort(port=port) for port in ports]
    claims = fields.pop("claims", ())
    if claims:
        fields["volumes"] = [PodVolume(claim=claim) for claim in claims]
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    return PodSpec(**plain)


def a_pod(
    name: str,
    *,
    cpu: str | int = "100m",
    memory: str = "64Mi",
    more: Mapping[str, str | int] | None = None,
    labels: Labels | None = None,
    namespace: str = "default",
    owner: OwnerReference | None = None,
    **rest: Any,
) -> Pod:
    """A pending pod; further keywords are fields of Pod or of its PodSpec."""
    pod_fields = {key: rest.pop(key) for key in list(rest) if key in Pod.__struct_fields__}
    spec = a_spec(requests=requests(cpu, memory, more), **rest)
    return Pod(
        name=name,
        namespace=namespace,
        uid=f"uid-{namespace}-{name}",
        labels=FrozenDict(labels or {}),
        owner=owner,
        **{"spec": spec, **pod_fields},
    )


def pods(count: int, prefix: str = "pod", **same: Any) -> list[Pod]:
    """Several pods that differ by name only."""
    return [a_pod(f"{prefix}-{i}", **same) for i in range(count)]


def owned_by(kind: str, name: str, *, controller: bool = True) -> OwnerReference:
    group = {"ReplicationController": "v1", "Node": "v1", "Job": "batch/v1"}.get(kind, "apps/v1")
    return OwnerReference(group, kind, name, uid=f"uid-{kind}-{name}", controller=controller)


def a_pool(
    name: str = "default",
    requirements: Iterable[Entry] = (),
    *,
    taints: Sequence[Taint] = (),
    startup_taints: Sequence[Taint] = (),
    limits: Mapping[str, str | int] | None = None,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    **more: Any,
) -> NodePool:
    """A NodePool; further keywords (weight, ready, deleting, replicas) are its fields."""
    return NodePool(
        name=name,
        uid=f"uid-{name}",
        template=NodeTemplate(
            labels=FrozenDict(labels or {}),
            annotations=FrozenDict(annotations or {}),
            requirements=tuple(requirement(*entry) for entry in requirements),
            taints=tuple(taints),
            startup_taints=tuple(startup_taints),
        ),
        limits=None if limits is None else Resources.parse(limits),
        **more,
    )


def a_node(
    name: str,
    *,
    cpu: str | int = 4,
    memory: str = "4Gi",
    room: int = 110,
    more: Mapping[str, str | int] | None = None,
    zone: str = "",
    pool: str = "",
    capacity_type: str = "",
    labels: Labels | None = None,
    pods: Iterable[Pod] = (),
    **rest: Any,
) -> Node:
    """Return an existing node, initialized by default; ``room`` is its pod count.

    With ``pool`` it has a NodeClaim of that NodePool; without, it is unmanaged.
    """
    node_labels = {label_keys.HOSTNAME: name, label_keys.OS: "linux", label_keys.ARCH: "amd64"}
    optional = {label_keys.ZONE: zone, label_keys.NODEPOOL: pool, label_keys.CAPACITY_TYPE: capacity_type}
    node_labels |= {key: value for key, value in optional.items() if value} | dict(labels or {})
    size = Resources.parse({"cpu": cpu, "memory": memory, "pods": room, **(more or {})})
    fields: dict[str, Any] = {
        "claim": f"claim-{name}" if pool else "",
        "capacity": size,
        "allocatable": size,
        "provider_id": f"fake:///{name}",
        **rest,
    }
    return Node(
        name=name, labels=FrozenDict(node_labels), pods=tuple(bound(pod, name) for pod in pods), **fields
    )


def a_daemon_set(name: str, *, namespace: str = "kube-system", **pod: Any) -> DaemonSet:
    """A DaemonSet whose pod is described as for ``a_pod``."""
    owner = owned_by("DaemonSet", name)
    return DaemonSet(namespace=namespace, name=name, pod=a_pod(name, namespace=namespace, owner=owner, **pod))


def cluster(
    pods: Iterable[Pod] = (),
    pools: Iterable[NodePool] | None = None,
    types: Iterable[InstanceType] | Mapping[str, Iterable[InstanceType]] = DEFAULT_TYPES,
    *,
    nodes: Iterable[Node] = (),
    namespaces: Mapping[str, Labels] | None = None,
    **more: Any,
) -> ClusterSnapshot:
    """Return a snapshot; by default with one NodePool and ``DEFAULT_TYPES``.

    ``types`` are the types of all NodePools, or a mapping by NodePool name.
    Further keywords (daemon_sets, volumes, services, …) are its fields.
    """
    nodepools = (a_pool(),) if pools is None else tuple(pools)
    if isinstance(types, Mapping):
        by_pool = {pool: tuple(some) for pool, some in types.items()}
    else:
        same = tuple(types)
        by_pool = {pool.name: same for pool in nodepools}
    rest: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in more.items()
    }
    return ClusterSnapshot(
        pending_pods=tuple(pods),
        nodepools=nodepools,
        instance_types=FrozenDict(by_pool),
        nodes=tuple(nodes),
        namespaces=FrozenDict({name: FrozenDict(labels) for name, labels in (namespaces or {}).items()}),
        **rest,
    )
