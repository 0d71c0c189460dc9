"""Objects that a Kubernetes API server accepts and that are expensive to plan.

Each is within the limits of the API (etcd: 1.5 MB). Their sizes multiply: terms by
values by NodePools, spread constraints by domains, selectors by pods.
"""

from collections.abc import Callable, Iterator
from typing import Any

NAMESPACE = "hostile"
SPREADS, TERMS, ENTRIES = 200, 200, 3000
"""Spread constraints, anti-affinity terms, and tolerations or host ports of one pod."""
NODE_TERMS, EXPRESSIONS, VALUES = 100, 40, 20
"""Node affinity terms of one pod, expressions of a term, values of an expression."""
_WELL_KNOWN = (
    "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-size",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-cpu",
    "karpenter.k8s.aws/instance-memory",
)


def hostile_pods(count: int = 62) -> list[dict[str, Any]]:
    """Return pods of all kinds in turn."""
    return [
        _pod(f"{kind.__name__[1:].replace('_', '-')}-{number}", **kind(number))
        for number, kind in zip(range(count), _cycle(), strict=False)
    ]


def hostile_nodepools(count: int = 100, *, keys: int = 60, values: int = 30) -> list[dict[str, Any]]:
    """Return NodePools with many requirements; none tolerates ordinary pods."""
    return [
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": f"hostile-{number:03}"},
            "spec": {
                "weight": 1 + number % 100,
                "template": {
                    "metadata": {"labels": {f"example.com/pool-{i}": f"v{number}" for i in range(20)}},
                    "spec": {
                        "nodeClassRef": {
                            "group": "karpenter.k8s.aws",
                            "kind": "EC2NodeClass",
                            "name": "default",
                        },
                        "requirements": [
                            {
                                "key": "karpenter.sh/capacity-type",
                                "operator": "In",
                                "values": ["spot", "on-demand"],
                            },
                            *(
                                {
                                    "key": f"example.com/key-{i}",
                                    "operator": "In",
                                    "values": [f"v{n}" for n in range(values)],
                                }
                                for i in range(keys)
                            ),
                        ],
                        "taints": [{"key": "example.com/hostile", "effect": "NoSchedule"}],
                    },
                },
            },
        }
        for number in range(count)
    ]


def _cycle() -> Iterator[Callable[[int], dict[str, Any]]]:
    while True:
        yield from _KINDS


def _pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "registry.k8s.io/pause",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    tolerations = [{"key": "example.com/hostile", "operator": "Exists"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"app": name, "team": NAMESPACE, **(labels or {})},
        },
        "spec": {"containers": [container], "tolerations": tolerations, **spec},
    }


def _spread(key: str, labels: dict[str, str], *, soft: bool = False) -> dict[str, Any]:
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }


def _term(key: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, "namespaceSelector": {}}


def _spreads(number: int) -> dict[str, Any]:
    """Required spread constraints over labels of the NodePools, and over well-known ones."""
    keys = [
        *_WELL_KNOWN,
        *(f"example.com/key-{i}" for i in range(60)),
        *(f"example.com/pool-{i}" for i in range(20)),
    ]
    return {"topologySpreadConstraints": [_spread(key, {"team": NAMESPACE}) for key in keys[number % 5 :]]}


def _unknown_spreads(_: int) -> dict[str, Any]:
    """Required spread constraints over labels that no node has."""
    keys = [f"example.com/absent-{i}" for i in range(SPREADS)]
    return {"topologySpreadConstraints": [_spread(key, {"team": NAMESPACE}) for key in keys]}


def _soft_spreads(number: int) -> dict[str, Any]:
    """Preferences that are dropped one by one."""
    keys = [f"example.com/soft-{i}" for i in range(SPREADS)]
    return {
        "topologySpreadConstraints": [_spread(key, {"team": NAMESPACE}, soft=True) for key in keys],
        "nodeSelector": {"example.com/absent": str(number)},
    }


def _anti_affinity(number: int) -> dict[str, Any]:
    """Anti-affinity to every pod of the cluster, over many keys."""
    terms = [
        _term(f"example.com/key-{i % 60}", {} if i % 2 else {"team": NAMESPACE, f"n{i}": str(number)})
        for i in range(TERMS)
    ]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _preferred_affinity(number: int) -> dict[str, Any]:
    """Preferred affinity terms, dropped one by one, on a pod that fits nowhere."""
    terms = [
        {"weight": 1 + i % 100, "podAffinityTerm": _term(f"example.com/key-{i % 60}", {f"n{i}": str(number)})}
        for i in range(TERMS)
    ]
    return {
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}},
        "nodeSelector": {"example.com/absent": str(number)},
    }


def _node_affinity(number: int) -> dict[str, Any]:
    """Alternatives that no node meets, each with many values."""
    terms = [
        {
            "matchExpressions": [
                *(
                    {
                        "key": f"example.com/key-{i}",
                        "operator": "NotIn",
                        "values": [f"t{term}-{number}-{value}" for value in range(VALUES)],
                    }
                    for i in range(EXPRESSIONS)
                ),
                {"key": f"example.com/absent-{term}", "operator": "Exists"},
            ]
        }
        for term in range(NODE_TERMS)
    ]
    required = {"nodeSelectorTerms": terms}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _spread_node_affinity(number: int) -> dict[str, Any]:
    """Alternatives and spread constraints: each constraint counts nodes of each alternative."""
    return {**_node_affinity(number), **_spreads(number)}


def _circular_affinity(number: int) -> dict[str, Any]:
    """Each pod must share its node with the next one."""
    term = _term("kubernetes.io/hostname", {"circle": str((number + 10) % 60)})
    return {
        "labels": {"circle": str(number % 60)},
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    }


def _tolerations(number: int) -> dict[str, Any]:
    entries = [{"key": f"example.com/t-{i}", "operator": "Exists"} for i in range(ENTRIES)]
    return {"tolerations": entries, "nodeSelector": {"example.com/absent": str(number)}}


def _host_ports(number: int) -> dict[str, Any]:
    ports = [
        {"containerPort": 1 + i, "hostPort": 1 + number * 100 + i, "protocol": "TCP"} for i in range(ENTRIES)
    ]
    return {"containers": [{"name": "app", "image": "registry.k8s.io/pause", "ports": ports}]}


def _labels(number: int) -> dict[str, Any]:
    return {"labels": {f"label-{i}": str(number) for i in range(10_000)}}


def _huge(_: int) -> dict[str, Any]:
    requests = {"cpu": "9223372036854775807", "memory": "1000000Ti"}
    return {
        "containers": [{"name": "app", "image": "registry.k8s.io/pause", "resources": {"requests": requests}}]
    }


def _containers(_: int) -> dict[str, Any]:
    return {"containers": [{"name": f"app-{i}", "image": "registry.k8s.io/pause"} for i in range(500)]}


_KINDS: tuple[Callable[[int], dict[str, Any]], ...] = (
    _spreads,
    _anti_affinity,
    _node_affinity,
    _unknown_spreads,
    _spread_node_affinity,
    _soft_spreads,
    _preferred_affinity,
    _circular_affinity,
    _tolerations,
    _host_ports,
    _labels,
    _containers,
    _huge,
)
