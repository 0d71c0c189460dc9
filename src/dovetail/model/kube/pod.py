"""Pods: the fields that scheduling, eviction and disruption use.

``codec.kube.workloads`` hashes PodSpec with its field names into the template
hash of a Deployment's pods. A renamed field changes names in reports.
"""

from datetime import datetime
from enum import StrEnum

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.requirements import RequirementSpec
from dovetail.model.kube.resources import ONE_POD, Resources
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.taints import Toleration


class NodeSelectorTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A node affinity term; all expressions must match."""

    expressions: tuple[RequirementSpec, ...] = ()
    fields: tuple[RequirementSpec, ...] = ()
    """``matchFields``; only the DaemonSet controller sets them."""


class PreferredSchedulingTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A preferred node affinity term with its weight."""

    weight: int
    term: NodeSelectorTerm


class PodAffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A pod affinity or anti-affinity term."""

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A preferred pod affinity term with its weight."""

    weight: int
    term: PodAffinityTerm


class NodeInclusionPolicy(StrEnum):
    """Policy of a spread constraint for node affinity or node taints when counting."""

    HONOR = "Honor"
    IGNORE = "Ignore"


class TopologySpreadConstraint(msgspec.Struct, frozen=True, cache_hash=True):
    """A topology spread constraint."""

    topology_key: str
    max_skew: int = 1
    selector: LabelSelector | None = None
    required: bool = True
    """True: DoNotSchedule. False: ScheduleAnyway."""
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: NodeInclusionPolicy = NodeInclusionPolicy.HONOR
    node_taints_policy: NodeInclusionPolicy = NodeInclusionPolicy.IGNORE


class HostPort(msgspec.Struct, frozen=True, cache_hash=True):
    """A host port of a pod."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"  # noqa: S104 - the Kubernetes default: all addresses

    def conflicts_with(self, other: "HostPort") -> bool:
        if self.port != other.port or self.protocol != other.protocol:
            return False
        wildcards = ("0.0.0.0", "::", "")  # noqa: S104
        return self.ip == other.ip or self.ip in wildcards or other.ip in wildcards


class PodVolume(msgspec.Struct, frozen=True, cache_hash=True):
    """A volume backed by a PersistentVolumeClaim; others do not constrain scheduling."""

    claim: str
    ephemeral: bool = False
    """Generic ephemeral volume: ``claim`` is ``<pod>-<volume>``."""
    template_storage_class: str | None = None
    """StorageClass in the template of an ephemeral volume; used until its claim exists."""


class PodSpec(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True, weakref=True):
    """Scheduling constraints and requests. Pods of one template have equal specs."""

    requests: Resources = ONE_POD
    """Total requests as Kubernetes computes them, ``pods: 1`` included."""
    node_selector: FrozenDict[str, str] = EMPTY
    node_terms: tuple[NodeSelectorTerm, ...] = ()
    """Required node affinity: one term must match. Empty: no constraint."""
    preferred_node_terms: tuple[PreferredSchedulingTerm, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    spreads: tuple[TopologySpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    needs_devices: bool = False
    """The pod has resource claims (dynamic resource allocation)."""


class OwnerReference(msgspec.Struct, frozen=True, cache_hash=True, weakref=True):
    """An owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str = ""
    controller: bool = True


class PodPhase(StrEnum):
    """``status.phase`` of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A core/v1 Pod."""

    name: str
    namespace: str = "default"
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    owner: OwnerReference | None = None
    spec: PodSpec = PodSpec()
    node_name: str = ""
    phase: PodPhase = PodPhase.PENDING
    created: datetime | None = None
    start_time: datetime | None = None
    deleting: bool = False
    deleted_at: datetime | None = None
    """``metadata.deletionTimestamp``: time of the deletion plus the grace period."""
    termination_grace_period_seconds: int | None = None
    ready: bool = True
    priority: int = 0
    priority_class: str = ""
    nominated_node_name: str = ""
    unschedulable: bool = False
    """kube-scheduler has set PodScheduled to False with reason Unschedulable."""
    evicted: bool = False
    """The Eviction API has accepted its eviction, and set the condition DisruptionTarget."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_terminal(self) -> bool:
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def is_owned_by_daemon_set(self) -> bool:
        return self.owner is not None and self.owner.kind == "DaemonSet"

    @property
    def is_static(self) -> bool:
        """True for a static pod, which a kubelet creates without the API server."""
        return self.owner is not None and self.owner.kind == "Node"
