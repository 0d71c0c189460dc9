"""Objects that a Kubernetes API server accepts and that are expensive to plan.

Each is within the limits of the API (etcd: 1.5 MB). Their sizes multiply: terms by
values by NodePools, spread constraints by domains, selectors by pods.
"""

from collections.abc import Callable, Iterator
from typing import Any

Object = dict[str, Any]
NAMESPACE = "hostile"
HOSTILE = {"team": "hostile"}
"""Label of every object of ``hostile_objects``."""
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


def hostile_objects(*, pools: int = 30, pods: int = 28, namespace: str = NAMESPACE) -> list[Object]:
    """Return pods and NodePools, and odd node classes, NodeClaims, Nodes and PodDisruptionBudgets."""
    objects = [
        *_node_classes(),
        *impossible_nodepools(pools),
        *_claims(),
        *_nodes(),
        *_budgets(namespace),
        *hostile_pods(pods, namespace=namespace),
    ]
    for obj in objects:
        obj["metadata"].setdefault("labels", {}).update(HOSTILE)
    return objects


def hostile_pods(count: int = 62, *, namespace: str = NAMESPACE) -> list[Object]:
    """Return pods of all kinds in turn."""
    return [
        _pod(f"{kind.__name__[1:].replace('_', '-')}-{number}", namespace, **kind(number))
        for number, kind in zip(range(count), _cycle(), strict=False)
    ]


def hostile_nodepools(count: int = 100, *, keys: int = 60, values: int = 30) -> list[Object]:
    """Return NodePools with many requirements; none tolerates ordinary pods."""
    requirements = [
        _requirement("karpenter.sh/capacity-type", "In", "spot", "on-demand"),
        *(_requirement(f"example.com/key-{i}", "In", *(f"v{n}" for n in range(values))) for i in range(keys)),
    ]
    pools = [
        _nodepool(f"hostile-{number:03}", number, requirements=requirements, taint="example.com/hostile")
        for number in range(count)
    ]
    for number, pool in enumerate(pools):
        labels = {f"example.com/pool-{i}": f"v{number}" for i in range(20)}
        pool["spec"]["template"]["metadata"] = {"labels": labels}
    return pools


def impossible_nodepools(count: int = 30) -> Iterator[Object]:
    """NodePools that no node can meet, and some that take long to find that out."""
    odd: list[list[Object]] = [
        [_requirement("karpenter.k8s.aws/instance-cpu", "Gt", "100000")],
        [_requirement("karpenter.k8s.aws/instance-cpu", "Lt", "1")],
        [{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 50}],
        [_requirement("topology.kubernetes.io/zone", "In", *(f"nowhere-{zone}" for zone in range(50)))],
        [_requirement(f"example.com/key-{key}", "Exists") for key in range(60)],
        [_requirement(f"example.com/key-{key}", "NotIn", *map(str, range(50))) for key in range(40)],
        [
            _requirement("kubernetes.io/arch", "In", "arm64"),
            _requirement("kubernetes.io/arch", "In", "amd64"),
        ],
        [_requirement("node.kubernetes.io/instance-type", "DoesNotExist")],
    ]
    for index in range(count):
        pool = _nodepool(
            f"impossible-{index:03}",
            index,
            requirements=[_requirement("kubernetes.io/arch", "In", "amd64"), *odd[index % len(odd)]],
            # No pod tolerates these: the NodePools must cost time, not nodes.
            taint="example.com/impossible",
            node_class=f"missing-{index}" if index % 5 == 4 else "default",
        )
        if index % 7 == 0:
            pool["spec"]["limits"] = {"cpu": "0", "memory": "0"}
        yield pool


def _nodepool(
    name: str, number: int, *, requirements: list[Object], taint: str, node_class: str = "default"
) -> Object:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class}
    spec = {
        "nodeClassRef": reference,
        "requirements": requirements,
        "taints": [{"key": taint, "effect": "NoSchedule"}],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"weight": 1 + number % 100, "template": {"spec": spec}},
    }


def _requirement(key: str, operator: str, *values: str, **more: Any) -> Object:
    return {"key": key, "operator": operator, "values": list(values), **more}


def _node_classes() -> Iterator[Object]:
    for index in range(4):
        yield {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": f"hostile-{index}"},
            "spec": {
                "role": "KarpenterNodeRole",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
                "userData": ["x" * 16_000, "\x7f\u202e", "#!/bin/sh\nexit 1\n", "[settings]\n= ]"][index],
                "tags": {f"example.com/tag-{tag}": "v" * 200 for tag in range(45)},
            },
        }


def _claims() -> Iterator[Object]:
    """NodeClaims made by hand, which no node can meet or whose class is missing."""
    for index, (name, requirement) in enumerate(
        (
            ("missing", _requirement("kubernetes.io/arch", "In", "amd64")),
            ("default", _requirement("node.kubernetes.io/instance-type", "In", "no-such.type")),
            ("default", _requirement("karpenter.k8s.aws/instance-cpu", "Gt", "100000")),
        )
    ):
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}
        yield {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": f"hostile-{index}"},
            "spec": {"nodeClassRef": reference, "requirements": [requirement]},
        }


def _nodes() -> Iterator[Object]:
    """Nodes without instance: odd provider ids, taints and labels, no kubelet."""
    ids = ("aws:///nowhere/i-0", "aws:///us-east-1a/", "gce://x/y/z", "::::", "aws:///us-east-1a/i-00000000")
    for index, provider_id in enumerate(ids):
        labels = {f"example.com/label-{number}": "x" * 60 for number in range(100)}
        labels["karpenter.sh/nodepool"] = ("default", "missing")[index % 2]
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"hostile-{index}", "labels": labels},
            "spec": {
                "providerID": provider_id,
                "taints": [{"key": f"example.com/{number}", "effect": "NoSchedule"} for number in range(100)],
            },
        }


def _budgets(namespace: str) -> Iterator[Object]:
    base = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    selector = {"matchLabels": HOSTILE}
    specs: list[Object] = [
        {},
        {"spec": {"minAvailable": "100%", "selector": selector}},
        {"spec": {"maxUnavailable": 0, "selector": selector}},
    ]
    for index, spec in enumerate(specs):
        yield {**base, "metadata": {"name": f"hostile-{index}", "namespace": namespace}, **spec}


def _cycle() -> Iterator[Callable[[int], Object]]:
    while True:
        yield from _KINDS


def _pod(name: str, namespace: str, labels: dict[str, str] | None = None, **spec: Any) -> Object:
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
            "namespace": namespace,
            "labels": {"app": name, **HOSTILE, **(labels or {})},
        },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "tolerations": tolerations,
            **spec,
        },
    }


def _spread(key: str, labels: dict[str, str], *, soft: bool = False) -> Object:
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }


def _term(key: str, labels: dict[str, str]) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, "namespaceSelector": {}}


def _spreads(number: int) -> Object:
    """Required spread constraints over labels of the NodePools, and over well-known ones."""
    keys = [
        *_WELL_KNOWN,
        *(f"example.com/key-{i}" for i in range(60)),
        *(f"example.com/pool-{i}" for i in range(20)),
    ]
    return {"topologySpreadConstraints": [_spread(key, HOSTILE) for key in keys[number % 5 :]]}


def _unknown_spreads(_: int) -> Object:
    """Required spread constraints over labels that no node has."""
    keys = [f"example.com/absent-{i}" for i in range(SPREADS)]
    return {"topologySpreadConstraints": [_spread(key, HOSTILE) for key in keys]}


def _soft_spreads(number: int) -> Object:
    """Preferences that are dropped one by one."""
    keys = [f"example.com/soft-{i}" for i in range(SPREADS)]
    return {
        "topologySpreadConstraints": [_spread(key, HOSTILE, soft=True) for key in keys],
        "nodeSelector": {"example.com/absent": str(number)},
    }


def _anti_affinity(number: int) -> Object:
    """Anti-affinity to every pod of the cluster, over many keys."""
    terms = [
        _term(f"example.com/key-{i % 60}", {} if i % 2 else {**HOSTILE, f"n{i}": str(number)})
        for i in range(TERMS)
    ]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _host_anti_affinity(number: int) -> Object:
    """Anti-affinity by hostname: each term is checked on each node."""
    terms = [_term("kubernetes.io/hostname", {f"n{i}": str(number)}) for i in range(TERMS)]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _preferred_affinity(number: int) -> Object:
    """Preferred affinity terms, dropped one by one, on a pod that fits nowhere."""
    terms = [
        {"weight": 1 + i % 100, "podAffinityTerm": _term(f"example.com/key-{i % 60}", {f"n{i}": str(number)})}
        for i in range(TERMS)
    ]
    return {
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}},
        "nodeSelector": {"example.com/absent": str(number)},
    }


def _node_affinity(number: int) -> Object:
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


def _spread_node_affinity(number: int) -> Object:
    """Alternatives and spread constraints: each constraint counts nodes of each alternative."""
    return {**_node_affinity(number), **_spreads(number)}


def _circular_affinity(number: int) -> Object:
    """Each pod must share its node with the next one."""
    term = _term("kubernetes.io/hostname", {"circle": str((number + 10) % 60)})
    return {
        "labels": {"circle": str(number % 60)},
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    }


def _tolerations(number: int) -> Object:
    entries = [{"key": f"example.com/t-{i}", "operator": "Exists"} for i in range(ENTRIES)]
    return {"tolerations": entries, "nodeSelector": {"example.com/absent": str(number)}}


def _host_ports(number: int) -> Object:
    ports = [
        {"containerPort": 1 + i, "hostPort": 1 + number * 100 + i, "protocol": "TCP"} for i in range(ENTRIES)
    ]
    return {"containers": [{"name": "app", "image": "registry.k8s.io/pause", "ports": ports}]}


def _labels(number: int) -> Object:
    return {"labels": {f"label-{i}": str(number) for i in range(10_000)}}


def _huge(_: int) -> Object:
    requests = {"cpu": "9223372036854775807", "memory": "1000000Ti"}
    return {
        "containers": [{"name": "app", "image": "registry.k8s.io/pause", "resources": {"requests": requests}}]
    }


def _containers(_: int) -> Object:
    return {"containers": [{"name": f"app-{i}", "image": "registry.k8s.io/pause"} for i in range(500)]}


_KINDS: tuple[Callable[[int], Object], ...] = (
    _spreads,
    _anti_affinity,
    _host_anti_affinity,
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
