"""A large simulated cluster, bought by the controllers themselves, and its daily life."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.ports.api_resources import DEPLOYMENTS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import Box
from dovetail.simulator.ec2.throttling import UNLIMITED, Throttle
from dovetail.simulator.scenario.model import Scenario

NAMESPACE = "town"
CPUS = 4
"""Of every machine."""
USABLE = 0.94
"""Share of a machine that is left for pods of Deployments."""
SIZES = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Of pods, around the mean."""
REPLICAS = 250
REPLACED = 0.01
"""Share of the pods that are replaced while the cluster is watched."""
PATIENCE = timedelta(hours=1)
_DECISIONS = "karpenter_voluntary_disruption_decisions_total"


class Town:
    """About ``nodes`` nodes with ``pods`` pods, one of a DaemonSet on each."""

    def __init__(self, *, nodes: int, pods: int, seed: int, policy: str = "WhenEmpty") -> None:
        self._policy = policy
        self._wanted = pods - nodes
        self._random = Random(seed)
        self._deployments = list(_deployments(self._wanted, CPUS * USABLE * nodes / self._wanted))
        story = Scenario(name="steady", about="A cluster at rest.", seed=seed)
        self._box = Box(story, catalog=bundled_catalog(), prices=bundled_prices())
        self._start = self._box.engine.now()
        self._events = 0

    @property
    def nodes(self) -> int:
        return self._box.ec2.ledger.machines

    @property
    def pods(self) -> int:
        """Pods that run, those of the DaemonSet included."""
        return self._box.chronicle.running + self.nodes

    @property
    def unsettled(self) -> int:
        return self._box.chronicle.unsettled

    @property
    def violations(self) -> list[str]:
        return self._box.invariants.violations

    def elapsed(self) -> timedelta:
        """Return the virtual time since the beginning."""
        return self._box.engine.now() - self._start

    def counts(self) -> dict[str, int]:
        """Return how much has happened so far."""
        box = self._box
        return {
            "events": self._events,
            "reconciles": int(box.metrics.total("controller_runtime_reconcile_total")),
            "writes": int(box.api.resource_version),
            "heartbeats": box.kubelets.heartbeats,
            "disruptions": int(box.metrics.total(_DECISIONS)),
        }

    def build(self) -> None:
        """Create the workloads and wait until every pod runs."""
        box = self._box
        # A thousand instances a minute is more than EC2 sells; how fast we buy is not in question.
        box.ec2.throttle = Throttle(UNLIMITED)
        box.apply([_NODE_CLASS, _pool(self._policy), _DAEMON_SET, *self._deployments])
        while box.chronicle.running < self._wanted or box.chronicle.unsettled:
            if self.elapsed() > PATIENCE:
                raise RuntimeError(f"only {self.pods} pods run after {self.elapsed()}")
            self._run(timedelta(seconds=10))
        # Let the nodes that came last settle, too.
        self._run(timedelta(minutes=2))

    def live(self, span: timedelta) -> None:
        """Let time pass in which a few Deployments are rolled out and scaled."""
        restarts = max(1, round(self._wanted * REPLACED / REPLICAS))
        for number, name in enumerate(self._random.sample(self._names(), restarts)):
            moment = span * (number + 1) / (restarts + 2)
            self._box.engine.after(moment, partial(self._restart, name))
            again = span * (number + 1.5) / (restarts + 2)
            self._box.engine.after(again, partial(self._scale, name, by=-5))
            self._box.engine.after(again + span / 20, partial(self._scale, name, by=5))
        self._run(span)

    def _run(self, span: timedelta) -> None:
        engine = self._box.engine
        until = engine.now() + span
        while (due := engine.next_at()) is not None and due <= until:
            engine.step()
            self._events += 1
        engine.run(until=until)

    def _names(self) -> list[str]:
        return [one["metadata"]["name"] for one in self._deployments]

    def _restart(self, name: str) -> None:
        """Replace all pods of a Deployment, as ``kubectl rollout restart`` does."""
        stamp = {"metadata": {"annotations": {"restarted": str(self._box.engine.now())}}}
        self._patch(name, {"template": stamp})

    def _scale(self, name: str, *, by: int) -> None:
        deployment = self._box.api.get(DEPLOYMENTS, name, NAMESPACE)
        self._patch(name, {"replicas": deployment["spec"]["replicas"] + by})

    def _patch(self, name: str, spec: dict[str, Any]) -> None:
        self._box.api.patch(DEPLOYMENTS, name, {"spec": spec}, PatchType.MERGE, NAMESPACE)


def _deployments(pods: int, cpus: float) -> Iterator[dict[str, Any]]:
    """Yield Deployments of so many pods, of so many CPUs on average; every other is spread."""
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
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "town"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "town"}}],
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
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": "default",
                    },
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {
                            "key": "karpenter.sh/capacity-type",
                            "operator": "In",
                            "values": ["on-demand"],
                        },
                        {
                            "key": "karpenter.k8s.aws/instance-category",
                            "operator": "In",
                            "values": ["m"],
                        },
                        {
                            "key": "karpenter.k8s.aws/instance-cpu",
                            "operator": "In",
                            "values": [str(CPUS)],
                        },
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
