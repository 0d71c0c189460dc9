"""Deployments of many constraints, drawn with a seed."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dovetail.simulator.randomness import SeededChance
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
Rules = dict[str, Any]
"""Fields of a pod's spec."""


def pools(settle: str = "Never") -> list[dict[str, Any]]:
    """A pool for everybody, and one with a taint; what is empty for ``settle`` is given back."""
    made = []
    for name in ("default", "batch"):
        pool = a_pool(name, settle=settle)
        spec = pool["spec"]["template"]["spec"]
        spec["requirements"] = [
            *(one for one in spec["requirements"] if one["key"] != ARCH),
            {"key": ARCH, "operator": "In", "values": ["amd64", "arm64"]},
            {"key": ZONE, "operator": "In", "values": list(ZONES)},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["17"]},
        ]
        if name == "batch":
            spec["taints"] = [DEDICATED]
            pool["spec"]["template"]["metadata"] = {"labels": {TEAM: "batch"}}
        made.append(pool)
    return made


class Dice(SeededChance):
    """Falls on one of several things."""

    def choice(self, options: Sequence[T]) -> T:
        return options[int(self.fraction() * len(options))]


class Mixture:
    """Draws Deployments, and the volumes that some of them name."""

    def __init__(self, seed: int) -> None:
        self._chance = Dice(seed)
        self._names: list[str] = []

    def draw(self, count: int) -> list[dict[str, Any]]:
        """Return as many Deployments, each after the objects that it needs."""
        return [one for _ in range(count) for one in self._next()]

    def _next(self) -> list[dict[str, Any]]:
        name = f"app-{len(self._names):03}"
        replicas = self._chance.choice((1, 2, 3))
        kind = self._chance.choice(_KINDS)
        rules = kind(self._chance, name, self._names)
        if "volumes" in rules:
            # A disk is on one node only.
            replicas = 1
        cpu = self._chance.choice(("100m", "250m", "500m", "1", "2"))
        deployment = a_deployment(name, replicas, cpu=cpu, **rules)
        template = deployment["spec"]["template"]
        container = template["spec"]["containers"][0]
        container["resources"]["requests"]["memory"] = self._chance.choice(("128Mi", "1Gi", "3Gi"))
        if kind is _host_port:
            port = self._chance.choice(PORTS)
            container["ports"] = [{"containerPort": port, "hostPort": port}]
        self._names.append(name)
        claims = [_claim(name)] if "volumes" in rules else []
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


def _affinity(kind: str, *terms: dict[str, Any]) -> Rules:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def _plain(_: Dice, __: str, ___: list[str]) -> Rules:
    return {}


def _over_zones(chance: Dice, name: str, _: list[str]) -> Rules:
    return {"topologySpreadConstraints": [_spread(name, ZONE, chance.choice((1, 1, 2)))]}


def _over_hosts(_: Dice, name: str, __: list[str]) -> Rules:
    return {"topologySpreadConstraints": [_spread(name, HOST, 1)]}


def _over_both(_: Dice, name: str, __: list[str]) -> Rules:
    return {"topologySpreadConstraints": [_spread(name, ZONE, 1), _spread(name, HOST, 1)]}


def _together(_: Dice, name: str, __: list[str]) -> Rules:
    return _affinity("podAffinity", _term(name, ZONE))


def _beside_another(chance: Dice, name: str, others: list[str]) -> Rules:
    return _affinity("podAffinity", _term(chance.choice(others or [name]), ZONE))


def _apart(chance: Dice, name: str, _: list[str]) -> Rules:
    return _affinity("podAntiAffinity", _term(name, chance.choice((HOST, HOST, ZONE))))


def _apart_from_another(chance: Dice, name: str, others: list[str]) -> Rules:
    return _affinity("podAntiAffinity", _term(chance.choice(others or [name]), HOST))


def _tolerant(_: Dice, __: str, ___: list[str]) -> Rules:
    tolerations = [{"key": "dedicated", "operator": "Equal", "value": "batch"}]
    return {"nodeSelector": {TEAM: "batch"}, "tolerations": tolerations}


def _picky(chance: Dice, _: str, __: list[str]) -> Rules:
    wish = chance.choice(
        (
            {ZONE: chance.choice(ZONES)},
            {ARCH: chance.choice(("amd64", "arm64"))},
            {"karpenter.k8s.aws/instance-category": chance.choice("cmr")},
        )
    )
    return {"nodeSelector": wish}


def _host_port(_: Dice, __: str, ___: list[str]) -> Rules:
    return {}


def _with_disk(chance: Dice, name: str, _: list[str]) -> Rules:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    wish = chance.choice(({}, {"nodeSelector": {ZONE: chance.choice(ZONES)}}))
    return {"volumes": volumes, **wish}


_KINDS: tuple[Callable[[Dice, str, list[str]], Rules], ...] = (
    _plain,
    _over_zones,
    _over_hosts,
    _over_both,
    _together,
    _beside_another,
    _apart,
    _apart_from_another,
    _tolerant,
    _picky,
    _host_port,
    _with_disk,
)
