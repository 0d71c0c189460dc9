"""Machines with pods that are to be replaced, by hand: one step a call, in any order."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from dovetail.codec.kube.conditions import show_conditions
from dovetail.controllers.disruption.controller import Disruption
from dovetail.controllers.disruption.queue import Replacing
from dovetail.core.conditions import CLAIM, Subject, changed
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.karpenter.nodepool import Budget
from dovetail.model.karpenter.nodepool import Disruption as Rules
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.model.kube.taints import DISRUPTED
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from tests.support import wire
from tests.support.catalog import a_type
from tests.support.cloud import TYPE, ZONE
from tests.support.fleet import ZONE_LABELS, a_machine, a_pod, an_owner, provider_id_of
from tests.support.world import World

ANY_NUMBER = (Budget(nodes="100%"),)


def a_kind(name: str, *, cpu: int, price: float) -> InstanceType:
    """An instance type that is sold on-demand where ``a_machine`` runs."""
    offering = Offering(zone=ZONE, capacity_type=label_keys.ON_DEMAND, price=price)
    return a_type(name, cpu=cpu, memory=f"{4 * cpu}Gi", pods=110, offered=[offering])


KINDS = (
    a_kind("m5.large", cpu=2, price=0.1),
    a_kind(TYPE, cpu=4, price=0.2),
    a_kind("m5.2xlarge", cpu=8, price=0.4),
)


class Yard(World):
    """A world in which nodes are replaced; launching and draining are done by the test."""

    def __init__(self, kinds: Iterable[InstanceType] = KINDS) -> None:
        super().__init__()
        self.cloud.types = tuple(kinds)

    def open(self) -> "Yard":
        """Start what begins disruptions and what ends them."""
        self.run(Disruption, Replacing)
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
        given = Rules(consolidate_after=settle, budgets=budgets, **(rules or {}))
        made = wire.pool(name, disruption=given, **fields)
        ready = {"type": "Ready", "status": "True", "reason": "Ready"}
        self.add(NODE_POOLS, {**made, "status": {"conditions": [ready]}})

    def machine(self, node: str = "node", *, drifted: datetime | None = None, **more: Any) -> None:
        """Have a machine that is ripe for consolidation and, if told since when, drifted."""
        kinds = {"Consolidatable": self.now - timedelta(hours=1)}
        if drifted is not None:
            kinds["Drifted"] = drifted
        found = {
            kind: Condition(status=TRUE, reason=kind, since=since, generation=1)
            for kind, since in kinds.items()
        }
        a_machine(self, node, conditions=found, **more)

    def app_pod(self, name: str, node: str = "node", *, cpu: str = "1", **more: Any) -> None:
        """Have a pod of a ReplicaSet on a node."""
        size = {"resources": {"requests": {"cpu": cpu}}}
        containers = [{"name": "main", "image": "app:1", **size}]
        owner = more.pop("owner", None) or an_owner(self, "ReplicaSet")
        a_pod(self, name, node=node, owner=owner, containers=containers, **more)

    # What was decided.

    def replacements(self) -> list[str]:
        """Claims that were made to replace others."""
        return sorted(
            one.name for one in self.mirror.claims() if label_keys.REPLACES in one.annotations
        )

    def marked(self) -> list[str]:
        return sorted(one.name for one in self.mirror.nodes() if DISRUPTED in one.taints)

    def leaving(self) -> list[str]:
        """Claims that are being deleted."""
        return sorted(one.name for one in self.mirror.claims() if one.deleting)

    # What launching and draining would do.

    def starts(self, claim: str, *, cpu: str = "4") -> str:
        """Have a claim's machine come up as a node that is ready; returns the node's name."""
        node = f"node-{claim}"
        size = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        self._say(claim, "Launched", "Registered", "Initialized")
        labels = {**ZONE_LABELS, label_keys.NODEPOOL: self.claim(claim).pool}
        joined = {label_keys.REGISTERED: "true", label_keys.INITIALIZED: "true"}
        self.add(
            NODES,
            wire.node(
                node,
                provider_id=provider_id_of(node),
                taints=(),
                labels={**labels, **joined, label_keys.HOSTNAME: node},
                size=size,
            ),
        )
        return node

    def launched(self, claim: str) -> None:
        """Have a claim's machine bought, and nothing more."""
        self._say(claim, "Launched")

    def _say(self, name: str, *kinds: str) -> None:
        claim = self.claim(name)
        who = Subject(family=CLAIM, now=self.now, created=claim.created, generation=1)
        known = claim.conditions
        for kind in kinds:
            known = changed(known, who, kind, TRUE)
        status = {
            "providerID": provider_id_of(f"node-{name}"),
            "nodeName": f"node-{name}",
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": show_conditions(known),
        }
        self.patch(NODE_CLAIMS, name, {"status": status}, subresource="status")
