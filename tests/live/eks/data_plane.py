"""Data plane of EKS clusters: node groups, Fargate profiles, CoreDNS and the Pod Identity agent."""

import json
from typing import Any

from tests.live.eks.api import ApiClient
from tests.live.eks.kubelets import Kubelets, Raw, node_of
from tests.support.moto.eks import Eks

_RESOURCES = {"cpu": "4", "memory": "15Gi", "pods": "58", "ephemeral-storage": "18Gi"}
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_COMPUTE_TYPE = "eks.amazonaws.com/compute-type"
_DNS = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
_DNS_SERVICE = "/api/v1/namespaces/kube-system/services/kube-dns"
_AGENT = "eks-pod-identity-agent"
_AGENT_PATH = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{_AGENT}"


class DataPlane:
    """Data plane of an account's clusters; they use one API server in turn."""

    def __init__(self, eks: Eks, api: ApiClient, kubelets: Kubelets) -> None:
        self._eks = eks
        self._api = api
        self._kubelets = kubelets
        self._dns = ""
        self._has_agent = False
        self._nodes: set[str] = set()
        """Names of the nodes of node groups and Fargate profiles."""

    def reconcile(self, pods: list[Raw]) -> None:
        """Create and delete nodes, CoreDNS and the agent to match EKS."""
        desired: dict[str, tuple[Raw, dict[str, str]]] = {}
        dns: Raw | None = None
        wants_agent = False
        for cluster, parts in self._eks.seen().values():
            for group in parts["node-groups"].values():
                desired |= _node_group_nodes(group, cluster["region"])
            for profile in parts["fargate-profiles"].values():
                desired |= self._fargate_nodes(profile, pods, f"{cluster['region']}a")
            dns = parts["addons"].get("coredns", dns)
            wants_agent |= _AGENT in parts["addons"]
        for node, resources in desired.values():
            self._kubelets.join(node, resources)
        for name in self._nodes - desired.keys():
            self._kubelets.leave(name)
        self._nodes = set(desired)
        self._reconcile_dns(dns)
        if wants_agent and not self._has_agent:
            self._api.request("APPLY", _AGENT_PATH, _agent())
        if self._has_agent and not wants_agent:
            self._api.delete(_AGENT_PATH)
        self._has_agent = wants_agent

    def _fargate_nodes(self, profile: Raw, pods: list[Raw], zone: str) -> dict[str, tuple[Raw, Any]]:
        """Return a node for each pod of a profile, and bind pending pods to theirs."""
        namespaces = {selector["namespace"] for selector in profile["selectors"]}
        nodes: dict[str, tuple[Raw, Any]] = {}
        for pod in pods:
            meta = pod["metadata"]
            name = f"fargate-{meta['name']}"
            bound = pod["spec"].get("nodeName")
            if meta["namespace"] not in namespaces or bound not in (None, name):
                continue
            if (meta.get("annotations") or {}).get(_COMPUTE_TYPE) == "ec2":
                continue
            taint = {"key": _COMPUTE_TYPE, "value": "fargate", "effect": "NoSchedule"}
            labels = {_COMPUTE_TYPE: "fargate"}
            node = node_of(name, zone=zone, labels=labels, spec={"taints": [taint]})
            nodes[name] = node, _RESOURCES
            if bound is None and not meta.get("deletionTimestamp"):
                self._kubelets.join(node, _RESOURCES)
                target = {"apiVersion": "v1", "kind": "Node", "name": name}
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
                binding = {"metadata": {"name": meta["name"]}, "target": target}
                self._api.request("POST", path, binding)
        return nodes

    def _reconcile_dns(self, addon: Raw | None) -> None:
        settings = "" if addon is None else addon.get("configurationValues") or "{}"
        if settings == self._dns:
            return
        if settings:
            self._api.request("APPLY", _DNS, _coredns(json.loads(settings)))
            self._api.request("APPLY", _DNS_SERVICE, _dns_service())
        else:
            self._api.delete(_DNS)
            self._api.delete(_DNS_SERVICE)
        self._dns = settings


def _node_group_nodes(group: Raw, region: str) -> dict[str, tuple[Raw, dict[str, str]]]:
    nodes: dict[str, tuple[Raw, dict[str, str]]] = {}
    labels = {**(group.get("labels") or {}), "eks.amazonaws.com/nodegroup": group["nodegroupName"]}
    taints = [{**taint, "effect": _EFFECTS[taint["effect"]]} for taint in group.get("taints") or ()]
    for number in range(group["scalingConfig"]["desiredSize"]):
        name = f"{group['nodegroupName']}-{number}"
        zone = f"{region}{'abc'[number % 3]}"
        nodes[name] = node_of(name, zone=zone, labels=labels, spec={"taints": taints}), _RESOURCES
    return nodes


def _coredns(settings: Raw) -> Raw:
    labels = {"k8s-app": "kube-dns", "eks.amazonaws.com/component": "coredns"}
    meta: Raw = {"labels": labels}
    if settings.get("computeType") != "Fargate":
        meta["annotations"] = {_COMPUTE_TYPE: "ec2"}
    image = "registry.example.com/coredns:1"
    container = {"name": "coredns", "image": image, "resources": {"requests": {"cpu": "100m"}}}
    critical = {"key": "CriticalAddonsOnly", "operator": "Exists"}
    pod = {
        "tolerations": [critical, *settings.get("tolerations", ())],
        "priorityClassName": "system-cluster-critical",
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": "kube-system", "labels": labels},
        "spec": {
            "replicas": settings.get("replicaCount", 2),
            "selector": {"matchLabels": labels},
            "template": {"metadata": meta, "spec": pod},
        },
    }


def _agent() -> Raw:
    labels = {"app.kubernetes.io/name": _AGENT}
    pod = {
        "hostNetwork": True,
        "containers": [{"name": _AGENT, "image": f"registry.example.com/{_AGENT}:1"}],
        # Like the add-on's: every node except Fargate's.
        "affinity": {"nodeAffinity": _not_on_fargate()},
        "tolerations": [{"operator": "Exists"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _AGENT, "namespace": "kube-system", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _not_on_fargate() -> Raw:
    expression = {"key": _COMPUTE_TYPE, "operator": "NotIn", "values": ["fargate"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _dns_service() -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"selector": {"k8s-app": "kube-dns"}, "ports": [{"port": 53, "protocol": "UDP"}]},
    }
