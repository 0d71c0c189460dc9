"""Trace of a day: deployments that follow the sun, jobs, bare pods, roll-outs, interruptions."""

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dovetail.trace.model import (
    CapacityError,
    Delete,
    End,
    Event,
    Header,
    Interruption,
    Scale,
    Set,
    Tasks,
    Template,
)
from dovetail.trace.writer import TraceWriter

DAY = 86_400
START = datetime(2026, 3, 2, tzinfo=UTC)
_SIZES = [(100, 256), (200, 512), (250, 1024), (500, 1024), (500, 2048), (800, 2048)]
"""Requests of pods: milli-CPUs and MiB; 20 of them fill a node of 8 vCPUs."""
_TASKS_PER_POD = 0.75
"""Tasks of a day, for each pod of the peak."""
_PODS_PER_WORKLOAD = 20
_JOB_SHARE = 0.05


def write_day(
    path: Path, *, pods: int = 4000, seed: int = 1, seconds: int = DAY, churn: float | None = None
) -> Path:
    """Write the trace of a day with ``pods`` pods at its peak; with ``churn``, a steady day."""
    header = Header(written_by="bench.recorded_day", start=START, region="us-east-1", cluster="bench")
    with TraceWriter(path, header) as writer:
        if churn is None:
            events = generate_day(pods=pods, seed=seed, seconds=seconds)
        else:
            events = generate_steady_day(pods=pods, churn=churn, seed=seed, seconds=seconds)
        for event in events:
            writer.write(event)
    return path


def generate_day(*, pods: int, seed: int, seconds: int = DAY) -> list[Event]:
    """Return the events of a day, in order."""
    source = random.Random(seed)
    events: list[Event] = [Set(t=0, object=obj) for obj in _pools()]
    count = max(4, pods // 33)
    for number in range(count):
        events += _deployment(number, pods * 0.95 / count, source, seconds)
    events += _tasks(round(pods * _TASKS_PER_POD * seconds / DAY), source, seconds)
    events += _incidents(source, seconds)
    order = {event: position for position, event in enumerate(map(id, events))}
    events = sorted(events, key=lambda event: (event.t, order[id(event)]))
    return [*events, End(t=seconds)]


def generate_steady_day(*, pods: int, churn: float, seed: int, seconds: int = DAY) -> list[Event]:
    """Return the events of a day in which a share of the pods changes per hour.

    A twentieth of the changes are Jobs, the others a Deployment with a pod more or fewer: as in
    ``bench.record``.
    """
    source = random.Random(seed)
    events: list[Event] = [Set(t=0, object=obj) for obj in _pools()]
    replicas = [_PODS_PER_WORKLOAD] * (pods // _PODS_PER_WORKLOAD)
    for number in range(len(replicas)):
        cpu, memory = source.choice(_SIZES)
        name, namespace = f"web-{number}", f"team-{number % 12}"
        template = _template(name, cpu, memory, **_spread(number, name))
        events.append(Set(t=0, object=_workload(name, namespace, _PODS_PER_WORKLOAD, template)))
        if number % 3 == 0:
            events.append(Set(t=0, object=_disruption_budget(name, namespace)))
    report = _template("report", 500, 1024)
    events.append(
        Template(t=0, id="task", namespace="batch", owner="Job", workload="report", template=report)
    )
    for at in sorted(source.uniform(0, seconds) for _ in range(round(pods * churn * seconds / 3600))):
        if source.random() < _JOB_SHARE:
            duration = float(source.randrange(30, 3600))
            events.append(Tasks(t=round(at, 1), template="task", count=1, seconds=duration))
            continue
        number = source.randrange(len(replicas))
        replicas[number] += source.choice((-1, 1)) if replicas[number] > 1 else 1
        events.append(
            Scale(
                t=round(at, 1),
                kind="Deployment",
                namespace=f"team-{number % 12}",
                name=f"web-{number}",
                replicas=replicas[number],
            )
        )
    return [*events, End(t=seconds)]


def _pools() -> Iterator[dict[str, Any]]:
    yield {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "node",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "bench"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "bench"}}],
        },
    }
    yield {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "expireAfter": "Never",
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {
                            "key": "karpenter.sh/capacity-type",
                            "operator": "In",
                            "values": ["spot", "on-demand"],
                        },
                        {
                            "key": "karpenter.k8s.aws/instance-category",
                            "operator": "In",
                            "values": ["c", "m", "r"],
                        },
                        # Without smaller ones, which a slow rise would add one by one: 500 nodes at its peak.
                        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4", "8"]},
                        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]},
                    ],
                }
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "1m",
                "budgets": [{"nodes": "10%"}],
            },
        },
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": _template("agent", 100, 128, tolerations=[{"operator": "Exists"}]),
        },
    }


def _template(app: str, cpu: int, memory: int, *, revision: int = 1, **more: Any) -> dict[str, Any]:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return {
        "metadata": {"labels": {"app": app}, "annotations": {"dovetail.sh/revision": str(revision)}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], **more},
    }


def _workload(name: str, namespace: str, replicas: int, template: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def _spread(number: int, name: str) -> dict[str, Any]:
    """Return the zone spread that every fourth Deployment has."""
    if number % 4:
        return {}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    return {"topologySpreadConstraints": [spread]}


def _disruption_budget(name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"maxUnavailable": "20%", "selector": {"matchLabels": {"app": name}}},
    }


def _deployment(number: int, peak: float, source: random.Random, seconds: int) -> Iterator[Event]:
    """Yield a Deployment, its scale every 10 minutes, and for some a roll-out."""
    name, namespace = f"web-{number}", f"team-{number % 12}"
    cpu, memory = source.choice(_SIZES)
    size = peak * source.uniform(0.4, 1.6)
    phase, swing = source.uniform(-0.06, 0.06), source.choice((0.0, 0.3, 0.5, 0.6))

    def replicas(at: float) -> int:
        wave = math.cos(2 * math.pi * (at / DAY - 14 / 24 - phase))
        return max(1, round(size * (1 - swing / 2 + swing / 2 * wave)))

    def workload(at: float, revision: int) -> dict[str, Any]:
        template = _template(name, cpu, memory, revision=revision, **_spread(number, name))
        return _workload(name, namespace, replicas(at), template)

    yield Set(t=0, object=workload(0, 1))
    if number % 3 == 0:
        yield Set(t=0, object=_disruption_budget(name, namespace))
    last = replicas(0)
    offset = source.uniform(0, 600)
    rolled = source.uniform(9, 18) * 3600 if number % 5 == 0 else None
    for step in range(int(seconds // 600)):
        at = round(offset + step * 600, 1)
        if rolled is not None and at >= rolled:
            yield Set(t=at, object=workload(at, 2))
            rolled = None
        if replicas(at) != last:
            last = replicas(at)
            yield Scale(t=at, kind="Deployment", namespace=namespace, name=name, replicas=last)


def _tasks(number: int, source: random.Random, seconds: int) -> Iterator[Event]:
    """Yield tasks of Jobs, most of them in bursts, and bare pods."""
    for index, (cpu, memory) in enumerate(_SIZES):
        owner = "Pod" if index == 0 else "Job"
        yield Template(
            t=0,
            id=f"task-{index}",
            namespace="batch",
            owner=owner,
            workload=f"queue-{index}",
            template=_template(f"queue-{index}", cpu, memory),
        )
    left = number
    while left > 0:
        count = min(left, source.choice((1, 1, 2, 5, 20, 40)))
        left -= count
        yield Tasks(
            t=round(source.uniform(0, seconds), 1),
            template=f"task-{source.randrange(len(_SIZES))}",
            count=count,
            seconds=round(source.lognormvariate(6, 1), 1),
        )


def _incidents(source: random.Random, seconds: int) -> Iterator[Event]:
    for _ in range(round(12 * seconds / DAY)):
        yield Interruption(t=round(source.uniform(0, seconds), 1), count=source.choice((1, 1, 2, 4)))
    for _ in range(round(6 * seconds / DAY)):
        yield CapacityError(
            t=round(source.uniform(0, seconds), 1),
            instance_type=source.choice(("m5.*", "c6i.*", "r5.*")),
            zone=source.choice(("us-east-1a", "us-east-1b")),
            capacity_type="spot",
            seconds=1800,
        )
    if seconds >= DAY:
        yield Delete(t=DAY - 1800, kind="Deployment", namespace="team-1", name="web-1")
