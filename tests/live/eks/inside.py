"""What EKS does inside its clusters: node groups join, Fargate takes pods, CoreDNS runs."""

import json
from typing import Any

from tests.live.eks.api import Api
from tests.live.eks.kubelets import Kubelets, Raw, node_of
from tests.support.moto.eks import Eks

_AMOUNTS = {"cpu": "4", "memory": "15Gi", "pods": "58", "ephemeral-storage": "18Gi"}
_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}
_COMPUTE = "eks.amazonaws.com/compute-type"
_DNS = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
_DNS_SERVICE = "/api/v1/namespaces/kube-system/services/kube-dns"


class Inside:
    """The inside of all clusters of an account: they share one API server, one after another."""

    def __init__(self, eks: Eks, api: Api, kubelets: Kubelets) -> None:
        self._eks = eks
        self._api = api
        self._kubelets = kubelets
        self._dns = ""
        self._nodes: set[str] = set()
        """Those that are here because EKS has them."""

    def look(self, pods: list[Raw]) -> None:
        """Do what is to be done now."""
        wanted: dict[str, tuple[Raw, dict[str, str]]] = {}
        dns: Raw | None = None
        for cluster, parts in self._eks.seen().values():
            for group in parts["node-groups"].values():
                wanted |= _members(group, cluster["region"])
            for profile in parts["fargate-profiles"].values():
                wanted |= self._taken(profile, pods, f"{cluster['region']}a")
            dns = parts["addons"].get("coredns", dns)
        for node, amounts in wanted.values():
            self._kubelets.join(node, amounts)
        for name in self._nodes - wanted.keys():
            self._kubelets.leave(name)
        self._nodes = set(wanted)
        self._keep_dns(dns)

    def _taken(self, profile: Raw, pods: list[Raw], zone: str) -> dict[str, tuple[Raw, Any]]:
        """Return a node for each pod of a profile; pods that have none yet are bound to theirs."""
        spaces = {one["namespace"] for one in profile["selectors"]}
        found: dict[str, tuple[Raw, Any]] = {}
        for pod in pods:
            meta = pod["metadata"]
            name = f"fargate-{meta['name']}"
            bound = pod["spec"].get("nodeName")
            if meta["namespace"] not in spaces or bound not in (None, name):
                continue
            if (meta.get("annotations") or {}).get(_COMPUTE) == "ec2":
                continue
            taint = {"key": _COMPUTE, "value": "fargate", "effect": "NoSchedule"}
            labels = {_COMPUTE: "fargate"}
            node = node_of(name, zone=zone, labels=labels, spec={"taints": [taint]})
            found[name] = node, _AMOUNTS
            if bound is None and not meta.get("deletionTimestamp"):
                self._kubelets.join(node, _AMOUNTS)
                target = {"apiVersion": "v1", "kind": "Node", "name": name}
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
                binding = {"metadata": {"name": meta["name"]}, "target": target}
                self._api.ask("POST", path, binding)
        return found

    def _keep_dns(self, addon: Raw | None) -> None:
        settings = "" if addon is None else addon.get("configurationValues") or "{}"
        if settings == self._dns:
            return
        if settings:
            self._api.ask("APPLY", _DNS, _coredns(json.loads(settings)))
            self._api.ask("APPLY", _DNS_SERVICE, _dns_service())
        else:
            self._api.delete(_DNS)
            self._api.delete(_DNS_SERVICE)
        self._dns = settings


def _members(group: Raw, region: str) -> dict[str, tuple[Raw, dict[str, str]]]:
    found: dict[str, tuple[Raw, dict[str, str]]] = {}
    labels = {**(group.get("labels") or {}), "eks.amazonaws.com/nodegroup": group["nodegroupName"]}
    taints = [{**one, "effect": _EFFECTS[one["effect"]]} for one in group.get("taints") or ()]
    for number in range(group["scalingConfig"]["desiredSize"]):
        name = f"{group['nodegroupName']}-{number}"
        zone = f"{region}{'abc'[number % 3]}"
        found[name] = node_of(name, zone=zone, labels=labels, spec={"taints": taints}), _AMOUNTS
    return found


def _coredns(settings: Raw) -> Raw:
    labels = {"k8s-app": "kube-dns", "eks.amazonaws.com/component": "coredns"}
    meta: Raw = {"labels": labels}
    if settings.get("computeType") != "Fargate":
        meta["annotations"] = {_COMPUTE: "ec2"}
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


def _dns_service() -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"selector": {"k8s-app": "kube-dns"}, "ports": [{"port": 53, "protocol": "UDP"}]},
    }
