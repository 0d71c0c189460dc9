"""Nodes: the core/v1 object, and its join with the NodeClaim and the pods."""

from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.conditions import NO_CONDITIONS, READY, Conditions, is_true
from dovetail.model.kube.pod import OwnerReference, Pod
from dovetail.model.kube.pod_groups import PodGroup, group_pods
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import NO_RESOURCES, NODES, Resources, sum_resources
from dovetail.model.kube.taints import Taint, is_ephemeral


class NodeObject(msgspec.Struct, frozen=True, kw_only=True):
    """A core/v1 Node by itself, without its NodeClaim and pods."""

    name: str
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    capacity: Resources = NO_RESOURCES
    allocatable: Resources = NO_RESOURCES
    provider_id: str = ""
    created: datetime | None = None
    deleting: bool = False
    deleted_at: datetime | None = None
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    conditions: Conditions = NO_CONDITIONS

    @property
    def ready(self) -> bool:
        return is_true(self.conditions, READY)


class Node(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An existing node, or a launched NodeClaim without a Node yet, and its pods.

    Derived values are cached on the object: most nodes are the same objects in
    consecutive snapshots.
    """

    name: str
    claim: str = ""
    """Name of its NodeClaim; empty if it has none."""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    """Startup taints of the NodeClaim, which are expected to be removed."""
    capacity: Resources = NO_RESOURCES
    allocatable: Resources = NO_RESOURCES
    claim_capacity: Resources = NO_RESOURCES
    claim_allocatable: Resources = NO_RESOURCES
    """Resources in the status of the NodeClaim; used until the node is initialized."""
    registered: bool = True
    initialized: bool = True
    deleting: bool = False
    """Marked for deletion: its pods must be rescheduled, and it accepts no new pods."""
    keeps_limits: bool = False
    """Deleting, but counted in the limits of its NodePool: its NodeClaim is not deleted yet."""
    provider_id: str = ""
    pods: tuple[Pod, ...] = ()
    """Pods bound to the node."""
    volume_limits: FrozenDict[str, int] = FrozenDict()
    """CSI driver → maximum number of attached volumes, from the CSINode."""

    @property
    def pool(self) -> str:
        return self.labels.get(label_keys.NODEPOOL, "")

    @property
    def is_managed(self) -> bool:
        return bool(self.claim) or bool(self.pool)

    @property
    def hostname(self) -> str:
        return self.labels.get(label_keys.HOSTNAME, self.name)

    def effective_taints(self) -> tuple[Taint, ...]:
        """Return the taints that pods must tolerate.

        Startup taints and ephemeral taints of a node that is not initialized are
        left out: they are removed before pods are bound.
        """
        if self.initialized or not self.is_managed:
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
        # Until device plugins register, kubelet reports extended resources as zero or not at all.
        return Resources({**self.claim_allocatable, **self.allocatable.without_zeros()})

    def effective_capacity(self) -> Resources:
        return self._effective_capacity

    @cached_property
    def _effective_capacity(self) -> Resources:
        capacity = self.capacity
        if not self.initialized:
            capacity = Resources({**self.claim_capacity, **self.capacity.without_zeros()})
        return Resources({**capacity, NODES: 1})

    def available(self) -> Resources:
        """Return allocatable minus the requests of its pods."""
        return self._available

    @cached_property
    def _available(self) -> Resources:
        used = sum_resources(pod.spec.requests for pod in self.pods if not pod.is_terminal)
        return self.effective_allocatable() - used

    @cached_property
    def pod_groups(self) -> tuple[PodGroup, ...]:
        """Pods that are not terminal, grouped by equivalence."""
        return group_pods(self.pods)

    @cached_property
    def label_requirements(self) -> Requirements:
        """Its labels, hostname included, as requirements."""
        return Requirements.from_labels({**self.labels, label_keys.HOSTNAME: self.hostname})

    @cached_property
    def requirements_cache(self) -> dict[frozenset[str], Requirements]:
        """Cache for callers: set of label keys → requirements of the labels in it."""
        return {}

    @cached_property
    def derived_values(self) -> dict[str, Any]:
        """Cache for callers: what they derive from the node, by a name of their own."""
        return {}
