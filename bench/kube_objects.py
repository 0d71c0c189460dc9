"""Kubernetes objects of a cluster of any size: full nodes and running pods."""

from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS, NODES, PODS, Resource
from tests.live.replicas import NODE_CLASS, a_pool

WORKLOADS = 500
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
ObjectWithStatus = tuple[Resource, dict[str, Any], dict[str, Any]]
"""Resource, object and its status."""


def generate_objects(nodes: int, pods: int) -> Iterator[ObjectWithStatus]:
    """Yield all objects in the order of creation."""
    yield EC2_NODE_CLASSES, NODE_CLASS, {}
    yield NODE_POOLS, a_pool(), {}
    for number in range(nodes):
        yield NODES, *_node(number)
    for number in range(pods):
        yield PODS, *_pod(number, node=number % nodes)


def copy_objects(
    node: dict[str, Any], pod: dict[str, Any], *, nodes: int, pods: int
) -> dict[str, dict[str, Any]]:
    """Return all but the first node and pod as etcd entries, as copies of existing ones."""
    objects: dict[str, dict[str, Any]] = {}
    for resource, obj, status in generate_objects(nodes, pods):
        if resource not in (NODES, PODS):
            continue
        template, folder = (node, "minions") if resource is NODES else (pod, "pods/default")
        meta, name = template["metadata"], obj["metadata"]["name"]
        if name != meta["name"]:
            metadata = {**obj["metadata"], "uid": str(uuid5(NAMESPACE_URL, name))}
            objects[f"/registry/{folder}/{name}"] = {
                **template,
                "metadata": {**meta, **metadata, "resourceVersion": None},
                "spec": {**template["spec"], **_node_fields(obj["spec"])},
                "status": {**template["status"], **status},
            }
    return objects


def _node_fields(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: spec[key] for key in ("nodeName", "providerID") if key in spec}


def unschedulable_pod(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a pending, unschedulable pod and its status."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return _pod_object(name, {}), {"phase": "Pending", "conditions": [condition]}


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
    allocatable = {"cpu": "5", "memory": "30Gi", "pods": "58"}
    status = {
        "capacity": allocatable,
        "allocatable": allocatable,
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"osImage": "Dovetail sandbox"},
    }
    spec = {"providerID": f"aws:///{zone}/i-{number:017x}"}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}, status


def _pod(number: int, *, node: int) -> tuple[dict[str, Any], dict[str, Any]]:
    workload = f"app-{number % WORKLOADS}"
    pod = _pod_object(f"{workload}-{number}", {"app": workload, "pod-template-hash": "5d4f8c7b9"})
    pod["spec"]["nodeName"] = f"ip-10-0-{node >> 8}-{node & 255}.ec2.internal"
    started = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {
        "phase": "Running",
        "podIP": f"10.64.{number >> 8 & 255}.{number & 255}",
        "conditions": [
            {"type": condition, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for condition in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {"name": "main", "image": "example", "imageID": "x", "ready": True, "restartCount": 0,
             "state": started}
        ],
    }  # fmt: skip
    return pod, status


def _pod_object(name: str, labels: dict[str, str]) -> dict[str, Any]:
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
