"""Nodes that are there already, or on their way."""

from datetime import datetime
from functools import cached_property

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.conditions import NO_CONDITIONS, Conditions, is_true
from dovetail.model.kube.pod import Owner, Pod
from dovetail.model.kube.pod_groups import Alike, sort_alike
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import NODES, NOTHING, Resources, total
from dovetail.model.kube.taints import Taint, is_ephemeral


class NodeObject(msgspec.Struct, frozen=True, kw_only=True):
    """A core/v1 Node alone, before claims and pods are joined to it."""

    name: str
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    capacity: Resources = NOTHING
    allocatable: Resources = NOTHING
    provider_id: str = ""
    created: datetime | None = None
    deleting: bool = False
    deleted_at: datetime | None = None
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    owners: tuple[Owner, ...] = ()
    conditions: Conditions = NO_CONDITIONS

    @property
    def ready(self) -> bool:
        return is_true(self.conditions, "Ready")


class Node(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A node (or a launched claim whose node has not joined yet) and its pods.

    What follows from it is worked out once: between two looks at a cluster most
    of its nodes are the same objects.
    """

    name: str
    claim: str = ""
    """Its NodeClaim, when it has one."""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    """Of its claim; they are expected to go."""
    capacity: Resources = NOTHING
    allocatable: Resources = NOTHING
    claim_capacity: Resources = NOTHING
    claim_allocatable: Resources = NOTHING
    """What the claim promises; used until the node is initialised."""
    registered: bool = True
    initialized: bool = True
    deleting: bool = False
    """Marked for deletion: its pods need room elsewhere, it takes none."""
    provider_id: str = ""
    pods: tuple[Pod, ...] = ()
    """Pods bound to it."""
    volume_limits: FrozenDict[str, int] = FrozenDict()
    """CSI driver → how many volumes it can attach (from CSINode)."""

    @property
    def pool(self) -> str:
        return self.labels.get(label_keys.NODEPOOL, "")

    @property
    def managed(self) -> bool:
        return bool(self.claim) or bool(self.pool)

    @property
    def hostname(self) -> str:
        return self.labels.get(label_keys.HOSTNAME, self.name)

    def effective_taints(self) -> tuple[Taint, ...]:
        """Return the taints that count; a starting node sheds some of them soon."""
        if self.initialized or not self.managed:
            return self.taints
        expected = {(taint.key, taint.effect) for taint in self.startup_taints}
        return tuple(
            taint
            for taint in self.taints
            if not is_ephemeral(taint) and (taint.key, taint.effect) not in expected
        )

    def effective_allocatable(self) -> Resources:
        if self.initialized:
            return self.allocatable
        # A kubelet that is starting reports extended resources as zero or not at all.
        return Resources({**self.claim_allocatable, **self.allocatable.without_zeros()})

    def effective_capacity(self) -> Resources:
        known = self.capacity
        if not self.initialized:
            known = Resources({**self.claim_capacity, **self.capacity.without_zeros()})
        return Resources({**known, NODES: 1})

    def available(self) -> Resources:
        """Return what is left beside the pods that run on it."""
        return self._available

    @cached_property
    def _available(self) -> Resources:
        used = total(pod.spec.requests for pod in self.pods if not pod.terminal)
        return self.effective_allocatable() - used

    @cached_property
    def alike(self) -> tuple[Alike, ...]:
        """Its pods that have not ended, those together that are alike."""
        return sort_alike(self.pods)

    @cached_property
    def place(self) -> Requirements:
        """Its labels as pods' rules about places see them."""
        return Requirements.of_labels({**self.labels, label_keys.HOSTNAME: self.hostname})

    @cached_property
    def noticed(self) -> dict[frozenset[str], Requirements]:
        """Its labels among some keys, as far as somebody has asked for them."""
        return {}
