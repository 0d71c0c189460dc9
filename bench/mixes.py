"""Benchmark clusters: pending pods and instance types."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from dovetail.core.instancetypes.build import build_instance_types
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.pod import (
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from dovetail.model.kube.requirements import Operator, Requirement, Requirements, RequirementSpec
from dovetail.model.kube.resources import CPU, MEMORY, PODS, Resources
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import DaemonSet
from dovetail.model.snapshot import ClusterSnapshot

SEED = 42
MI, GI = 2**20, 2**30
REGION = "us-east-1"

Option = TypeVar("Option")
Mix = Callable[[int, int], ClusterSnapshot]
"""(number of pods, seed) → snapshot."""


def upstream(pods: int, seed: int = SEED) -> ClusterSnapshot:
    """Karpenter's scheduling benchmark: 400 fake types and five equal kinds of pods."""
    random_source = random.Random(seed)
    pod_kinds = [_generic, _over_zones, _over_hosts, _near_in_zone, _apart_on_hosts]
    pods_per_kind = pods // len(pod_kinds)
    pods_to_place: list[Pod] = []
    for number, make_pod in enumerate(pod_kinds):
        # The remainder of the division is generic.
        count = pods - pods_per_kind * (len(pod_kinds) - 1) if number == 0 else pods_per_kind
        pods_to_place += [make_pod(f"{make_pod.__name__[1:]}-{i}", random_source) for i in range(count)]
    return ClusterSnapshot(
        pending_pods=tuple(pods_to_place),
        nodepools=(NodePool(name="default"),),
        instance_types=FrozenDict({"default": tuple(_fake_types(400))}),
    )


def deployments(pods: int, seed: int = SEED) -> ClusterSnapshot:
    """Fifty Deployments of mixed sizes on the bundled catalog, on-demand, amd64 and arm64."""
    random_source = random.Random(seed)
    return ClusterSnapshot(
        pending_pods=tuple(_replicas(pods, random_source)),
        nodepools=(_pool(),),
        instance_types=FrozenDict({"default": _bundled_types()}),
        daemon_sets=tuple(_daemon_sets()),
    )


def rules(pods: int, seed: int = SEED) -> ClusterSnapshot:
    """Hundreds or thousands of Deployments with mixed rules on three NodePools.

    Small Deployments are what makes a plan slow: 200 of them up to 2,000 pods, 3,000 above.
    """
    return _with_rules(pods, seed, limits={})


def limits(pods: int, seed: int = SEED) -> ClusterSnapshot:
    """Two hundred Deployments with the same rules, and NodePools with limits.

    The limits allow all pods, if flexible ones leave the small NodePools to those
    that fit nowhere else.
    """
    return _with_rules(pods, seed, limits={"arm": 0.3, "spot": 0.3, "on-demand": 1.2})


def jobs(pods: int, seed: int = SEED) -> ClusterSnapshot:
    """Batch jobs of few sizes, 3 to 88 cores, like those of public traces of GPU clusters."""
    random_source = random.Random(seed)
    weights = [weight for weight, _, _ in _JOBS]
    sizes = random_source.choices([(cores, gib) for _, cores, gib in _JOBS], weights, k=pods)
    return ClusterSnapshot(
        pending_pods=tuple(_job(number, *size) for number, size in enumerate(sizes)),
        nodepools=(_pool(),),
        instance_types=FrozenDict({"default": _bundled_types()}),
        daemon_sets=tuple(_daemon_sets()),
    )


MIXES: dict[str, Mix] = {"upstream": upstream, "deployments": deployments, "rules": rules, "limits": limits}


# -- upstream's mix ---------------------------------------------------------------


def _pod(name: str, labels: dict[str, str], spec: PodSpec) -> Pod:
    return Pod(name=name, uid=name, labels=FrozenDict(labels), spec=spec)


def _letter(random_source: random.Random) -> str:
    return random_source.choice("abcdefg")


def _requests(random_source: random.Random) -> Resources:
    cpu = random_source.choice((100, 250, 500, 1000, 1500))
    memory = random_source.choice((100, 256, 512, 1024, 2048, 4096))
    return Resources({CPU: cpu, MEMORY: memory * MI, PODS: 1})


def _generic(name: str, random_source: random.Random) -> Pod:
    return _pod(name, {"my-label": _letter(random_source)}, PodSpec(requests=_requests(random_source)))


def _over_zones(name: str, random_source: random.Random) -> Pod:
    return _spread(name, label_keys.ZONE, random_source)


def _over_hosts(name: str, random_source: random.Random) -> Pod:
    return _spread(name, label_keys.HOSTNAME, random_source)


def _spread(name: str, key: str, random_source: random.Random) -> Pod:
    # Label and selector are independent: most of these pods do not select themselves.
    labels, selected = {"my-label": _letter(random_source)}, {"my-label": _letter(random_source)}
    spread = TopologySpreadConstraint(topology_key=key, selector=LabelSelector(FrozenDict(selected)))
    return _pod(name, labels, PodSpec(requests=_requests(random_source), spreads=(spread,)))


def _near_in_zone(name: str, random_source: random.Random) -> Pod:
    labels = {"my-affinity": _letter(random_source)}
    near = PodAffinityTerm(label_keys.ZONE, LabelSelector(FrozenDict(labels)))
    return _pod(name, labels, PodSpec(requests=_requests(random_source), affinity=(near,)))


def _apart_on_hosts(name: str, random_source: random.Random) -> Pod:
    labels = {"app": "nginx"}
    apart = PodAffinityTerm(label_keys.HOSTNAME, LabelSelector(FrozenDict(labels)))
    return _pod(name, labels, PodSpec(requests=_requests(random_source), anti_affinity=(apart,)))


def _fake_types(count: int) -> Iterator[InstanceType]:
    """Yield types of 1, 2, 3… cores with 2 GiB and 10 pods per core."""
    spot_zones, zones = ("zone-1", "zone-2"), ("zone-1", "zone-2", "zone-3")
    for cores in range(1, count + 1):
        price = 0.1 * cores + 0.1 * (2 * cores * GI) / 1e9
        offerings = [Offering(zone=z, capacity_type="spot", price=price) for z in spot_zones]
        offerings += [Offering(zone=z, capacity_type="on-demand", price=price) for z in zones]
        name = f"fake-it-{cores}"
        yield InstanceType(
            name=name,
            requirements=Requirements.from_requirements(
                [
                    Requirement.one_of(label_keys.INSTANCE_TYPE, name),
                    Requirement.one_of(label_keys.ARCH, "amd64"),
                    Requirement.one_of(label_keys.OS, "linux"),
                    Requirement.one_of(label_keys.ZONE, *zones),
                    Requirement.one_of(label_keys.CAPACITY_TYPE, "spot", "on-demand"),
                ]
            ),
            capacity=Resources({CPU: cores * 1000, MEMORY: 2 * cores * GI, PODS: 10 * cores}),
            overhead=Resources({CPU: 100, MEMORY: 10 * MI}),
            offerings=tuple(offerings),
        )


# -- Deployments on EC2 types ---------------------------------------------------------


def _replicas(pods: int, random_source: random.Random, workloads: int = 50) -> Iterator[Pod]:
    """Yield the pods of Deployments with log-uniform sizes and replicas."""
    sizes = _sizes(workloads, random_source)
    counts = _apportion(pods, [weight for _, _, weight in sizes])
    for number, ((cpu, memory, _), count) in enumerate(zip(sizes, counts, strict=True)):
        app = f"app-{number:02}"
        for replica in range(count):
            yield Pod(
                name=f"{app}-{replica}",
                uid=f"{app}-{replica}",
                labels=FrozenDict({"app": app}),
                owner=OwnerReference("apps/v1", "ReplicaSet", app, uid=app),
                spec=PodSpec(requests=Resources({CPU: cpu, MEMORY: memory, PODS: 1})),
            )


def _sizes(workloads: int, random_source: random.Random) -> list[tuple[int, int, float]]:
    """Return millicores, bytes and share of the pods of each Deployment."""
    sizes = []
    for _ in range(workloads):
        cpu = max(100, round(_log_uniform(random_source, 100, 8000) / 50) * 50)
        memory = round(cpu / 1000 * _log_uniform(random_source, 1, 8) * 16) * 64 * MI
        sizes.append((cpu, memory, _log_uniform(random_source, 1, 100)))
    return sizes


_JOBS = (
    (10, 3, 6),
    (10, 4, 15),
    (4, 4, 24),
    (7, 6, 12),
    (18, 8, 30),
    (5, 8, 16),
    (4, 10, 40),
    (11, 12, 46),
    (8, 12, 20),
    (7, 16, 32),
    (4, 16, 64),
    (2, 20, 64),
    (1, 32, 64),
    (1, 88, 320),
)
"""Weight, cores and GiB of a job."""


def _job(number: int, cores: int, gib: int) -> Pod:
    name, kind = f"job-{number}", f"job-{cores}-{gib}"
    requests = Resources({CPU: cores * 1000, MEMORY: gib * GI, PODS: 1})
    return Pod(
        name=name,
        uid=name,
        labels=FrozenDict({"app": kind}),
        owner=OwnerReference("batch/v1", "Job", kind, uid=kind),
        spec=PodSpec(requests=requests),
    )


def _log_uniform(random_source: random.Random, low: float, high: float) -> float:
    return math.exp(random_source.uniform(math.log(low), math.log(high)))


def _apportion(total: int, weights: list[float]) -> list[int]:
    """Divide ``total`` in proportion, at least one each, by largest remainder."""
    scale = (total - len(weights)) / sum(weights)
    exact = [weight * scale for weight in weights]
    counts = [1 + math.floor(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: math.floor(exact[i]) - exact[i])
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    return counts


def _pool(
    name: str = "default",
    archs: tuple[str, ...] = ("amd64", "arm64"),
    capacity_type: str = label_keys.ON_DEMAND,
    cpu_limit: int | None = None,
) -> NodePool:
    requirements = (
        RequirementSpec(label_keys.OS, Operator.IN, ("linux",)),
        RequirementSpec(label_keys.ARCH, Operator.IN, archs),
        RequirementSpec(label_keys.CAPACITY_TYPE, Operator.IN, (capacity_type,)),
        RequirementSpec("karpenter.k8s.aws/instance-category", Operator.IN, ("c", "m", "r")),
        RequirementSpec("karpenter.k8s.aws/instance-generation", Operator.GT, ("2",)),
    )
    limits = None if cpu_limit is None else Resources({CPU: cpu_limit})
    return NodePool(name=name, template=NodeTemplate(requirements=requirements), limits=limits)


def _bundled_types() -> tuple[InstanceType, ...]:
    catalog = bundled_catalog()
    return build_instance_types(
        catalog.instance_types_in(REGION),
        region=catalog.regions[REGION],
        node_class=EC2NodeClass(),
        prices=bundled_prices(),
    )


def _daemon_sets() -> Iterator[DaemonSet]:
    """Yield DaemonSets that run on every node of most clusters."""
    for name, cpu, memory in (
        ("aws-node", 50, 70),
        ("kube-proxy", 100, 60),
        ("ebs-csi-node", 30, 120),
        ("log-agent", 70, 100),
    ):
        requests = Resources({CPU: cpu, MEMORY: memory * MI, PODS: 1})
        pod = Pod(name=name, namespace="kube-system", spec=PodSpec(requests=requests))
        yield DaemonSet(namespace="kube-system", name=name, pod=pod)


# -- Deployments with rules -------------------------------------------------------------------

_FEW_PODS, _FEW_DEPLOYMENTS, _MANY_DEPLOYMENTS = 2_000, 200, 3_000


def _with_rules(pods: int, seed: int, limits: dict[str, float]) -> ClusterSnapshot:
    """Return Deployments with rules; ``limits``: NodePool → cores, as share of all requests."""
    random_source = random.Random(seed)
    few = pods <= _FEW_PODS or bool(limits)
    sizes = _sizes(_FEW_DEPLOYMENTS if few else _MANY_DEPLOYMENTS, random_source)
    counts = _apportion(pods, [weight for _, _, weight in sizes])
    pending: list[Pod] = []
    for number, ((cpu, memory, _), count) in enumerate(zip(sizes, counts, strict=True)):
        requests = Resources({CPU: cpu, MEMORY: memory, PODS: 1})
        pending += _deployment_with_rules(f"app-{number:04}", requests, count, random_source)
    cores = sum(pod.spec.requests[CPU] for pod in pending)
    nodepools = [
        _pool(name, archs, capacity_type, round(cores * limits[name]) if name in limits else None)
        for name, archs, capacity_type in (
            ("arm", ("arm64",), label_keys.ON_DEMAND),
            ("spot", ("amd64",), label_keys.SPOT),
            ("on-demand", ("amd64",), label_keys.ON_DEMAND),
        )
    ]
    types = _bundled_types()
    return ClusterSnapshot(
        pending_pods=tuple(pending),
        nodepools=tuple(nodepools),
        instance_types=FrozenDict({pool.name: types for pool in nodepools}),
        daemon_sets=tuple(_daemon_sets()),
    )


def _deployment_with_rules(
    app: str, requests: Resources, count: int, random_source: random.Random
) -> Iterator[Pod]:
    """Yield the pods of a Deployment with rules as clusters have them."""
    selector = LabelSelector(FrozenDict({"app": app}))
    over_zones = TopologySpreadConstraint(topology_key=label_keys.ZONE, selector=selector)
    preferably_over_zones = replace(over_zones, required=False)
    over_hosts = TopologySpreadConstraint(
        topology_key=label_keys.HOSTNAME, selector=selector, max_skew=random_source.choice((1, 2, 4))
    )
    same_zone, same_host = (PodAffinityTerm(key, selector) for key in (label_keys.ZONE, label_keys.HOSTNAME))
    # Percent of the Deployments, and their rules.
    rules: list[tuple[int, dict[str, Any]]] = [
        (30, {}),
        (24, {"spreads": (over_zones,)}),
        (6, {"spreads": (preferably_over_zones,)}),
        (10, {"spreads": (over_hosts,)}),
        (8, {"spreads": (over_zones, over_hosts)}),
        (8, {"anti_affinity": (same_host,)}),
        (8, {"preferred_anti_affinity": (WeightedPodAffinityTerm(100, same_host),)}),
        (6, {"affinity": (same_zone,)}),
    ]
    category, generation = "karpenter.k8s.aws/instance-category", "karpenter.k8s.aws/instance-generation"
    recent = NodeSelectorTerm((RequirementSpec(generation, Operator.GT, ("5",)),))
    # Percent of the Deployments, and the nodes they need.
    nodes: list[tuple[int, dict[str, str]]] = [
        (24, {}),
        (30, {label_keys.ARCH: "amd64"}),
        (10, {label_keys.ARCH: "arm64"}),
        (12, {label_keys.CAPACITY_TYPE: label_keys.ON_DEMAND}),
        (4, {label_keys.CAPACITY_TYPE: label_keys.SPOT}),
        (8, {label_keys.ZONE: REGION + random_source.choice("abc")}),
        (4, {category: "c"}),
        (4, {category: "r"}),
        (4, {category: "m", label_keys.ARCH: "amd64"}),
    ]
    spec = PodSpec(
        requests=requests,
        node_selector=FrozenDict(_choose(nodes, random_source)),
        node_terms=(recent,) if random_source.random() < 0.08 else (),
        **_choose(rules, random_source),
    )
    for replica in range(count):
        yield Pod(
            name=f"{app}-{replica}",
            uid=f"{app}-{replica}",
            labels=FrozenDict({"app": app}),
            owner=OwnerReference("apps/v1", "ReplicaSet", app, uid=app),
            spec=spec,
        )


def _choose(options: Sequence[tuple[int, Option]], random_source: random.Random) -> Option:
    """Return one of the options (weight, option)."""
    return random_source.choices([o for _, o in options], weights=[weight for weight, _ in options])[0]
