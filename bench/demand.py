"""Traces for the comparison of consolidation policies, generated from a seed.

No trace is recorded data. ``batch`` draws its tasks from a published workload model, with its
parameters for jobs of any type:

    U. Lublin, D. G. Feitelson: The workload on parallel supercomputers: modeling the
    characteristics of rigid jobs. Journal of Parallel and Distributed Computing 63(11), 2003.

``services`` and ``mixed`` are our own: Deployments that follow the time of day.
"""

import math
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from dovetail.trace.model import Event, Header, Scale, Set, Tasks, Template
from dovetail.trace.reader import Trace

START = datetime(2026, 3, 2, tzinfo=UTC)
DAY = 86_400.0
STEP = 600.0
"""Seconds between two changes of a Deployment's scale."""

# Lublin and Feitelson, parameters for all jobs together.
SERIAL_SHARE = 0.244
POWER_OF_TWO_SHARE = 0.576
LOG2_SIZE = (0.8, 4.5, 7.0, 0.86)
"""Two-stage uniform distribution: low, middle, high, share of the lower part."""
LOG_SECONDS = (4.2, 0.94, 312.0, 0.03)
"""Hyper-gamma distribution of the natural logarithm of the run time."""
SHORT_SHARE = (-0.0054, 0.78)
"""Share of the first gamma distribution: slope by the size of the job, and its value at 0."""
ARRIVALS_BY_HOUR = (8.1737, 3.9631)
"""Gamma distribution over half hours, shifted: jobs arrive by day."""
DAY_BEGINS = 11
"""Half hour at which the cyclic day begins."""
MAX_LOG_SECONDS = 12.0
CORES_PER_TASK = 4
"""A job of more cores is several tasks: nodes of the benchmark have 4 to 16."""


Generate = Callable[[random.Random], Iterator[Event]]
"""Yields the demand of a day, in any order."""


def build_trace(name: str, generate: Generate, seed: int) -> Trace:
    """Return a day of demand."""
    rng = random.Random(f"{name}/{seed}")
    events = sorted(generate(rng), key=lambda event: event.t)
    header = Header(written_by="bench.policies", start=START, region="us-east-1", cluster=name)
    pools = (Set(t=0, object=_node_class()), Set(t=0, object=_nodepool()))
    return Trace(header=header, events=(*pools, *events), seconds=DAY)


def _services(rng: random.Random, count: int = 12, largest: int = 20) -> Iterator[Event]:
    """Yield Deployments whose scale follows the time of day."""
    for number in range(count):
        name = f"service-{number:02}"
        cpu = rng.choice([100, 250, 250, 500, 500, 1000, 2000])
        memory = cpu * rng.choice([1, 2, 2, 4, 8])
        peak = rng.uniform(3, largest)
        depth, phase = rng.uniform(0.2, 0.7), rng.gauss(14.0, 2.0)
        replicas = -1
        for step in range(int(DAY / STEP)):
            hour = step * STEP / 3600
            level = 1 - depth * (1 - math.cos((hour - phase) / 24 * 2 * math.pi)) / 2
            wanted = max(1, round(peak * level * rng.gauss(1.0, 0.04)))
            if replicas < 0:
                yield Set(t=0, object=_deployment(name, wanted, cpu, memory))
            # An autoscaler of pods changes nothing for less than 10 %.
            elif abs(wanted - replicas) > 0.1 * replicas:
                yield Scale(t=step * STEP, kind="Deployment", namespace="bench", name=name, replicas=wanted)
            else:
                continue
            replicas = wanted


def _batch(rng: random.Random, jobs: int = 240) -> Iterator[Event]:
    """Yield tasks of rigid jobs; a job of many cores is several tasks of equal run time."""
    for cores in range(1, CORES_PER_TASK + 1):
        yield Template(
            t=0,
            id=f"cores-{cores}",
            namespace="bench",
            workload=f"cores-{cores}",
            template=make_template(f"cores-{cores}", 900 * cores, 1800 * cores),
        )
    for _ in range(jobs):
        size = _draw_size(rng)
        seconds = _draw_seconds(rng, size)
        arrival = _draw_arrival(rng)
        whole, rest = divmod(size, CORES_PER_TASK)
        if whole:
            yield Tasks(t=arrival, template=f"cores-{CORES_PER_TASK}", count=whole, seconds=seconds)
        if rest:
            yield Tasks(t=arrival, template=f"cores-{rest}", count=1, seconds=seconds)


def _draw_size(rng: random.Random) -> int:
    """Return the number of cores."""
    if rng.random() < SERIAL_SHARE:
        return 1
    low, middle, high, share = LOG2_SIZE
    log2 = rng.uniform(low, middle) if rng.random() < share else rng.uniform(middle, high)
    if rng.random() < POWER_OF_TWO_SHARE:
        log2 = round(log2)
    return max(2, round(2**log2))


def _draw_seconds(rng: random.Random, size: int) -> float:
    """Return the run time; larger jobs are more often long."""
    slope, share = SHORT_SHARE
    is_short = rng.random() < slope * size + share
    shape, scale = LOG_SECONDS[:2] if is_short else LOG_SECONDS[2:]
    return round(math.exp(min(rng.gammavariate(shape, scale), MAX_LOG_SECONDS)), 1)


def _draw_arrival(rng: random.Random) -> float:
    """Return seconds since midnight."""
    half_hour = (rng.gammavariate(*ARRIVALS_BY_HOUR) + DAY_BEGINS) % 48
    return round(half_hour * 1800, 1)


def _mixed(rng: random.Random) -> Iterator[Event]:
    yield from _services(rng, count=6)
    yield from _batch(rng, jobs=120)


GENERATED: dict[str, Generate] = {"services": _services, "batch": _batch, "mixed": _mixed}


def _node_class() -> dict[str, Any]:
    return {
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


def _nodepool() -> dict[str, Any]:
    requirements = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4", "8", "16"]},
    ]
    node_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {"nodeClassRef": node_class, "expireAfter": "Never", "requirements": requirements}
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "5m",
                "budgets": [{"nodes": "10%"}],
            },
        },
    }


def make_template(app: str, cpu: int, memory: int) -> dict[str, Any]:
    """Return a pod template; ``cpu`` in millicores, ``memory`` in MiB."""
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    container = {"name": "main", "image": "main", "resources": {"requests": requests}}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}


def _deployment(name: str, replicas: int, cpu: int, memory: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "bench"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": make_template(name, cpu, memory),
        },
    }
