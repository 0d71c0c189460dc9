"""Disruption of nodes; the test launches and drains, one step per call in any order."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Self

from dovetail.codec.kube.conditions import encode_conditions
from dovetail.controllers.disruption import controller as disruption
from dovetail.controllers.disruption import queue
from dovetail.core.conditions import NODECLAIM_CONDITIONS, ConditionOwner, set_condition
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.karpenter.nodepool import Budget
from dovetail.model.karpenter.nodepool import Disruption as DisruptionSpec
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from tests.support.controllers.cloud_provider import TYPE, ZONE
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.controllers.running_nodes import (
    ZONE_LABELS,
    add_owner,
    add_pod,
    add_running_node,
    provider_id_of,
)
from tests.support.kube import manifests
from tests.support.scheduling.instance_types import a_type

ANY_NUMBER = (Budget(nodes="100%"),)


def an_instance_type(name: str, *, cpu: int, price: float) -> InstanceType:
    """Return an instance type with an on-demand offering in ``ZONE``."""
    offering = Offering(zone=ZONE, capacity_type=label_keys.ON_DEMAND, price=price)
    return a_type(name, cpu=cpu, memory=f"{4 * cpu}Gi", pods=110, offered=[offering])


INSTANCE_TYPES = (
    an_instance_type("m5.large", cpu=2, price=0.1),
    an_instance_type(TYPE, cpu=4, price=0.2),
    an_instance_type("m5.2xlarge", cpu=8, price=0.4),
)


class DisruptionEnvironment(ControllerEnvironment):
    """The disruption controller and queue; the test launches and drains."""

    def __init__(self, types: Iterable[InstanceType] = INSTANCE_TYPES) -> None:
        super().__init__()
        self.cloud.types = tuple(types)

    def start(self) -> Self:
        """Start the disruption controller and the disruption queue."""
        self.run(disruption.controller, queue.controller)
        return self

    def add_pool(
        self,
        name: str = "default",
        *,
        after: float | None = 0,
        budgets: tuple[Budget, ...] = ANY_NUMBER,
        rules: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        settle = None if after is None else timedelta(seconds=after)
        spec = DisruptionSpec(consolidate_after=settle, budgets=budgets, **(rules or {}))
        pool = manifests.pool(name, disruption=spec, **fields)
        ready = {"type": "Ready", "status": "True", "reason": "Ready"}
        self.add(NODE_POOLS, {**pool, "status": {"conditions": [ready]}})

    def add_node(self, node: str = "node", *, drifted: datetime | None = None, **more: Any) -> None:
        """Add a consolidatable node; ``drifted`` is the time of its Drifted condition."""
        kinds = {"Consolidatable": self.now - timedelta(hours=1)}
        if drifted is not None:
            kinds["Drifted"] = drifted
        conditions = {
            kind: Condition(status=TRUE, reason=kind, last_transition_time=since, observed_generation=1)
            for kind, since in kinds.items()
        }
        add_running_node(self, node, conditions=conditions, **more)

    def add_app_pod(self, name: str, node: str = "node", *, cpu: str = "1", **more: Any) -> None:
        """Add a pod of a ReplicaSet to a node."""
        size = {"resources": {"requests": {"cpu": cpu}}}
        containers = [{"name": "main", "image": "app:1", **size}]
        owner = more.pop("owner", None) or add_owner(self, "ReplicaSet")
        add_pod(self, name, node=node, owner=owner, containers=containers, **more)

    # Decisions.

    def replacements(self) -> list[str]:
        """Return the claims that were created as replacements."""
        return sorted(
            claim.name for claim in self.cache.claims() if label_keys.REPLACES_ANNOTATION in claim.annotations
        )

    def disrupted_nodes(self) -> list[str]:
        return sorted(node.name for node in self.cache.nodes() if DISRUPTED_TAINT in node.taints)

    def deleting_claims(self) -> list[str]:
        """Return the claims that are being deleted."""
        return sorted(claim.name for claim in self.cache.claims() if claim.deleting)

    # Actions of the lifecycle and termination controllers.

    def make_ready(self, claim: str, *, cpu: str = "4") -> str:
        """Launch, register and initialize a claim; return its node's name."""
        node = f"node-{claim}"
        size = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        self.set_conditions(claim, "Launched", "Registered", "Initialized")
        labels = {**ZONE_LABELS, label_keys.NODEPOOL: self.claim(claim).pool}
        joined = {label_keys.REGISTERED: "true", label_keys.INITIALIZED: "true"}
        self.add(
            NODES,
            manifests.node(
                node,
                provider_id=provider_id_of(node),
                taints=(),
                labels={**labels, **joined, label_keys.HOSTNAME: node},
                size=size,
            ),
        )
        return node

    def mark_launched(self, claim: str) -> None:
        """Launch a claim, without a node."""
        self.set_conditions(claim, "Launched")

    def set_conditions(self, name: str, *kinds: str) -> None:
        """Set conditions of a launched claim to True."""
        claim = self.claim(name)
        owner = ConditionOwner(
            condition_set=NODECLAIM_CONDITIONS, now=self.now, created=claim.created, generation=1
        )
        conditions = claim.conditions
        for kind in kinds:
            conditions = set_condition(conditions, owner, kind, TRUE)
        status = {
            "providerID": provider_id_of(f"node-{name}"),
            "nodeName": f"node-{name}",
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": encode_conditions(conditions),
        }
        self.patch(NODE_CLAIMS, name, {"status": status}, subresource="status")
