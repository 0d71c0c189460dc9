"""Workload objects that scheduling and eviction use: DaemonSets, PDBs, Services."""

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.pod_requests import PodResources
from dovetail.model.kube.selectors import LabelSelector


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet, represented by the pod that it creates on each matching node."""

    namespace: str
    name: str
    pod: Pod
    """Pod of its template; missing requests are set from limits."""
    resources: PodResources | None = None
    """Resources of the template, for admission; None: ``pod`` is as admission changes it."""
    newest_pod: Pod | None = None
    """Its newest running pod, whose requests take precedence over the template."""


class PodDisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget."""

    namespace: str
    name: str
    selector: LabelSelector | None = None
    min_available: str | None = None
    max_unavailable: str | None = None
    always_allow_unhealthy: bool = False
    disruptions_allowed: int = 0
    """``status.disruptionsAllowed``."""

    @property
    def blocks_all_evictions(self) -> bool:
        """True if it never allows an eviction."""
        return self.max_unavailable in ("0", "0%") or self.min_available == "100%"


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A Service, by its pod selector."""

    namespace: str
    name: str
    selector: FrozenDict[str, str] = EMPTY


class WorkloadController(msgspec.Struct, frozen=True, kw_only=True):
    """A ReplicaSet, StatefulSet or ReplicationController, by its pod selector."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector | None = None
    generation: int = 0
    """``metadata.generation``: increases with each change of its spec."""


class TemplateVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A Deployment or PodTemplate, without its pod template: whether that has changed."""

    namespace: str
    name: str
    generation: int = 0
