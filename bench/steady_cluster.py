"""A large simulated cluster, launched by the controllers, in steady state."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.ports.api_resources import DEPLOYMENTS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.ec2.throttling import UNLIMITED, Throttle
from dovetail.simulator.scenario.model import Scenario

NAMESPACE = "steady"
CPUS = 4
"""Of every node."""
USABLE = 0.94
"""Share of a node that is left for pods of Deployments."""
SIZES = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Requests of pods, relative to the mean."""
REPLICAS = 250
REPLACED = 0.01
"""Share of the pods that are replaced during the measurement."""
BUILD_TIMEOUT = timedelta(hours=1)
_DECISIONS = "karpenter_voluntary_disruption_decisions_total"


class SteadyCluster:
    """About ``nodes`` nodes with ``pods`` pods, one of a DaemonSet on each."""

    def __init__(self, *, nodes: int, pods: int, seed: int, policy: str = "WhenEmpty") -> None:
        self._policy = policy
        self._deployment_pods = pods - nodes
        self._random = Random(seed)
        self._deployments = list(
            _deployments(self._deployment_pods, CPUS * USABLE * nodes / self._deployment_pods)
        )
        scenario = Scenario(name="steady", about="A cluster in steady state.", seed=seed)
        self._cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())
        self._start = self._cluster.clock.now()
        self._events = 0

    @property
    def cluster(self) -> SimulatedCluster:
        return self._cluster

    @property
    def nodes(self) -> int:
        return self._cluster.ec2.billing.instance_count

    @property
    def pods(self) -> int:
        """Running pods, with those of the DaemonSet."""
        return self._cluster.recorder.running + self.nodes

    @property
    def unsettled(self) -> int:
        return self._cluster.recorder.unsettled

    @property
    def violations(self) -> list[str]:
        return self._cluster.invariants.violations

    def elapsed(self) -> timedelta:
        """Return the virtual time since the beginning."""
        return self._cluster.clock.now() - self._start

    def counts(self) -> dict[str, int]:
        """Return the counters so far."""
        cluster = self._cluster
        return {
            "events": self._events,
            "reconciles": int(cluster.metrics.total("controller_runtime_reconcile_total")),
            "writes": int(cluster.api.resource_version),
            "heartbeats": cluster.kubelets.heartbeats.count,
            "disruptions": int(cluster.metrics.total(_DECISIONS)),
        }

    def build(self) -> None:
        """Create the workloads and wait until every pod runs."""
        cluster = self._cluster
        # A thousand instances per minute exceed EC2's limits; launch speed is not measured here.
        cluster.ec2.throttle = Throttle(UNLIMITED)
        cluster.apply([_NODE_CLASS, _pool(self._policy), _DAEMON_SET, *self._deployments])
        while cluster.recorder.running < self._deployment_pods or cluster.recorder.unsettled:
            if self.elapsed() > BUILD_TIMEOUT:
                raise RuntimeError(f"only {self.pods} pods run after {self.elapsed()}")
            self._run(timedelta(seconds=10))
        # Wait for the last nodes to become initialized.
        self._run(timedelta(minutes=2))

    def run(self, span: timedelta) -> None:
        """Run for a time in which a few Deployments are restarted and scaled."""
        restarts = max(1, round(self._deployment_pods * REPLACED / REPLICAS))
        for number, name in enumerate(self._random.sample(self._names(), restarts)):
            restart_at = span * (number + 1) / (restarts + 2)
            self._cluster.clock.call_later(restart_at, partial(self._restart, name))
            scale_at = span * (number + 1.5) / (restarts + 2)
            self._cluster.clock.call_later(scale_at, partial(self._scale, name, by=-5))
            self._cluster.clock.call_later(scale_at + span / 20, partial(self._scale, name, by=5))
        self._run(span)

    def _run(self, span: timedelta) -> None:
        clock = self._cluster.clock
        until = clock.now() + span
        while (due := clock.next_due()) is not None and due <= until:
            clock.step()
            self._events += 1
        clock.run(until=until)

    def _names(self) -> list[str]:
        return [deployment["metadata"]["name"] for deployment in self._deployments]

    def _restart(self, name: str) -> None:
        """Replace all pods of a Deployment, as ``kubectl rollout restart`` does."""
        annotations = {"metadata": {"annotations": {"restarted": str(self._cluster.clock.now())}}}
        self._patch(name, {"template": annotations})

    def _scale(self, name: str, *, by: int) -> None:
        deployment = self._cluster.api.get(DEPLOYMENTS, name, NAMESPACE)
        self._patch(name, {"replicas": deployment["spec"]["replicas"] + by})

    def _patch(self, name: str, spec: dict[str, Any]) -> None:
        self._cluster.api.patch(DEPLOYMENTS, name, {"spec": spec}, PatchType.MERGE, NAMESPACE)


def _deployments(pods: int, cpus: float) -> Iterator[dict[str, Any]]:
    """Yield Deployments with ``pods`` pods of ``cpus`` on average; every other is spread."""
    for number, first in enumerate(range(0, pods, REPLICAS)):
        labels = {"app": f"app-{number:04d}"}
        size = cpus * SIZES[number % len(SIZES)]
        requests = {"cpu": f"{int(1000 * size)}m", "memory": f"{int(2048 * size)}Mi"}
        container = {"name": "app", "image": "app", "resources": {"requests": requests}}
        spec: dict[str, Any] = {"containers": [container]}
        if number % 2:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": labels},
                }
            ]
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": labels["app"], "namespace": NAMESPACE},
            "spec": {
                "replicas": min(REPLICAS, pods - first),
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }


_NODE_CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "KarpenterNodeRole",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "steady"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "steady"}}],
    },
}
_DAEMON_SET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "agent", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {
                "tolerations": [{"operator": "Exists"}],
                "containers": [
                    {
                        "name": "agent",
                        "image": "agent",
                        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
                    }
                ],
            },
        },
    },
}


def _pool(policy: str) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["m"]},
                        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": [str(CPUS)]},
                        {
                            "key": "topology.kubernetes.io/zone",
                            "operator": "In",
                            "values": ["us-east-1a", "us-east-1b", "us-east-1c"],
                        },
                    ],
                }
            },
            "disruption": {"consolidationPolicy": policy, "consolidateAfter": "30s"},
        },
    }
