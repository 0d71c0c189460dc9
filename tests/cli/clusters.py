"""A live cluster as ``kubectl get … -o json`` dumps it, with server fields."""

import json
from pathlib import Path
from typing import Any

Raw = dict[str, Any]

ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
DAEMONS = ("aws-node", "kube-proxy", "ebs-csi-node")
WEB_REQUESTS = {"cpu": "500m", "memory": "1Gi"}


def metadata(name: str, namespace: str = "", owner: tuple[str, str] | None = None, **more: Any) -> Raw:
    """Return metadata with the fields that an API server adds."""
    written: Raw = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "4711",
        "creationTimestamp": "2026-08-01T00:00:00Z",
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
        **more,
    }
    if namespace:
        written["namespace"] = namespace
    if owner:
        kind, owned_by = owner
        written["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": kind, "name": owned_by, "uid": "u", "controller": True}
        ]
    return written


def a_spec(requests: Raw, **more: Any) -> Raw:
    return {"containers": [{"name": "c", "image": "c", "resources": {"requests": requests}}], **more}


def a_live_node(number: int, *, managed: bool) -> Raw:
    """An m5.xlarge: Karpenter's own, or one of a managed node group."""
    zone, name = ZONES[number % 3], node_name(number)
    ours = {"karpenter.sh/nodepool": "general", "karpenter.sh/initialized": "true"}
    theirs = {"eks.amazonaws.com/nodegroup": "system"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": "us-east-1",
        "node.kubernetes.io/instance-type": "m5.xlarge",
        **(ours if managed else theirs),
    }
    room = {"cpu": "3920m", "memory": "15056732Ki", "pods": "58"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, labels=labels),
        "spec": {"providerID": f"aws:///{zone}/i-{number:017x}"},
        "status": {
            "capacity": {"cpu": "4", "memory": "16073564Ki", "pods": "58"},
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def node_name(number: int) -> str:
    return f"ip-10-0-{number}-1.ec2.internal"


def a_claim_of(number: int) -> Raw:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": metadata(f"general-{number}", labels={"karpenter.sh/nodepool": "general"}),
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {
            "nodeName": node_name(number),
            "providerID": f"aws:///{ZONES[number % 3]}/i-{number:017x}",
            "conditions": [{"type": name, "status": "True"} for name in ("Registered", "Initialized")],
        },
    }


def a_running_pod(name: str, node: int, owner: tuple[str, str], spec: Raw, **meta: Any) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, owner=owner, **meta),
        "spec": {**spec, "nodeName": node_name(node)},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def daemon_pods(node: int) -> list[Raw]:
    """Return the DaemonSet pods of a node, bound by name as the controller does."""
    field = {"key": "metadata.name", "operator": "In", "values": [node_name(node)]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    tied = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    spec = a_spec({"cpu": "25m", "memory": "64Mi"}, affinity=tied)
    return [
        a_running_pod(f"{name}-{node}", node, ("DaemonSet", name), spec, namespace="kube-system")
        for name in DAEMONS
    ]


def a_daemon_set(name: str) -> Raw:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": a_spec({"cpu": "25m", "memory": "64Mi"}, tolerations=[{"operator": "Exists"}]),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(name, "kube-system"),
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }


def web(replicas: int, requests: Raw | None = None) -> Raw:
    """The Deployment, as a user has it in a file."""
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": a_spec(requests or WEB_REQUESTS)},
        },
    }


def live_web(nodes: int, each: int) -> list[Raw]:
    """The Deployment, its ReplicaSet and its pods, ``each`` on every node."""
    deployment = web(nodes * each)
    deployment["metadata"] = metadata("web", "shop")
    labels = {"app": "web", "pod-template-hash": "5d8f9c"}
    replica_set = {
        **deployment,
        "kind": "ReplicaSet",
        "metadata": metadata("web-5d8f9c", "shop", ("Deployment", "web"), labels=labels),
        "spec": {
            "replicas": nodes * each,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": a_spec(WEB_REQUESTS)},
        },
    }
    owner, spec = ("ReplicaSet", "web-5d8f9c"), a_spec(WEB_REQUESTS)
    pods = [
        a_running_pod(f"web-5d8f9c-{i}-{k}", i, owner, spec, namespace="shop", labels=labels)
        for i in range(nodes)
        for k in range(each)
    ]
    return [deployment, replica_set, *pods]


def pool_and_class() -> list[Raw]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    only = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]},
    ]
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    subnets = [{"id": f"subnet-{z}", "zone": z, "zoneID": f"use1-az{i}"} for i, z in enumerate(ZONES)]
    return [
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": metadata("general"),
            "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": only}}},
            "status": ready,
        },
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": metadata("default"),
            "spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "nodes"},
            "status": {"subnets": subnets, **ready},
        },
    ]


def a_volume_in(zone: str, claim: str) -> list[Raw]:
    """A bound claim of namespace shop and its EBS volume."""
    term = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata(claim, "shop"),
            "spec": {"volumeName": f"pv-{claim}", "storageClassName": "gp3"},
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": metadata(f"pv-{claim}"),
            "spec": {
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            },
        },
    ]


def written(path: Path, *objects: Raw) -> str:
    """Write a List to a file as kubectl does; returns its name."""
    whole = {"apiVersion": "v1", "items": list(objects), "kind": "List"}
    path.write_text(json.dumps(whole, indent=4))
    return str(path)
