"""The clusters that are measured: what waits, and what could be bought for it."""

import math
import random
from collections.abc import Callable, Iterator

from dovetail.core.instancetypes.build import instance_types
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.pod import Owner, Pod, PodSpec, PodTerm, Spread
from dovetail.model.kube.requirements import Operator, Requirement, Requirements, RequirementSpec
from dovetail.model.kube.resources import CPU, MEMORY, PODS, Resources
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import DaemonSet
from dovetail.model.snapshot import ClusterSnapshot

SEED = 42
MI, GI = 2**20, 2**30
REGION = "us-east-1"

Mix = Callable[[int, int], ClusterSnapshot]
"""Number of pods and seed, to the cluster."""


def upstream(pods: int, seed: int = SEED) -> ClusterSnapshot:
    """Karpenter's own benchmark: 400 made-up types and five equal kinds of pods."""
    chance = random.Random(seed)
    kinds = [_generic, _over_zones, _over_hosts, _near_in_zone, _apart_on_hosts]
    each = pods // len(kinds)
    waiting: list[Pod] = []
    for number, kind in enumerate(kinds):
        # What is left over by the division is generic.
        count = pods - each * (len(kinds) - 1) if number == 0 else each
        waiting += [kind(f"{kind.__name__[1:]}-{i}", chance) for i in range(count)]
    return ClusterSnapshot(
        pending=tuple(waiting),
        node_pools=(NodePool(name="default"),),
        instance_types=FrozenDict({"default": tuple(_made_up_types(400))}),
    )


def deployments(pods: int, seed: int = SEED) -> ClusterSnapshot:
    """Fifty Deployments of mixed sizes on the bundled catalogue, on-demand, both CPUs."""
    chance = random.Random(seed)
    return ClusterSnapshot(
        pending=tuple(_replicas(pods, chance)),
        node_pools=(_pool(),),
        instance_types=FrozenDict({"default": _bundled_types()}),
        daemon_sets=tuple(_daemons()),
    )


MIXES: dict[str, Mix] = {"upstream": upstream, "deployments": deployments}


# -- upstream's mix ---------------------------------------------------------------


def _pod(name: str, labels: dict[str, str], spec: PodSpec) -> Pod:
    return Pod(name=name, uid=name, labels=FrozenDict(labels), spec=spec)


def _letter(chance: random.Random) -> str:
    return chance.choice("abcdefg")


def _requests(chance: random.Random) -> Resources:
    cpu = chance.choice((100, 250, 500, 1000, 1500))
    memory = chance.choice((100, 256, 512, 1024, 2048, 4096))
    return Resources({CPU: cpu, MEMORY: memory * MI, PODS: 1})


def _generic(name: str, chance: random.Random) -> Pod:
    return _pod(name, {"my-label": _letter(chance)}, PodSpec(requests=_requests(chance)))


def _over_zones(name: str, chance: random.Random) -> Pod:
    return _spread(name, label_keys.ZONE, chance)


def _over_hosts(name: str, chance: random.Random) -> Pod:
    return _spread(name, label_keys.HOSTNAME, chance)


def _spread(name: str, key: str, chance: random.Random) -> Pod:
    # Label and selector are drawn apart: most of these pods do not count themselves.
    labels, selected = {"my-label": _letter(chance)}, {"my-label": _letter(chance)}
    spread = Spread(topology_key=key, selector=LabelSelector(FrozenDict(selected)))
    return _pod(name, labels, PodSpec(requests=_requests(chance), spreads=(spread,)))


def _near_in_zone(name: str, chance: random.Random) -> Pod:
    labels = {"my-affinity": _letter(chance)}
    near = PodTerm(label_keys.ZONE, LabelSelector(FrozenDict(labels)))
    return _pod(name, labels, PodSpec(requests=_requests(chance), affinity=(near,)))


def _apart_on_hosts(name: str, chance: random.Random) -> Pod:
    labels = {"app": "nginx"}
    apart = PodTerm(label_keys.HOSTNAME, LabelSelector(FrozenDict(labels)))
    return _pod(name, labels, PodSpec(requests=_requests(chance), anti_affinity=(apart,)))


def _made_up_types(count: int) -> Iterator[InstanceType]:
    """Yield types of 1, 2, 3… cores with 2 GiB and 10 pods a core."""
    spot_zones, zones = ("zone-1", "zone-2"), ("zone-1", "zone-2", "zone-3")
    for cores in range(1, count + 1):
        price = 0.1 * cores + 0.1 * (2 * cores * GI) / 1e9
        offerings = [Offering(zone=z, capacity_type="spot", price=price) for z in spot_zones]
        offerings += [Offering(zone=z, capacity_type="on-demand", price=price) for z in zones]
        name = f"fake-it-{cores}"
        yield InstanceType(
            name=name,
            requirements=Requirements.of(
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


# -- Deployments on real machines ---------------------------------------------------


def _replicas(pods: int, chance: random.Random, workloads: int = 50) -> Iterator[Pod]:
    """Yield the pods of Deployments whose sizes and replicas are log-uniform."""
    sizes = []
    for _ in range(workloads):
        cpu = max(100, round(_between(chance, 100, 8000) / 50) * 50)
        memory = round(cpu / 1000 * _between(chance, 1, 8) * 16) * 64 * MI
        sizes.append((cpu, memory, _between(chance, 1, 100)))
    counts = _apportioned(pods, [weight for _, _, weight in sizes])
    for number, ((cpu, memory, _), count) in enumerate(zip(sizes, counts, strict=True)):
        app = f"app-{number:02}"
        for replica in range(count):
            yield Pod(
                name=f"{app}-{replica}",
                uid=f"{app}-{replica}",
                labels=FrozenDict({"app": app}),
                owner=Owner("apps/v1", "ReplicaSet", app, uid=app),
                spec=PodSpec(requests=Resources({CPU: cpu, MEMORY: memory, PODS: 1})),
            )


def _between(chance: random.Random, low: float, high: float) -> float:
    return math.exp(chance.uniform(math.log(low), math.log(high)))


def _apportioned(total: int, weights: list[float]) -> list[int]:
    """Divide ``total`` in proportion, at least one each, by largest remainder."""
    scale = (total - len(weights)) / sum(weights)
    exact = [weight * scale for weight in weights]
    counts = [1 + math.floor(one) for one in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: math.floor(exact[i]) - exact[i])
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    return counts


def _pool() -> NodePool:
    requirements = (
        RequirementSpec(label_keys.OS, Operator.IN, ("linux",)),
        RequirementSpec(label_keys.ARCH, Operator.IN, ("amd64", "arm64")),
        RequirementSpec(label_keys.CAPACITY_TYPE, Operator.IN, (label_keys.ON_DEMAND,)),
        RequirementSpec("karpenter.k8s.aws/instance-category", Operator.IN, ("c", "m", "r")),
        RequirementSpec("karpenter.k8s.aws/instance-generation", Operator.GT, ("2",)),
    )
    return NodePool(name="default", template=NodeTemplate(requirements=requirements))


def _bundled_types() -> tuple[InstanceType, ...]:
    catalog = bundled_catalog()
    return instance_types(
        catalog.machines_in(REGION),
        region=catalog.regions[REGION],
        node_class=NodeClass(),
        prices=bundled_prices(),
    )


def _daemons() -> Iterator[DaemonSet]:
    """Yield what runs on every node of most clusters."""
    for name, cpu, memory in (
        ("aws-node", 50, 70),
        ("kube-proxy", 100, 60),
        ("ebs-csi-node", 30, 120),
        ("log-agent", 70, 100),
    ):
        requests = Resources({CPU: cpu, MEMORY: memory * MI, PODS: 1})
        pod = Pod(name=name, namespace="kube-system", spec=PodSpec(requests=requests))
        yield DaemonSet(namespace="kube-system", name=name, pod=pod)
