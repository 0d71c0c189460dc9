"""A healthy cluster: two nodes of a managed node group and one of a NodePool."""

from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.doctor.api_resources import CRDS, FLOW_SCHEMAS, LIMIT_RANGES, SERVICE_MONITORS
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from tests.doctor.account import CLUSTER, DISCOVERY, NODES, REGION

Raw = dict[str, Any]
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
"""Later than all timestamps of moto, which uses the real time."""
EXTRA_KINDS = (CRDS, FLOW_SCHEMAS, LIMIT_RANGES, SERVICE_MONITORS)
"""Kinds that the simulated API server does not have."""


def ago(**span: float) -> str:
    return f"{NOW - timedelta(**span):%Y-%m-%dT%H:%M:%SZ}"


def condition(kind: str, status: str = "True", *, since: str = "", **more: str) -> Raw:
    return {"type": kind, "status": status, "lastTransitionTime": since or ago(hours=5), **more}


class ServedObjects:
    """Objects behind an API server, with the kinds that the simulated one lacks."""

    def __init__(self) -> None:
        self.api = ApiServer(now=lambda: NOW)
        self.extra_objects: dict[Resource, list[Raw]] = {kind: [] for kind in EXTRA_KINDS}
        self.metrics = ["karpenter_build_info 1"]

    def put(self, kind: Resource, obj: Raw) -> None:
        """Create an object with its status."""
        namespace = obj["metadata"].get("namespace", "")
        names = {item["metadata"]["name"] for item in self.api.list(kinds.NAMESPACES).items}
        if namespace and namespace not in names:
            self.api.create(kinds.NAMESPACES, {"metadata": {"name": namespace}})
        created = self.api.create(kind, obj, namespace)
        if "status" in obj and kind.has_status:
            self.api.update(kind, {**thaw(created), "status": obj["status"]}, subresource="status")

    def change(self, kind: Resource, name: str, edit: Callable[[Raw], None], namespace: str = "") -> None:
        """Update an object with its status."""
        obj = thaw(self.api.get(kind, name, namespace))
        edit(obj)
        status = obj.get("status")
        updated = self.api.update(kind, obj)
        if status is not None and kind.has_status:
            self.api.update(kind, {**thaw(updated), "status": status}, subresource="status")


class Cluster(ServedObjects):
    """Objects of the cluster; tests break single ones."""

    def __init__(self, instance: str) -> None:
        super().__init__()
        self.instance = instance
        for number in (1, 2):
            self.put(kinds.NODES, a_node(f"managed-{number}"))
        self.put(kinds.NODES, a_node("launched", {"karpenter.sh/nodepool": "default"}))
        self._controller()
        self._dns()
        self.put(kinds.DAEMON_SETS, a_daemon_set("aws-node"))
        self.put(kinds.DAEMON_SETS, a_daemon_set("eks-pod-identity-agent"))
        self.put(kinds.EC2_NODE_CLASSES, a_class())
        self.put(kinds.NODE_POOLS, a_pool())
        self.put(kinds.NODE_CLAIMS, a_claim("default-1", instance, "launched"))
        self.put(kinds.PODS, a_pod("web", "shop", "launched", {"app": "web"}))
        self.put(kinds.POD_DISRUPTION_BUDGETS, a_budget(allowed=1))
        gp3 = {"metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com"}
        self.put(kinds.STORAGE_CLASSES, gp3)
        self.extra_objects[CRDS] = [_definition(definition.encode()) for definition in DEFINITIONS]

    def _controller(self) -> None:
        account = {"metadata": {"name": "karpenter", "namespace": "kube-system"}}
        self.put(kinds.SERVICE_ACCOUNTS, account)
        self.put(kinds.DEPLOYMENTS, a_controller())
        labels = {"app.kubernetes.io/name": "karpenter"}
        for number in (1, 2):
            pod = a_pod(f"karpenter-{number}", "kube-system", f"managed-{number}", labels)
            self.put(kinds.PODS, pod)

    def _dns(self) -> None:
        labels = {"k8s-app": "kube-dns"}
        self.put(kinds.DEPLOYMENTS, a_deployment("coredns", "kube-system", labels))
        for number in (1, 2):
            pod = a_pod(f"coredns-{number}", "kube-system", f"managed-{number}", labels)
            self.put(kinds.PODS, pod)

    def pool(self, edit: Callable[[Raw], None]) -> None:
        self.change(kinds.NODE_POOLS, "default", lambda pool: edit(pool["spec"]))

    def node_class(self, edit: Callable[[Raw], None]) -> None:
        self.change(kinds.EC2_NODE_CLASSES, "default", edit)

    def controller(self, edit: Callable[[Raw], None]) -> None:
        """Update the pod spec of the controller."""
        self.change(
            kinds.DEPLOYMENTS, "karpenter", lambda obj: edit(obj["spec"]["template"]["spec"]), "kube-system"
        )

    def set(self, variable: str, value: str | None) -> None:
        """Set an environment variable of the controller; None removes it."""

        def edit(spec: Raw) -> None:
            container = spec["containers"][0]
            kept = [entry for entry in container["env"] if entry["name"] != variable]
            added = [] if value is None else [{"name": variable, "value": value}]
            container["env"] = [*kept, *added]

        self.controller(edit)

    def crd(self, name: str) -> Raw:
        return next(crd for crd in self.extra_objects[CRDS] if crd["metadata"]["name"] == name)


def a_node(name: str, labels: dict[str, str] | None = None) -> Raw:
    return {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/region": REGION, **(labels or {})}},
        "status": {"conditions": [condition("Ready")], "allocatable": {"cpu": "2"}},
    }


def a_deployment(name: str, namespace: str, labels: dict[str, str], **spec: Any) -> Raw:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def a_controller(namespace: str = "kube-system") -> Raw:
    labels = {"app.kubernetes.io/name": "karpenter"}
    env = {
        "CLUSTER_NAME": CLUSTER,
        "AWS_REGION": REGION,
        "INTERRUPTION_QUEUE": CLUSTER,
        "FEATURE_GATES": "ReservedCapacity=true,SpotToSpotConsolidation=true",
    }
    container = {
        "name": "controller",
        "image": "registry.example.com/karpenter/controller:1.12.0",
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
    }
    deployment = a_deployment("karpenter", namespace, labels, serviceAccountName="karpenter")
    deployment["metadata"]["labels"] = {**labels, "app.kubernetes.io/version": "1.12.0"}
    deployment["spec"]["template"]["spec"]["containers"] = [container]
    return deployment


def a_daemon_set(name: str, **env: str) -> Raw:
    daemon_set = a_deployment(name, "kube-system", {"k8s-app": name})
    del daemon_set["spec"]["replicas"]
    container = daemon_set["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": key, "value": value} for key, value in env.items()]
    return daemon_set


def a_pod(name: str, namespace: str, node: str, labels: dict[str, str]) -> Raw:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "100m"}}}
    spec: Raw = {"containers": [container]}
    status: Raw = {"phase": "Pending"}
    if node:
        spec["nodeName"] = node
        status = {"phase": "Running", "conditions": [condition("Ready")]}
    meta = {"name": name, "namespace": namespace, "labels": labels}
    return {"metadata": meta, "spec": spec, "status": status}


def a_class() -> Raw:
    return {
        "metadata": {"name": "default"},
        "spec": {
            "role": NODES,
            "amiSelectorTerms": [{"alias": "al2023@v20260501"}],
            "subnetSelectorTerms": [{"tags": DISCOVERY}],
            "securityGroupSelectorTerms": [{"tags": DISCOVERY}],
        },
        "status": {
            "subnets": [{"id": "subnet-1", "zone": f"{REGION}a"}],
            "securityGroups": [{"id": "sg-1"}],
            "conditions": [condition("ValidationSucceeded"), condition("Ready")],
        },
    }


def a_pool(name: str = "default") -> Raw:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    values_by_key = [
        ("karpenter.sh/capacity-type", ["spot", "on-demand"]),
        ("karpenter.k8s.aws/instance-category", ["c", "m", "r"]),
        ("kubernetes.io/arch", ["amd64"]),
    ]
    requirements = [{"key": key, "operator": "In", "values": values} for key, values in values_by_key]
    return {
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements}},
            "limits": {"cpu": "100"},
            "disruption": {"consolidateAfter": "5m", "budgets": [{"nodes": "20%"}]},
        },
    }


def a_claim(name: str, instance: str, node: str) -> Raw:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"nodeClassRef": reference, "requirements": [], "resources": {"requests": {}}},
        "status": {
            "nodeName": node,
            "providerID": f"aws:///{REGION}a/{instance}",
            "conditions": [condition("Registered"), condition("Initialized")],
        },
    }


def a_budget(*, allowed: int) -> Raw:
    return {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"expectedPods": 2, "currentHealthy": 2, "disruptionsAllowed": allowed},
    }


def _definition(obj: Raw) -> Raw:
    owner = {"meta.helm.sh/release-name": "karpenter-crd", "meta.helm.sh/release-namespace": "kube-system"}
    meta = {**obj["metadata"], "annotations": {**obj["metadata"]["annotations"], **owner}}
    return {**deepcopy(obj), "metadata": meta, "status": {"storedVersions": ["v1"]}}
