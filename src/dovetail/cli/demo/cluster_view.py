"""View of a simulated cluster: instances with their pods."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec

from dovetail.cli.demo.object_view import (
    ClaimView,
    NodeView,
    PodState,
    PodView,
    view_claim,
    view_node,
    view_pod,
)
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.ec2.billing import LaunchRecord

_ViewT = TypeVar("_ViewT")


class InstanceState(StrEnum):
    """Lifecycle state of an instance."""

    PENDING = "pending"
    """Requested; EC2 has not responded."""
    BOOTING = "booting"
    READY = "ready"
    DRAINING = "draining"
    LOST = "not ready"


class InstanceView(msgspec.Struct, frozen=True, kw_only=True):
    """An instance with its pods."""

    name: str
    state: InstanceState
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    price: float = 0.0
    """USD per hour."""
    pods: tuple[PodView, ...] = ()
    cpu_share: float = 0.0
    """Requested share of its allocatable CPU."""


class ClusterView:
    """Objects of the simulated API server, updated by ``poll``."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._billing = cluster.ec2.billing
        self._pods: dict[str, PodView] = {}
        self._nodes: dict[str, NodeView] = {}
        self._claims: dict[str, ClaimView] = {}
        self._order: dict[str, int] = {}
        self.workloads: dict[str, int] = {}
        """All workloads so far, numbered in order of appearance."""
        self.max_instances = 0
        """Maximum number of instances so far."""
        self._watches = (
            (cluster.api.watch(PODS), self._pod),
            (cluster.api.watch(NODES), self._node),
            (cluster.api.watch(NODE_CLAIMS), self._claim),
        )

    def poll(self) -> bool:
        """Process new watch events; return True if the view changed."""
        changed = False
        for watch, handle in self._watches:
            for event in watch.poll():
                changed |= handle(event)
        return changed

    def pending(self) -> tuple[PodView, ...]:
        """Return the pending pods, by workload."""
        pending = [pod for pod in self._pods.values() if pod.state is PodState.WAITING]
        return tuple(sorted(pending, key=self._by_workload))

    def counts(self) -> Counter[str]:
        """Count pods by workload."""
        return Counter(pod.workload for pod in self._pods.values())

    def instances(self) -> tuple[InstanceView, ...]:
        """Return all instances in order of appearance."""
        on_node: dict[str, list[PodView]] = {}
        for pod in self._pods.values():
            on_node.setdefault(pod.node, []).append(pod)
        launches = {launch.provider_id: launch for launch in self._billing.launches}
        claims = {claim.provider_id: claim for claim in self._claims.values()}
        views: dict[str, InstanceView] = {}
        for node in self._nodes.values():
            claim = claims.get(node.provider_id)
            pods = tuple(sorted(on_node.get(node.name, ()), key=self._by_workload))
            cpu_share = sum(pod.cpu for pod in pods) / node.cpu if node.cpu else 0.0
            instance = _instance_view(node.name, _state_of_node(node, claim), launches, node.provider_id)
            # Keyed by the NodeClaim, so that it keeps its position after registration.
            key = claim.name if claim else node.name
            views[key] = msgspec.structs.replace(instance, pods=pods, cpu_share=cpu_share)
        for claim in self._claims.values():
            if claim.name not in views:
                state = _state_of_claim(claim)
                views[claim.name] = _instance_view(claim.name, state, launches, claim.provider_id)
        self.max_instances = max(self.max_instances, len(views))
        for key in views:
            self._order.setdefault(key, len(self._order))
        return tuple(views[key] for key in sorted(views, key=self._order.__getitem__))

    def _by_workload(self, pod: PodView) -> int:
        return self.workloads[pod.workload]

    def _pod(self, event: WatchEvent) -> bool:
        view = None if event.type is EventType.DELETED else view_pod(event.object)
        if view is not None:
            self.workloads.setdefault(view.workload, len(self.workloads))
        return _replace(self._pods, event.object["metadata"]["uid"], view)

    def _node(self, event: WatchEvent) -> bool:
        view = None if event.type is EventType.DELETED else view_node(event.object)
        return _replace(self._nodes, event.object["metadata"]["name"], view)

    def _claim(self, event: WatchEvent) -> bool:
        view = None if event.type is EventType.DELETED else view_claim(event.object)
        return _replace(self._claims, event.object["metadata"]["name"], view)


def _replace(views: dict[str, _ViewT], key: str, view: _ViewT | None) -> bool:
    """Store a view; return True if it differs from the stored one."""
    if view == views.get(key):
        return False
    if view is None:
        del views[key]
    else:
        views[key] = view
    return True


def _state_of_node(node: NodeView, claim: ClaimView | None) -> InstanceState:
    if node.is_terminating or (claim is not None and claim.is_terminating):
        return InstanceState.DRAINING
    if not node.is_initialized or (claim is None and not node.is_ready):
        return InstanceState.BOOTING
    return InstanceState.READY if node.is_ready else InstanceState.LOST


def _state_of_claim(claim: ClaimView) -> InstanceState:
    if claim.is_terminating:
        return InstanceState.DRAINING
    return InstanceState.BOOTING if claim.provider_id else InstanceState.PENDING


def _instance_view(
    name: str, state: InstanceState, launches: Mapping[str, LaunchRecord], provider_id: str
) -> InstanceView:
    name = name.partition(".")[0]
    launch = launches.get(provider_id)
    if launch is None:
        return InstanceView(name=name, state=state)
    return InstanceView(
        name=name,
        state=state,
        instance_type=launch.instance_type,
        zone=launch.zone,
        capacity_type=launch.capacity_type,
        price=launch.price,
    )
