"""Objects that an API server accepts and that cost a controller dearly, or confuse it."""

from collections.abc import Iterator
from typing import Any

from tests.live.replicas import NODE_CLASS, a_pool

Object = dict[str, Any]
PATHS = {
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
    "NodeClaim": "/apis/karpenter.sh/v1/nodeclaims",
    "EC2NodeClass": "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/default/pods",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
}
HOSTILE = {"chaos": "hostile"}
"""Label of every hostile object."""
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_HUGE = str(2**63 - 1)


def hostile_objects(*, pools: int = 30, pods_per_kind: int = 4) -> list[Object]:
    """Return NodePools, node classes, NodeClaims, Nodes, PodDisruptionBudgets and pods."""
    objects = [*_node_classes(), *_pools(pools), *_claims(), *_nodes(), *_budgets()]
    objects += [pod for number in range(pods_per_kind) for pod in _pods(number)]
    for obj in objects:
        obj["metadata"].setdefault("labels", {}).update(HOSTILE)
    return objects


def _requirement(key: str, operator: str, *values: str, **more: Any) -> Object:
    return {"key": key, "operator": operator, "values": list(values), **more}


def _pools(number: int) -> Iterator[Object]:
    """NodePools that no node can meet, and some that take long to find that out."""
    odd: list[list[Object]] = [
        [_requirement("karpenter.k8s.aws/instance-cpu", "Gt", "100000")],
        [_requirement("karpenter.k8s.aws/instance-cpu", "Lt", "1")],
        [{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 50}],
        [_requirement(_ZONE, "In", *(f"nowhere-{zone}" for zone in range(50)))],
        [_requirement(f"example.com/key-{key}", "Exists") for key in range(60)],
        [_requirement(f"example.com/key-{key}", "NotIn", *map(str, range(50))) for key in range(40)],
        [
            _requirement("kubernetes.io/arch", "In", "arm64"),
            _requirement("kubernetes.io/arch", "In", "amd64"),
        ],
        [_requirement("node.kubernetes.io/instance-type", "DoesNotExist")],
    ]
    for index in range(number):
        pool = a_pool(f"hostile-{index:03}", weight=1 + index % 100)
        template = pool["spec"]["template"]
        if index % 5 == 4:
            template["spec"]["nodeClassRef"]["name"] = f"missing-{index}"
        # Ordinary pods do not tolerate these: the pools must cost time, not nodes.
        template["spec"]["taints"] = [{"key": "chaos", "value": "hostile", "effect": "NoSchedule"}]
        template["spec"]["requirements"] += odd[index % len(odd)]
        if index % 7 == 0:
            pool["spec"]["limits"] = {"cpu": "0", "memory": "0"}
        yield pool


def _node_classes() -> Iterator[Object]:
    for index in range(4):
        node_class = {**NODE_CLASS, "metadata": {"name": f"hostile-{index}"}}
        spec = dict(NODE_CLASS["spec"])
        spec["userData"] = ["x" * 16_000, "\x7f\u202e", "#!/bin/sh\nexit 1\n", "[settings]\n= ]"][index]
        spec["tags"] = {f"example.com/tag-{tag}": "v" * 200 for tag in range(45)}
        yield {**node_class, "spec": spec}


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


def _budgets() -> Iterator[Object]:
    base = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    selector = {"matchLabels": HOSTILE}
    specs: list[Object] = [
        {},
        {"spec": {"minAvailable": "100%", "selector": selector}},
        {"spec": {"maxUnavailable": 0, "selector": selector}},
    ]
    for index, spec in enumerate(specs):
        yield {**base, "metadata": {"name": f"hostile-{index}", "namespace": "default"}, **spec}


def _pods(number: int) -> Iterator[Object]:
    """Pods that cannot be scheduled, each costly in its own way."""
    specs: dict[str, Object] = {
        "terms": {"affinity": {"nodeAffinity": _node_affinity(terms=100, keys=40, values=20)}},
        "spreads": {"topologySpreadConstraints": [_spread(f"key-{index}") for index in range(200)]},
        "apart": {"affinity": {"podAntiAffinity": _required([_term(f"a-{index}") for index in range(200)])}},
        "circle": {"affinity": {"podAffinity": _required([_term(f"circle-{(number + 1) % 7}")])}},
        "tolerant": {
            "tolerations": [{"key": f"example.com/{index}", "operator": "Exists"} for index in range(3_000)],
            "nodeSelector": {"example.com/nowhere": "x"},
        },
        "vast": {"containers": [_container(cpu=_HUGE, memory="1e18")]},
        "many": {"containers": [_container(f"c-{index}", cpu="100") for index in range(500)]},
        "ports": {"containers": [_container(ports=3_000)], "nodeSelector": {"example.com/nowhere": "x"}},
    }
    for name, spec in specs.items():
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"hostile-{name}-{number}",
                "namespace": "default",
                "labels": {"kind": f"{name}-{number}"},
            },
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [_container()], **spec},
        }


def _container(name: str = "main", *, cpu: str = "1", memory: str = "64Mi", ports: int = 0) -> Object:
    container: Object = {
        "name": name,
        "image": "pause",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    if ports:
        container["ports"] = [
            {"containerPort": port, "hostPort": port} for port in range(10_000, 10_000 + ports)
        ]
    return container


def _node_affinity(*, terms: int, keys: int, values: int) -> Object:
    listed = [
        {
            "matchExpressions": [
                *(
                    _requirement(f"example.com/k-{key}", "NotIn", *(f"v-{value}" for value in range(values)))
                    for key in range(keys)
                ),
                {"key": f"example.com/own-{term}", "operator": "Exists"},
            ]
        }
        for term in range(terms)
    ]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}


def _spread(key: str) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": f"example.com/{key}",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": HOSTILE},
    }


def _term(app: str) -> Object:
    return {"topologyKey": _HOST, "labelSelector": {"matchLabels": {"kind": app}}}


def _required(terms: list[Object]) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}
