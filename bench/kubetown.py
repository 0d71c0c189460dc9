"""A cluster of any size as objects: nodes that are full, and pods that run on them."""

from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS, NODES, PODS, Resource
from tests.live.replicas import NODE_CLASS, a_pool

WORKLOADS = 500
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
Made = tuple[Resource, dict[str, Any], dict[str, Any]]
"""Kind, object, and its status."""


def everything(nodes: int, pods: int) -> Iterator[Made]:
    """Yield it all, in the order to create it."""
    yield EC2_NODE_CLASSES, NODE_CLASS, {}
    yield NODE_POOLS, a_pool(), {}
    for number in range(nodes):
        yield NODES, *_node(number)
    for number in range(pods):
        yield PODS, *_pod(number, node=number % nodes)


def copies(
    node: dict[str, Any], pod: dict[str, Any], *, nodes: int, pods: int
) -> dict[str, dict[str, Any]]:
    """Return all but the first node and pod as etcd has them, like those that are there."""
    made: dict[str, dict[str, Any]] = {}
    for resource, obj, status in everything(nodes, pods):
        if resource not in (NODES, PODS):
            continue
        pattern, folder = (node, "minions") if resource is NODES else (pod, "pods/default")
        meta, name = pattern["metadata"], obj["metadata"]["name"]
        if name != meta["name"]:
            own = {**obj["metadata"], "uid": str(uuid5(NAMESPACE_URL, name))}
            made[f"/registry/{folder}/{name}"] = {
                **pattern,
                "metadata": {**meta, **own, "resourceVersion": None},
                "spec": {**pattern["spec"], **_where(obj["spec"])},
                "status": {**pattern["status"], **status},
            }
    return made


def _where(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: spec[key] for key in ("nodeName", "providerID") if key in spec}


def a_waiting_pod(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a pod that finds no room, and its status."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return _written(name, {}), {"phase": "Pending", "conditions": [condition]}


def _node(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    name = f"ip-10-0-{number >> 8}-{number & 255}.ec2.internal"
    zone = ZONES[number % len(ZONES)]
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": "us-east-1",
        "node.kubernetes.io/instance-type": "m5.2xlarge",
    }
    room = {"cpu": "5", "memory": "30Gi", "pods": "58"}
    status = {
        "capacity": room,
        "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"osImage": "Dovetail sandbox"},
    }
    spec = {"providerID": f"aws:///{zone}/i-{number:017x}"}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}, status


def _pod(number: int, *, node: int) -> tuple[dict[str, Any], dict[str, Any]]:
    workload = f"app-{number % WORKLOADS}"
    pod = _written(f"{workload}-{number}", {"app": workload, "pod-template-hash": "5d4f8c7b9"})
    pod["spec"]["nodeName"] = f"ip-10-0-{node >> 8}-{node & 255}.ec2.internal"
    started = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {
        "phase": "Running",
        "podIP": f"10.64.{number >> 8 & 255}.{number & 255}",
        "conditions": [
            {"type": one, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for one in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {"name": "main", "image": "example", "imageID": "x", "ready": True, "restartCount": 0,
             "state": started}
        ],
    }  # fmt: skip
    return pod, status


def _written(name: str, labels: dict[str, str]) -> dict[str, Any]:
    requests = {"cpu": "500m", "memory": "256Mi"}
    container = {
        "name": "main",
        "image": "registry.example/team/app:v1.2.3",
        "resources": {"requests": requests, "limits": {"memory": "512Mi"}},
        "env": [{"name": f"SETTING_{number}", "value": "x" * 20} for number in range(8)],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
    }
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 30},
    }
