"""Random Deployments with mixed scheduling constraints, from a seed."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dovetail.simulator.environment import SeededRandomSource
from tests.live.replicas import a_deployment, a_pool

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
ARCH = "kubernetes.io/arch"
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
TEAM = "example.com/team"
DEDICATED = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
PORTS = (8080, 8443, 9090, 9100)
STORAGE_CLASS: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "gp3"},
    "provisioner": "ebs.csi.aws.com",
    "volumeBindingMode": "WaitForFirstConsumer",
    "reclaimPolicy": "Delete",
}
T = TypeVar("T")
PodSpec = dict[str, Any]
"""Fields of a pod's spec."""


def node_pools(consolidate_after: str = "Never") -> list[dict[str, Any]]:
    """Return a NodePool without and one with a taint; both delete empty nodes."""
    pools = []
    for name in ("default", "batch"):
        pool = a_pool(name, consolidate_after=consolidate_after)
        spec = pool["spec"]["template"]["spec"]
        spec["requirements"] = [
            *(requirement for requirement in spec["requirements"] if requirement["key"] != ARCH),
            {"key": ARCH, "operator": "In", "values": ["amd64", "arm64"]},
            {"key": ZONE, "operator": "In", "values": list(ZONES)},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["17"]},
        ]
        if name == "batch":
            spec["taints"] = [DEDICATED]
            pool["spec"]["template"]["metadata"] = {"labels": {TEAM: "batch"}}
        pools.append(pool)
    return pools


class RandomChoice(SeededRandomSource):
    """Random source that can choose one of several options."""

    def choice(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]


class MixedWorkloads:
    """Generator of Deployments, and of the volume claims that some of them use."""

    def __init__(self, seed: int) -> None:
        self._random = RandomChoice(seed)
        self._names: list[str] = []

    def generate(self, count: int) -> list[dict[str, Any]]:
        """Return ``count`` Deployments, each after the objects that it needs."""
        return [obj for _ in range(count) for obj in self._next()]

    def _next(self) -> list[dict[str, Any]]:
        name = f"app-{len(self._names):03}"
        replicas = self._random.choice((1, 2, 3))
        constraint = self._random.choice(_CONSTRAINTS)
        spec_fields = constraint(self._random, name, self._names)
        if "volumes" in spec_fields:
            # A ReadWriteOnce volume attaches to one node only.
            replicas = 1
        cpu = self._random.choice(("100m", "250m", "500m", "1", "2"))
        deployment = a_deployment(name, replicas, cpu=cpu, **spec_fields)
        template = deployment["spec"]["template"]
        container = template["spec"]["containers"][0]
        container["resources"]["requests"]["memory"] = self._random.choice(("128Mi", "1Gi", "3Gi"))
        if constraint is _host_port:
            port = self._random.choice(PORTS)
            container["ports"] = [{"containerPort": port, "hostPort": port}]
        self._names.append(name)
        claims = [_claim(name)] if "volumes" in spec_fields else []
        return [*claims, deployment]


def _claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gp3",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def _term(app: str, key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def _spread(app: str, key: str, skew: int) -> dict[str, Any]:
    return {"maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **_term(app, key)}


def _affinity(kind: str, *terms: dict[str, Any]) -> PodSpec:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def _no_constraint(_: RandomChoice, __: str, ___: list[str]) -> PodSpec:
    return {}


def _spread_over_zones(random: RandomChoice, name: str, _: list[str]) -> PodSpec:
    return {"topologySpreadConstraints": [_spread(name, ZONE, random.choice((1, 1, 2)))]}


def _spread_over_hosts(_: RandomChoice, name: str, __: list[str]) -> PodSpec:
    return {"topologySpreadConstraints": [_spread(name, HOST, 1)]}


def _spread_over_both(_: RandomChoice, name: str, __: list[str]) -> PodSpec:
    return {"topologySpreadConstraints": [_spread(name, ZONE, 1), _spread(name, HOST, 1)]}


def _affinity_to_self(_: RandomChoice, name: str, __: list[str]) -> PodSpec:
    return _affinity("podAffinity", _term(name, ZONE))


def _affinity_to_other(random: RandomChoice, name: str, others: list[str]) -> PodSpec:
    return _affinity("podAffinity", _term(random.choice(others or [name]), ZONE))


def _anti_affinity_to_self(random: RandomChoice, name: str, _: list[str]) -> PodSpec:
    return _affinity("podAntiAffinity", _term(name, random.choice((HOST, HOST, ZONE))))


def _anti_affinity_to_other(random: RandomChoice, name: str, others: list[str]) -> PodSpec:
    return _affinity("podAntiAffinity", _term(random.choice(others or [name]), HOST))


def _toleration(_: RandomChoice, __: str, ___: list[str]) -> PodSpec:
    tolerations = [{"key": "dedicated", "operator": "Equal", "value": "batch"}]
    return {"nodeSelector": {TEAM: "batch"}, "tolerations": tolerations}


def _node_selector(random: RandomChoice, _: str, __: list[str]) -> PodSpec:
    selector = random.choice(
        (
            {ZONE: random.choice(ZONES)},
            {ARCH: random.choice(("amd64", "arm64"))},
            {"karpenter.k8s.aws/instance-category": random.choice("cmr")},
        )
    )
    return {"nodeSelector": selector}


def _host_port(_: RandomChoice, __: str, ___: list[str]) -> PodSpec:
    return {}


def _volume(random: RandomChoice, name: str, _: list[str]) -> PodSpec:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    zone = random.choice(({}, {"nodeSelector": {ZONE: random.choice(ZONES)}}))
    return {"volumes": volumes, **zone}


_CONSTRAINTS: tuple[Callable[[RandomChoice, str, list[str]], PodSpec], ...] = (
    _no_constraint,
    _spread_over_zones,
    _spread_over_hosts,
    _spread_over_both,
    _affinity_to_self,
    _affinity_to_other,
    _anti_affinity_to_self,
    _anti_affinity_to_other,
    _toleration,
    _node_selector,
    _host_port,
    _volume,
)
