"""Measure a simulated day: load that follows the time of day, Jobs and roll-outs.

One JSON line: CPU seconds, peak memory, and what the day cost. ``python -m bench.day`` has up to
200 nodes with 4,000 pods.
"""

import argparse
import cProfile
import gc
import json
import math
import pstats
import sys
import time
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from bench.memory import peak_kib
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.host.gc import reduce_collections
from dovetail.ports.api_resources import DEPLOYMENTS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.kube_client import SimulatedKubeClient
from dovetail.simulator.kubelet.pod_workers import RUN_SECONDS
from dovetail.simulator.scenario.model import Scenario
from dovetail.simulator.scenario_runner import EVICTIONS

PODS_PER_NODE = 20
PODS_PER_DEPLOYMENT = 100
MEAN_CPU = 0.3
"""Of a pod, in cores: 20 pods fill a node of 4 to 8 cores."""
SIZES = (0.4, 0.7, 1.0, 1.3, 1.6)
"""Requests of pods, relative to the mean."""
NIGHT = 0.4
"""Share of the pods that is left at night."""
SCALING_INTERVAL = timedelta(minutes=20)
TOLERANCE = 0.1
"""Smallest relative change that scales a Deployment, as for a HorizontalPodAutoscaler."""
JOBS_PER_HOUR = 12
JOB_PODS = 0.005
"""Pods of a Job, as a share of all pods."""
JOB_SECONDS = 600
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
NAMESPACE = "day"
SEED = 42


def main(arguments: list[str] | None = None) -> int:
    """Run a day; exit code 1 if pods are left without a node."""
    parser = argparse.ArgumentParser(prog="python -m bench.day", description=__doc__)
    parser.add_argument("--nodes", type=int, default=200, help="about this number by day (default: 200)")
    parser.add_argument("--hours", type=float, default=24, help="virtual time (default: 24)")
    parser.add_argument("--policy", default="WhenEmptyOrUnderutilized", help="consolidationPolicy")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args(arguments)
    reduce_collections()  # As in every command.
    gc.collect()
    profiler = cProfile.Profile()
    if options.profile:
        profiler.enable()
    started = time.process_time()
    day = Day(pods=options.nodes * PODS_PER_NODE, seed=options.seed, policy=options.policy)
    day.play(timedelta(hours=options.hours))
    seconds = time.process_time() - started
    if options.profile:
        profiler.disable()
        stats = pstats.Stats(profiler, stream=sys.stderr)
        stats.sort_stats("tottime").print_stats(50)
        stats.sort_stats("cumulative").print_stats(90)
    line = {"cpu_seconds": round(seconds, 1), "peak_mib": round(peak_kib() / 1024), **day.figures()}
    print(json.dumps(line), flush=True)
    return 1 if line["unsettled"] else 0


class Day:
    """A cluster whose Deployments follow the time of day; played from midnight."""

    def __init__(self, *, pods: int, seed: int, policy: str) -> None:
        self._pods = pods
        self._random = Random(seed)
        scenario = Scenario(name="day", about="A day of load.", seed=seed)
        self.cluster = SimulatedCluster(
            scenario,
            catalog=bundled_catalog(),
            prices=bundled_prices(),
            # As in forks and replays.
            kube=lambda api, _: SimulatedKubeClient(api),
            keep_events=False,
        )
        self._start = self.cluster.clock.now()
        self._peaks = {
            f"app-{number:03d}": PODS_PER_DEPLOYMENT for number in range(pods // PODS_PER_DEPLOYMENT)
        }
        self._replicas = {name: self._desired(name) for name in self._peaks}
        self._peak_nodes = self._peak_pods = self._jobs = 0
        self.cluster.apply((_NODE_CLASS, _pool(policy), _DAEMON_SET))
        for number, (name, replicas) in enumerate(self._replicas.items()):
            self.cluster.apply((_deployment(name, number, replicas), _budget(name)))

    def play(self, duration: timedelta) -> None:
        """Play the changes of a day."""
        clock = self.cluster.clock
        for name in self._peaks:
            at = duration * self._random.random()
            clock.call_later(at, partial(self._patch, name, _restart(at)))
        jobs = round(JOBS_PER_HOUR * duration / timedelta(hours=1))
        for _ in range(jobs):
            clock.call_later(duration * self._random.random(), self._start_job)
        while clock.now() < self._start + duration:
            self._scale()
            clock.run(until=min(clock.now() + SCALING_INTERVAL, self._start + duration))
            self._peak_nodes = max(self._peak_nodes, self.cluster.ec2.billing.instance_count)
            self._peak_pods = max(self._peak_pods, self.cluster.recorder.running)
        while self.cluster.recorder.unsettled and clock.now() < self._start + duration + timedelta(
            minutes=10
        ):
            clock.run(until=clock.now() + timedelta(seconds=10))

    def figures(self) -> dict[str, Any]:
        cluster = self.cluster
        metrics, billing = cluster.metrics, cluster.ec2.billing
        return {
            "virtual_hours": round((cluster.clock.now() - self._start).total_seconds() / 3600, 1),
            "peak_nodes": self._peak_nodes,
            "peak_pods": self._peak_pods,
            "cost": round(billing.cost(cluster.clock.now()), 2),
            "launches": len(billing.launches),
            "evictions": int(metrics.total(EVICTIONS, code="200")),
            "commands": int(metrics.total("karpenter_voluntary_disruption_decisions_total")),
            "reconciles": int(metrics.total("controller_runtime_reconcile_total")),
            "writes": int(cluster.api.resource_version),
            "unsettled": cluster.recorder.unsettled,
        }

    def _desired(self, name: str) -> int:
        """Return the replicas at this time; the load of a Deployment peaks within hours of noon."""
        hours = (self.cluster.clock.now() - self._start).total_seconds() / 3600
        shift = 4 * (int(name[-3:]) % 7) / 7 - 2
        share = (1 - math.cos(2 * math.pi * (hours - shift) / 24)) / 2
        noise = self._random.uniform(0.95, 1.05)
        return max(1, round(self._peaks[name] * (NIGHT + (1 - NIGHT) * share) * noise))

    def _scale(self) -> None:
        for name, replicas in self._replicas.items():
            desired = self._desired(name)
            if abs(desired - replicas) > TOLERANCE * replicas:
                self._replicas[name] = desired
                self._patch(name, {"replicas": desired})

    def _start_job(self) -> None:
        self._jobs += 1
        pods = max(1, round(self._pods * JOB_PODS))
        self.cluster.apply((_job(f"job-{self._jobs:04d}", pods),))

    def _patch(self, name: str, spec: dict[str, Any]) -> None:
        self.cluster.api.patch(DEPLOYMENTS, name, {"spec": spec}, PatchType.MERGE, NAMESPACE)


def _restart(at: timedelta) -> dict[str, Any]:
    return {"template": {"metadata": {"annotations": {"restarted": str(at)}}}}


def _deployment(name: str, number: int, replicas: int) -> dict[str, Any]:
    """Return a Deployment; every third is spread over zones."""
    labels = {"app": name}
    size = MEAN_CPU * SIZES[number % len(SIZES)]
    requests = {"cpu": f"{int(1000 * size)}m", "memory": f"{int(3072 * size)}Mi"}
    container = {"name": "app", "image": name, "resources": {"requests": requests}}
    spec: dict[str, Any] = {"containers": [container]}
    if number % 3 == 0:
        constraint = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone"}
        constraint |= {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": labels}}
        spec["topologySpreadConstraints"] = [constraint]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _budget(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"maxUnavailable": "10%", "selector": {"matchLabels": {"app": name}}},
    }


def _job(name: str, pods: int) -> dict[str, Any]:
    requests = {"cpu": "1", "memory": "2Gi"}
    template = {
        "metadata": {"annotations": {RUN_SECONDS: str(JOB_SECONDS)}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "job", "image": "job", "resources": {"requests": requests}}],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "ttlSecondsAfterFinished": 600,
            "template": template,
        },
    }


_NODE_CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "KarpenterNodeRole",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "day"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "day"}}],
    },
}
_AGENT = {"name": "agent", "image": "agent", "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}
_DAEMON_SET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "agent", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"tolerations": [{"operator": "Exists"}], "containers": [_AGENT]},
        },
    },
}


def _pool(policy: str) -> dict[str, Any]:
    requirements = {
        "kubernetes.io/arch": ["amd64"],
        "karpenter.sh/capacity-type": ["on-demand"],
        "karpenter.k8s.aws/instance-category": ["c", "m", "r"],
        "karpenter.k8s.aws/instance-cpu": ["4", "8"],
        "topology.kubernetes.io/zone": list(ZONES),
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [
                        {"key": key, "operator": "In", "values": values}
                        for key, values in requirements.items()
                    ],
                }
            },
            "disruption": {
                "consolidationPolicy": policy,
                "consolidateAfter": "5m",
                "budgets": [{"nodes": "10%"}],
            },
        },
    }


if __name__ == "__main__":
    raise SystemExit(main())
