"""A recorded day: size of the trace, CPU and memory of the recorder.

    python -m bench.record [--pods 50000] [--churn 0.01] [--hours 24]

Objects as an API server sends them go through the recorder's own state and file, on a virtual
clock. A twentieth of the churn are pods of Jobs; the rest is scale of Deployments up and down, with the
pods that their ReplicaSets create and delete and the status changes of each pod.
"""

import argparse
import json
import random
import resource
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from dovetail.ports import api_resources as kinds
from dovetail.record.demand import Demand
from dovetail.record.output import Rotation, TraceOutput
from dovetail.trace.model import Event, Header

START: Final = datetime(2026, 3, 2, tzinfo=UTC)
_PODS_PER_WORKLOAD: Final = 20
_PODS_PER_NODE: Final = 25
_JOB_SHARE: Final = 0.05
_FLUSH: Final = timedelta(seconds=3)

Object = dict[str, Any]


class Day:
    """A cluster that changes on a virtual clock."""

    def __init__(self, pods: int, demand: Demand, seed: int) -> None:
        self._random = random.Random(seed)
        self._demand = demand
        self.now = START
        self._workloads = [f"service-{number}" for number in range(pods // _PODS_PER_WORKLOAD)]
        self._replicas = dict.fromkeys(self._workloads, _PODS_PER_WORKLOAD)
        self._pods: dict[str, list[Object]] = {}
        self._nodes = [self._node(number) for number in range(pods // _PODS_PER_NODE)]
        self._jobs: list[tuple[datetime, Object]] = []

    def fill(self) -> None:
        """Deliver everything that exists at the start."""
        for node in self._nodes:
            self._demand.apply(kinds.NODES, node)
        for name in self._workloads:
            self._demand.apply(kinds.DEPLOYMENTS, self._deployment(name))
            owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": self._uid()}
            meta = {
                "name": f"{name}-7d9f8",
                "namespace": "prod",
                "ownerReferences": [{**owner, "controller": True}],
            }
            spec = self._deployment(name)["spec"]
            self._demand.apply(kinds.REPLICA_SETS, {"metadata": {**meta, "uid": self._uid()}, "spec": spec})
            self._pods[name] = []
            for _ in range(_PODS_PER_WORKLOAD):
                pod = self._pod(f"{name}-7d9f8", "ReplicaSet")
                self._demand.apply(kinds.PODS, pod)
                self._pods[name].append(_last_state(pod))

    def change_pod(self) -> None:
        """Replace one pod: a scale up or down, or a Job."""
        self._finish_jobs()
        if self._random.random() < _JOB_SHARE:
            job = self._pod(f"report-{self._random.randrange(10**9)}", "Job")
            self._demand.apply(kinds.PODS, job)
            self._jobs.append((self.now + timedelta(seconds=self._random.randrange(30, 3600)), job))
            return
        name = self._random.choice(self._workloads)
        step = self._random.choice((-1, 1)) if self._replicas[name] > 1 else 1
        self._replicas[name] += step
        self._demand.apply(kinds.DEPLOYMENTS, self._deployment(name))
        if step > 0:
            pod = self._pod(f"{name}-7d9f8", "ReplicaSet")
            self._pods[name].append(_last_state(pod))
            for phase in ("Pending", "Running"):
                self._demand.apply(kinds.PODS, {**pod, "status": {**pod["status"], "phase": phase}})
        else:
            self._demand.delete(kinds.PODS, self._pods[name].pop())

    def _finish_jobs(self) -> None:
        for end, job in [entry for entry in self._jobs if entry[0] <= self.now]:
            self._jobs.remove((end, job))
            self._demand.apply(kinds.PODS, {**job, "status": {**job["status"], "phase": "Succeeded"}})
            self._demand.delete(kinds.PODS, job)

    def _uid(self) -> str:
        number = f"{self._random.getrandbits(128):032x}"
        return f"{number[:8]}-{number[8:12]}-{number[12:16]}-{number[16:20]}-{number[20:]}"

    def _template(self, name: str) -> Object:
        cpu = (100, 250, 500, 1000)[hash_of(name) % 4]
        spread = {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
        }
        return {
            "containers": [
                {
                    "name": "main",
                    "image": f"registry.example/{name}:1",
                    "env": [{"name": "A", "value": "b"}],
                    "resources": {"requests": {"cpu": f"{cpu}m", "memory": "512Mi"}},
                }
            ],
            "topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": {"app": name}}}],
            "terminationGracePeriodSeconds": 30,
            "restartPolicy": "Always",
        }

    def _deployment(self, name: str) -> Object:
        return {
            "metadata": {"name": name, "namespace": "prod", "uid": f"uid-{name}"},
            "spec": {
                "replicas": self._replicas[name],
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": self._template(name)},
            },
        }

    def _pod(self, owner: str, kind: str) -> Object:
        app = owner.rpartition("-")[0]
        suffix = "".join(self._random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        reference = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "name": owner,
            "uid": f"uid-{owner}",
            "controller": True,
        }
        node = self._random.choice(self._nodes)["metadata"]["name"]
        when = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"status": "True", "lastTransitionTime": when}
        return {
            "metadata": {
                "name": f"{owner}-{suffix}",
                "namespace": "prod",
                "uid": self._uid(),
                "creationTimestamp": when,
                "labels": {"app": app, "pod-template-hash": "7d9f8"},
                "ownerReferences": [reference],
            },
            "spec": {**self._template(app), "nodeName": node},
            "status": {
                "phase": "Running",
                "startTime": when,
                "conditions": [
                    {"type": kind, **condition} for kind in ("PodScheduled", "Initialized", "Ready")
                ],
            },
        }

    def _node(self, number: int) -> Object:
        zone = f"eu-west-1{'abc'[number % 3]}"
        name = f"ip-10-{number >> 8}-{number & 255}-7.eu-west-1.compute.internal"
        capacity = {"cpu": "16", "memory": "64Gi", "pods": "58", "ephemeral-storage": "20Gi"}
        return {
            "metadata": {
                "name": name,
                "uid": self._uid(),
                "labels": {
                    "kubernetes.io/hostname": name,
                    "topology.kubernetes.io/zone": zone,
                    "topology.kubernetes.io/region": "eu-west-1",
                    "node.kubernetes.io/instance-type": "m6i.4xlarge",
                    "karpenter.sh/nodepool": "default",
                    "karpenter.sh/capacity-type": "on-demand",
                },
            },
            "spec": {"providerID": f"aws:///{zone}/i-{self._random.getrandbits(68):017x}"},
            "status": {"capacity": capacity, "allocatable": capacity},
        }


def _last_state(pod: Object) -> Object:
    """Return what a deletion delivers, as far as it matters; the rest would only cost memory here."""
    meta = {key: pod["metadata"][key] for key in ("name", "namespace", "uid", "ownerReferences")}
    return {"metadata": meta, "spec": {}, "status": {}}


def hash_of(name: str) -> int:
    """Return a number that depends on the name only."""
    return sum(name.encode())


def measure(pods: int, churn: float, hours: float, path: Path) -> dict[str, Any]:
    """Record a day and return its figures."""
    pending: list[Event] = []
    output = TraceOutput(path, Rotation(every=timedelta(days=365)))
    demand = Demand(pending.append, now=lambda: day.now)
    day = Day(pods, demand, seed=1)
    cpu = time.process_time()
    day.fill()
    output.begin(Header(written_by="bench", start=day.now))
    demand.begin(day.now, output.append)
    output.write([])
    begin = {"initial_mb": output.size / 1e6, "initial_cpu_s": time.process_time() - cpu}
    cpu = time.process_time()
    changes = int(pods * churn * hours)
    step = timedelta(hours=hours) / max(changes, 1)
    flushed = day.now
    for _ in range(changes):
        day.now += step
        day.change_pod()
        if day.now - flushed >= _FLUSH and pending:
            output.write(pending)
            pending.clear()
            flushed = day.now
    output.write(pending)
    output.end(demand.now())
    return {
        **{name: round(value, 2) for name, value in begin.items()},
        "pods": pods,
        "changes": changes,
        "events": output.events,
        "day_mb": round(output.size / 1e6, 2),
        "day_cpu_s": round(time.process_time() - cpu, 2),
        "max_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--churn", type=float, default=0.01, help="share of pods that change in an hour")
    parser.add_argument("--hours", type=float, default=24)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        figures = measure(options.pods, options.churn, options.hours, Path(folder) / "day.jsonl.zst")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
