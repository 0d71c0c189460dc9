"""Objects for the tests, as controllers and kubelets would have written them."""

from typing import Any

from dovetail.ports.api_resources import (
    DEPLOYMENTS,
    EC2_NODE_CLASSES,
    EVENTS,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
    REPLICA_SETS,
    Resource,
)
from dovetail.simulator.apiserver.options import PatchType
from tests.simulator.rest.rest_server import Cluster

INFLATE = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: inflate
spec:
  replicas: 0
  selector:
    matchLabels:
      app: inflate
  template:
    metadata:
      labels:
        app: inflate
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: inflate
          image: public.ecr.aws/eks-distro/kubernetes/pause:3.2
          resources:
            requests:
              cpu: 1
"""
POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  weight: 10
  template:
    spec:
      requirements:
        - key: kubernetes.io/arch
          operator: In
          values: [amd64]
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: default
"""
_CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
_NODE_INFO = (
    "architecture bootID containerRuntimeVersion kernelVersion kubeProxyVersion kubeletVersion "
    "machineID operatingSystem osImage systemUUID"
).split()
_READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-01-01T11:00:00Z",
}


def add(
    cluster: Cluster,
    resource: Resource,
    obj: dict[str, Any],
    *,
    status: dict[str, Any] | None = None,
    namespace: str = "default",
) -> dict[str, Any]:
    """Store an object and, through its own door, its status."""

    def write() -> dict[str, Any]:
        object_namespace = namespace if resource.namespaced else ""
        created = cluster.api.create(resource, obj, object_namespace)
        if status is None:
            return created
        name = created["metadata"]["name"]
        change = {"status": status}
        return cluster.api.patch(
            resource, name, change, PatchType.MERGE, object_namespace, subresource="status"
        )

    return cluster.run(write)


def add_node(cluster: Cluster, name: str = "ip-10-0-0-1") -> dict[str, Any]:
    return add(
        cluster,
        NODES,
        {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}},
        status={
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "58"},
            "allocatable": {"cpu": "3920m", "memory": "7Gi", "pods": "58"},
            "conditions": [_READY],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": dict.fromkeys(_NODE_INFO, "")
            | {"kubeletVersion": "v1.37.0", "osImage": "Bottlerocket OS"},
        },
    )


def add_pod(
    cluster: Cluster,
    name: str,
    *,
    node: str = "ip-10-0-0-1",
    labels: dict[str, str] | None = None,
    namespace: str = "default",
) -> dict[str, Any]:
    return add(
        cluster,
        PODS,
        {
            "metadata": {"name": name, "labels": labels or {"app": "web"}},
            "spec": {"nodeName": node, "containers": [{"name": "app", "image": "app:1"}]},
        },
        status={
            "phase": "Running",
            "podIP": "10.0.0.7",
            "conditions": [_READY],
            "containerStatuses": [
                {
                    "name": "app",
                    "ready": True,
                    "restartCount": 0,
                    "image": "app:1",
                    "imageID": "",
                    "state": {"running": {"startedAt": "2026-01-01T11:00:00Z"}},
                }
            ],
        },
        namespace=namespace,
    )


def add_event(cluster: Cluster, about: dict[str, Any], reason: str, message: str) -> None:
    meta = about["metadata"]
    namespace = meta.get("namespace", "default")
    add(
        cluster,
        EVENTS,
        {
            "metadata": {"generateName": f"{meta['name']}."},
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": meta["name"],
                "uid": meta["uid"],
                **({"namespace": meta["namespace"]} if "namespace" in meta else {}),
            },
            "reason": reason,
            "message": message,
            "type": "Normal",
            "source": {"component": "karpenter"},
            "firstTimestamp": "2026-01-01T12:00:00Z",
            "lastTimestamp": "2026-01-01T12:00:00Z",
            "count": 1,
        },
        namespace=namespace,
    )


def add_pool(cluster: Cluster) -> dict[str, Any]:
    template = {"spec": {"requirements": [], "nodeClassRef": _CLASS_REF}}
    return add(
        cluster,
        NODE_POOLS,
        {"metadata": {"name": "default"}, "spec": {"weight": 10, "template": template}},
        status={"nodes": 2, "resources": {"cpu": "8", "memory": "16Gi"}, "conditions": [_READY]},
    )


def add_claim(cluster: Cluster) -> dict[str, Any]:
    labels = {
        "node.kubernetes.io/instance-type": "m7g.large",
        "karpenter.sh/capacity-type": "spot",
        "topology.kubernetes.io/zone": "us-east-1a",
        "karpenter.sh/nodepool": "default",
    }
    return add(
        cluster,
        NODE_CLAIMS,
        {
            "metadata": {"name": "default-x7k2p", "labels": labels},
            "spec": {"requirements": [], "nodeClassRef": _CLASS_REF},
        },
        status={
            "nodeName": "ip-10-0-0-1",
            "providerID": "aws:///us-east-1a/i-0abc",
            "imageID": "ami-0abc",
            "conditions": [_READY],
        },
    )


def add_class(cluster: Cluster) -> dict[str, Any]:
    spec = {
        "role": "KarpenterNodeRole",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
    }
    status = {"conditions": [_READY]}
    return add(cluster, EC2_NODE_CLASSES, {"metadata": {"name": "default"}, "spec": spec}, status=status)


def add_deployment(cluster: Cluster, name: str = "web", *, ready: int = 2) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}
    return add(
        cluster,
        DEPLOYMENTS,
        {
            "metadata": {"name": name},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        },
        status={
            "observedGeneration": 1,
            "replicas": 2,
            "updatedReplicas": 2,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}],
        },
    )


def add_replica_set(cluster: Cluster, owner: dict[str, Any], revision: str) -> None:
    meta = owner["metadata"]
    add(
        cluster,
        REPLICA_SETS,
        {
            "metadata": {
                "name": f"{meta['name']}-{revision}",
                "labels": owner["spec"]["selector"]["matchLabels"],
                "annotations": {"deployment.kubernetes.io/revision": revision},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "name": meta["name"],
                        "uid": meta["uid"],
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "replicas": 2,
                "selector": owner["spec"]["selector"],
                "template": owner["spec"]["template"],
            },
        },
        status={"replicas": 2, "readyReplicas": 2},
    )
