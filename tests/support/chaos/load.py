"""Load of the chaos run: workloads in waves, interruptions, node classes that come and go."""

from datetime import timedelta
from typing import Any

from dovetail.ports.api_resources import DEPLOYMENTS, EC2_NODE_CLASSES, NODE_POOLS
from tests.support.aws import interruption_events
from tests.support.chaos.account import ROLE
from tests.support.chaos.cluster import ChaosCluster
from tests.support.chaos.ec2 import REGION, Reservation

_POOLS = {
    "general": ["on-demand"],
    "spot": ["spot"],
    "mixed": ["spot", "on-demand"],
    "reserved": ["reserved"],
}
"""NodePool and node class → capacity types."""
_WORKLOADS = {"a": "general", "b": "general", "c": "spot", "d": "spot", "e": "mixed", "f": "reserved"}
"""Deployment → NodePool."""
_MAX_REPLICAS = 12
_WAVE = (3, 25)
_INTERRUPTION = (60, 300)
_NEW_CLASS = (400, 900)
_CLASS_LIFETIME = (400, 800)
"""All in seconds, from and to."""


class Load:
    """Applies objects and changes them at random times until it is stopped."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self._cluster = cluster
        self._random = cluster.random
        self.is_running = True
        self.interruptions = 0
        self.pools = tuple(_POOLS)
        """NodePools and node classes that exist all the time."""
        self.classes = 0
        """Node classes that came during the run."""
        for number, zone in enumerate("abc"):
            cluster.account.ec2.reservations.append(
                Reservation(id=f"cr-{number}", instance_type="m5.large", zone=f"{REGION}{zone}", total=4)
            )
        for name, capacity_types in _POOLS.items():
            cluster.apply(node_class(name), node_pool(name, capacity_types))
        for name, pool in _WORKLOADS.items():
            cluster.apply(deployment(name, pool))
        self._repeat(_WAVE, self._start_wave)
        self._repeat(_INTERRUPTION, self._interrupt)
        self._repeat(_NEW_CLASS, self._add_class)

    def pause(self) -> None:
        """Change nothing any more."""
        self.is_running = False

    def scale_to_zero(self) -> None:
        """Scale all workloads to zero."""
        for name in self._cluster.names(DEPLOYMENTS):
            self._cluster.scale(name, 0)

    def delete_all(self) -> None:
        """Delete all NodePools and node classes."""
        for resource in (NODE_POOLS, EC2_NODE_CLASSES):
            for name in self._cluster.names(resource):
                self._cluster.delete(resource, name)

    def _repeat(self, seconds: tuple[float, float], action: Any) -> None:
        def act() -> None:
            if self.is_running:
                action()
                self._repeat(seconds, action)

        self._cluster.clock.call_later(timedelta(seconds=self._random.uniform(*seconds)), act)

    def _start_wave(self) -> None:
        name = self._random.choice(sorted(_WORKLOADS))
        self._cluster.scale(name, self._random.choice((0, self._random.randint(1, _MAX_REPLICAS))))

    def _interrupt(self) -> None:
        """Interrupt a spot instance with two minutes' notice, or lose any without notice."""
        ec2 = self._cluster.account.ec2
        is_sudden = self._random.random() < 0.3
        instances = [entry for entry in ec2.alive() if is_sudden or entry.capacity_type == "spot"]
        if not instances:
            return
        self.interruptions += 1
        instance = self._random.choice(instances)
        if is_sudden:
            ec2.terminate(instance)
            return
        self._cluster.account.send_message(interruption_events.spot(instance.id))
        self._cluster.clock.call_later(timedelta(minutes=2), lambda: ec2.terminate(instance))

    def _add_class(self) -> None:
        """Add a node class with a NodePool and pods, and remove them some time later."""
        self.classes += 1
        name = f"temporary-{self.classes}"
        self._cluster.apply(
            node_class(name), node_pool(name, ["on-demand"]), deployment(name, name, replicas=3)
        )

        def remove() -> None:
            if not self.is_running:
                return
            for resource in (DEPLOYMENTS, NODE_POOLS, EC2_NODE_CLASSES):
                if name in self._cluster.names(resource):
                    self._cluster.delete(resource, name)

        lifetime = self._random.uniform(*_CLASS_LIFETIME)
        self._cluster.clock.call_later(timedelta(seconds=lifetime), remove)


def node_class(name: str) -> dict[str, Any]:
    """Return a node class; its role gets an instance profile of its own."""
    reserved = [{"tags": {"team": "a"}}] if name == "reserved" else []
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": {
            "role": ROLE,
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"team": "a"}}],
            "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
            **({"capacityReservationSelectorTerms": reserved} if reserved else {}),
        },
    }


def node_pool(name: str, capacity_types: list[str]) -> dict[str, Any]:
    """Return a NodePool whose nodes only take pods that select it."""
    group = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}
    capacity = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": group, "requirements": [capacity]}},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "15s",
                "budgets": [{"nodes": "50%"}],
            },
        },
    }


def deployment(name: str, pool: str, *, replicas: int = 0) -> dict[str, Any]:
    """Return a Deployment whose pods fill most of a small instance."""
    container = {
        "name": "app",
        "image": "pause",
        "resources": {"requests": {"cpu": "1200m", "memory": "1Gi"}},
    }
    spec = {
        "terminationGracePeriodSeconds": 5,
        "nodeSelector": {"karpenter.sh/nodepool": pool},
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }
