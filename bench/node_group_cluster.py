"""Dump of a cluster of managed node groups: half full, as Cluster Autoscaler leaves it."""

import hashlib
import random
from typing import Any

REGION, ZONES = "us-east-1", ("us-east-1a", "us-east-1b", "us-east-1c")
_TYPES = {"m5.large": (2, 8), "m5.xlarge": (4, 16), "m5.2xlarge": (8, 32), "r5.xlarge": (4, 32)}
"""Instance type → vCPU, GiB."""
_GROUPS = (
    ("web", "m5.xlarge", "ON_DEMAND"),
    ("batch", "m5.2xlarge", "SPOT"),
    ("data", "r5.xlarge", "ON_DEMAND"),
)
_IMAGES = ("nginx:1.27", "shop/checkout:4.2", "redis:7", "shop/search:1.0")
_CPU = (50, 100, 150, 200)
_MEMORY = (64, 128, 256, 512)
_FILL = 0.6
NOW = "2026-11-01T12:00:00Z"


def node_group_cluster(nodes: int, pods: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return the objects of ``nodes`` nodes in three groups, with up to ``pods`` pods."""
    source = random.Random(seed)
    objects = [_daemon_set()]
    per_workload = 25
    workloads = max(4, pods // per_workload)
    templates = []
    for number in range(workloads):
        cpu, memory = source.choice(_CPU), source.choice(_MEMORY)
        namespace = f"team-{number % 12}"
        templates.append((f"app-{number}", namespace, cpu, memory, _IMAGES[number % len(_IMAGES)]))
        objects += _workload(*templates[-1], replicas=per_workload)
        if number % 3 == 0:
            blocked = number % 24 == 3
            objects.append(_budget(f"app-{number}", namespace, 0 if blocked else 5))
    placed = 0
    for number in range(nodes):
        group, kind, capacity = _GROUPS[number % len(_GROUPS)]
        name, (cpus, gib) = f"ip-10-{number // 62500}-{number // 250 % 250}-{number % 250}", _TYPES[kind]
        objects.append(_node(name, group, kind, capacity, ZONES[number % 3], number, cpus, gib))
        objects.append(
            _pod(
                f"agent-{number}",
                "kube-system",
                100,
                128,
                "quay.io/prometheus/node-exporter:v1",
                name,
                {"kind": "DaemonSet", "name": "agent"},
                {"app": "agent"},
                number,
            )
        )
        cpu_left, memory_left = cpus * 1000 * _FILL - 100, gib * 1024 * _FILL - 128
        share = (pods * (number + 1)) // nodes - placed
        for _ in range(share):
            app, namespace, cpu, memory, image = templates[placed // 5 % workloads]
            cpu, memory = min(cpu, int(cpu_left)), min(memory, int(memory_left))
            if cpu < 10 or memory < 16:
                break
            cpu_left, memory_left, placed = cpu_left - cpu, memory_left - memory, placed + 1
            owner = {"kind": "ReplicaSet", "name": f"{app}-1"}
            objects.append(
                _pod(f"{app}-{placed}", namespace, cpu, memory, image, name, owner, {"app": app}, placed)
            )
    return objects


def _uid(kind: str, namespace: str, name: str) -> str:
    return hashlib.sha256(f"{kind}/{namespace}/{name}".encode()).hexdigest()[:32]


def _meta(kind: str, name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    scope = {"namespace": namespace} if namespace else {}
    return {"name": name, **scope, "uid": _uid(kind, namespace, name), "creationTimestamp": NOW, **more}


def _node(
    name: str, group: str, kind: str, capacity: str, zone: str, number: int, cpus: int, gib: int
) -> dict[str, Any]:
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": zone,
        "eks.amazonaws.com/nodegroup": group,
        "eks.amazonaws.com/capacityType": capacity,
        "alpha.eksctl.io/cluster-name": "shop",
        "team.example.com/tier": group,
    }
    size = {"pods": "110", "ephemeral-storage": "80Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _meta("Node", name, labels=labels),
        "spec": {"providerID": f"aws:///{zone}/i-{number:017x}"},
        "status": {
            "capacity": {"cpu": str(cpus), "memory": f"{gib * 1024 - 300}Mi", **size},
            "allocatable": {"cpu": f"{cpus * 1000 - 80}m", "memory": f"{gib * 1024 - 1300}Mi", **size},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": NOW}],
            "nodeInfo": {"osImage": "Amazon Linux 2023.6.20250303", "kubeletVersion": "v1.33.1-eks-1"},
        },
    }


def _pod(
    name: str,
    namespace: str,
    cpu: int,
    memory: int,
    image: str,
    node: str,
    owner: dict[str, str],
    labels: dict[str, str],
    number: int,
) -> dict[str, Any]:
    reference = {
        "apiVersion": "apps/v1",
        "controller": True,
        "uid": _uid(owner["kind"], namespace, owner["name"]),
        **owner,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta("Pod", name, namespace, labels=labels, ownerReferences=[reference]),
        "spec": {
            "nodeName": node,
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}},
                    "env": [{"name": "PASSWORD", "value": f"secret-{number}"}],
                }
            ],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _template(app: str, cpu: int, memory: int, image: str) -> dict[str, Any]:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": image, "resources": {"requests": requests}}]},
    }


def _workload(
    app: str, namespace: str, cpu: int, memory: int, image: str, replicas: int
) -> list[dict[str, Any]]:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": app}},
        "template": _template(app, cpu, memory, image),
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta("Deployment", app, namespace),
        "spec": spec,
    }
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": app,
        "controller": True,
        "uid": _uid("Deployment", namespace, app),
    }
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": _meta("ReplicaSet", f"{app}-1", namespace, ownerReferences=[owner]),
        "spec": spec,
    }
    return [deployment, replica_set]


def _budget(app: str, namespace: str, allowed: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _meta("PodDisruptionBudget", app, namespace, generation=1),
        "spec": {"maxUnavailable": allowed, "selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 25,
            "desiredHealthy": 25 - allowed,
            "expectedPods": 25,
            "observedGeneration": 1,
        },
    }


def _daemon_set() -> dict[str, Any]:
    template = _template("agent", 100, 128, "quay.io/prometheus/node-exporter:v1")
    template["spec"]["tolerations"] = [{"operator": "Exists"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _meta("DaemonSet", "agent", "kube-system"),
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    }
