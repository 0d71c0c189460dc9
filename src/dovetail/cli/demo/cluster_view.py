"""What there is to see of a cluster in a box: machines and the pods on them."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec

from dovetail.cli.demo.object_view import (
    ClaimSeen,
    NodeSeen,
    PodSeen,
    PodState,
    claim_seen,
    node_seen,
    pod_seen,
)
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.cluster import Box
from dovetail.simulator.ec2.billing import Purchase

_Seen = TypeVar("_Seen")


class MachineState(StrEnum):
    """Where a machine is in its life."""

    PENDING = "pending"
    """Asked for; EC2 has not answered."""
    BOOTING = "booting"
    READY = "ready"
    DRAINING = "draining"
    LOST = "not ready"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that is bought or there already, and its pods."""

    name: str
    state: MachineState
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    price: float = 0.0
    """USD per hour."""
    pods: tuple[PodSeen, ...] = ()
    filled: float = 0.0
    """Share of its CPU that pods ask for."""


class Scene:
    """Catches up with the API server when asked to; the cluster does not notice."""

    def __init__(self, box: Box) -> None:
        self._ledger = box.ec2.ledger
        self._pods: dict[str, PodSeen] = {}
        self._nodes: dict[str, NodeSeen] = {}
        self._claims: dict[str, ClaimSeen] = {}
        self._order: dict[str, int] = {}
        self.workloads: dict[str, int] = {}
        """Every workload there ever was, numbered in the order of appearance."""
        self.most = 0
        """The most machines there ever were."""
        self._watches = (
            (box.api.watch(PODS), self._pod),
            (box.api.watch(NODES), self._node),
            (box.api.watch(NODE_CLAIMS), self._claim),
        )

    def catch_up(self) -> bool:
        """Take in what has happened; tell whether there is anything new to see."""
        changed = False
        for watch, take in self._watches:
            for event in watch.take():
                changed |= take(event)
        return changed

    def waiting(self) -> tuple[PodSeen, ...]:
        """Return the pods that have no node, by workload."""
        found = [pod for pod in self._pods.values() if pod.state is PodState.WAITING]
        return tuple(sorted(found, key=self._by_workload))

    def counts(self) -> Counter[str]:
        """Count pods by workload."""
        return Counter(pod.workload for pod in self._pods.values())

    def machines(self) -> tuple[Machine, ...]:
        """Return all machines in the order of their appearance."""
        on_node: dict[str, list[PodSeen]] = {}
        for pod in self._pods.values():
            on_node.setdefault(pod.node, []).append(pod)
        bought = {one.provider_id: one for one in self._ledger.purchases}
        claims = {one.provider_id: one for one in self._claims.values()}
        found: dict[str, Machine] = {}
        for node in self._nodes.values():
            claim = claims.get(node.provider_id)
            pods = tuple(sorted(on_node.get(node.name, ()), key=self._by_workload))
            filled = sum(pod.cpu for pod in pods) / node.cpu if node.cpu else 0.0
            machine = _machine(node.name, _state_of_node(node, claim), bought, node.provider_id)
            # Under the claim's name, so that it stays where it was while it booted.
            key = claim.name if claim else node.name
            found[key] = msgspec.structs.replace(machine, pods=pods, filled=filled)
        for claim in self._claims.values():
            if claim.name not in found:
                state = _state_of_claim(claim)
                found[claim.name] = _machine(claim.name, state, bought, claim.provider_id)
        self.most = max(self.most, len(found))
        for key in found:
            self._order.setdefault(key, len(self._order))
        return tuple(found[key] for key in sorted(found, key=self._order.__getitem__))

    def _by_workload(self, pod: PodSeen) -> int:
        return self.workloads[pod.workload]

    def _pod(self, event: WatchEvent) -> bool:
        seen = None if event.type is EventType.DELETED else pod_seen(event.object)
        if seen is not None:
            self.workloads.setdefault(seen.workload, len(self.workloads))
        return _replace(self._pods, event.object["metadata"]["uid"], seen)

    def _node(self, event: WatchEvent) -> bool:
        seen = None if event.type is EventType.DELETED else node_seen(event.object)
        return _replace(self._nodes, event.object["metadata"]["name"], seen)

    def _claim(self, event: WatchEvent) -> bool:
        seen = None if event.type is EventType.DELETED else claim_seen(event.object)
        return _replace(self._claims, event.object["metadata"]["name"], seen)


def _replace(known: dict[str, _Seen], key: str, seen: _Seen | None) -> bool:
    """Put what is seen now in the place of what was; tell whether that differs."""
    if seen == known.get(key):
        return False
    if seen is None:
        del known[key]
    else:
        known[key] = seen
    return True


def _state_of_node(node: NodeSeen, claim: ClaimSeen | None) -> MachineState:
    if node.is_leaving or (claim is not None and claim.is_leaving):
        return MachineState.DRAINING
    if not node.is_joined or (claim is None and not node.is_ready):
        return MachineState.BOOTING
    return MachineState.READY if node.is_ready else MachineState.LOST


def _state_of_claim(claim: ClaimSeen) -> MachineState:
    if claim.is_leaving:
        return MachineState.DRAINING
    return MachineState.BOOTING if claim.provider_id else MachineState.PENDING


def _machine(
    name: str, state: MachineState, bought: Mapping[str, Purchase], provider_id: str
) -> Machine:
    name = name.partition(".")[0]
    purchase = bought.get(provider_id)
    if purchase is None:
        return Machine(name=name, state=state)
    return Machine(
        name=name,
        state=state,
        instance_type=purchase.instance_type,
        zone=purchase.zone,
        capacity_type=purchase.capacity_type,
        price=purchase.price,
    )
