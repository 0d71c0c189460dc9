"""Pods, as far as placing them is concerned."""

from datetime import datetime
from enum import StrEnum

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.requirements import RequirementSpec
from dovetail.model.kube.resources import ONE_POD, Resources
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.taints import Toleration


class NodeTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """One node-affinity term: all its expressions must hold."""

    expressions: tuple[RequirementSpec, ...] = ()
    fields: tuple[RequirementSpec, ...] = ()
    """matchFields; only DaemonSet pods carry them rightly."""


class PreferredNodeTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A node-affinity term that is wished for."""

    weight: int
    term: NodeTerm


class PodTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """One pod-affinity or anti-affinity term."""

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class PreferredPodTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A pod-affinity term that is wished for."""

    weight: int
    term: PodTerm


class NodePolicy(StrEnum):
    """Whether a spread constraint looks at affinity or taints of nodes when counting."""

    HONOR = "Honor"
    IGNORE = "Ignore"


class Spread(msgspec.Struct, frozen=True, cache_hash=True):
    """A topology spread constraint."""

    topology_key: str
    max_skew: int = 1
    selector: LabelSelector | None = None
    required: bool = True
    """DoNotSchedule; otherwise ScheduleAnyway."""
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: NodePolicy = NodePolicy.HONOR
    node_taints_policy: NodePolicy = NodePolicy.IGNORE


class HostPort(msgspec.Struct, frozen=True, cache_hash=True):
    """A port of the node that the pod takes for itself."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"  # noqa: S104 - Kubernetes' word for every address

    def clashes(self, other: "HostPort") -> bool:
        if self.port != other.port or self.protocol != other.protocol:
            return False
        everywhere = ("0.0.0.0", "::", "")  # noqa: S104
        return self.ip == other.ip or self.ip in everywhere or other.ip in everywhere


class PodVolume(msgspec.Struct, frozen=True, cache_hash=True):
    """A volume that is backed by a claim; other kinds place no demands."""

    claim: str
    ephemeral: bool = False
    """A generic ephemeral volume: ``claim`` is ``<pod>-<volume>``."""
    template_storage_class: str | None = None
    """For an ephemeral volume whose claim is not there yet: the class of its template."""


class PodSpec(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    """What a pod asks of a node. Pods from one template have equal specs."""

    requests: Resources = ONE_POD
    """As Kubernetes computes them, ``pods: 1`` included."""
    node_selector: FrozenDict[str, str] = EMPTY
    node_terms: tuple[NodeTerm, ...] = ()
    """Required node affinity: one of them must hold. Empty: no demand."""
    preferred_node_terms: tuple[PreferredNodeTerm, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_affinity: tuple[PreferredPodTerm, ...] = ()
    preferred_anti_affinity: tuple[PreferredPodTerm, ...] = ()
    spreads: tuple[Spread, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    needs_devices: bool = False
    """Carries dynamic resource claims (DRA)."""


class Owner(msgspec.Struct, frozen=True, cache_hash=True):
    """The object that made this one."""

    api_version: str
    kind: str
    name: str
    uid: str = ""
    controller: bool = True


class Phase(StrEnum):
    """Where a pod is in its life."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod."""

    name: str
    namespace: str = "default"
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    owner: Owner | None = None
    spec: PodSpec = PodSpec()
    node_name: str = ""
    phase: Phase = Phase.PENDING
    created: datetime | None = None
    started: datetime | None = None
    deleting: bool = False
    deleted_at: datetime | None = None
    """When it must have stopped: the time of deletion plus its grace period."""
    grace_seconds: int | None = None
    ready: bool = True
    priority: int = 0
    priority_class: str = ""
    nominated_node: str = ""
    unschedulable: bool = False
    """kube-scheduler has looked at it and found no node."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def terminal(self) -> bool:
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def of_daemon_set(self) -> bool:
        return self.owner is not None and self.owner.kind == "DaemonSet"

    @property
    def static(self) -> bool:
        """Made by a kubelet, not through the API server."""
        return self.owner is not None and self.owner.kind == "Node"
