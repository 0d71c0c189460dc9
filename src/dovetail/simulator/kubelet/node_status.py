"""Node objects as a kubelet writes them: at registration, then Ready."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint, TaintEffect
from dovetail.model.labels import ARCH, HOSTNAME, NORMALIZED_LABELS, OS
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.timestamps import format_timestamp
from dovetail.simulator.instance import KUBERNETES_VERSION, BootedInstance

NOT_READY: Final = Taint("node.kubernetes.io/not-ready", TaintEffect.NO_SCHEDULE)
OS_IMAGE: Final = "Dovetail sandbox"
"""Distinguishes simulated nodes from real ones."""
_ANNOTATIONS: Final = {
    "node.alpha.kubernetes.io/ttl": "0",
    "volumes.kubernetes.io/controller-managed-attach-detach": "true",
}
_PRESSURES: Final = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
_NO_NETWORK: Final = "container runtime network not ready: the network plugin has not started"


def is_extended_resource(resource: str) -> bool:
    """Return True if a device plugin, not the kubelet, reports the resource."""
    return "/" in resource


def encode_node(
    instance: BootedInstance, *, now: datetime, version: str = KUBERNETES_VERSION
) -> dict[str, Any]:
    """Return the node at registration: not Ready, without extended resources."""
    taints = [*instance.taints, NOT_READY]
    return {
        "metadata": {"name": instance.name, "labels": _labels(instance), "annotations": _ANNOTATIONS},
        "spec": {"providerID": instance.provider_id, "taints": [_encode_taint(taint) for taint in taints]},
        "status": {
            **encode_resources(instance, with_devices=False),
            "conditions": encode_conditions(ready=False, now=now),
            "addresses": [
                {"type": "InternalIP", "address": instance.address},
                {"type": "InternalDNS", "address": instance.name},
                {"type": "Hostname", "address": instance.name},
            ],
            "nodeInfo": _info(instance, version),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }


def encode_resources(instance: BootedInstance, *, with_devices: bool) -> dict[str, Any]:
    """Return capacity and allocatable, as far as they are reported yet."""
    return {
        "capacity": _reported(instance.capacity, with_devices).to_quantities(),
        "allocatable": _reported(instance.allocatable, with_devices).to_quantities(),
    }


def encode_conditions(*, ready: bool, now: datetime) -> list[dict[str, str]]:
    """Return the conditions of a node that just became Ready, or is not yet."""
    pressures = [
        _condition(kind, "False", *why, now=format_timestamp(now)) for kind, why in _PRESSURES.items()
    ]
    if ready:
        state = ("True", "KubeletReady", "kubelet is posting ready status")
    else:
        state = ("False", "KubeletNotReady", _NO_NETWORK)
    return [*pressures, _condition("Ready", *state, now=format_timestamp(now))]


def with_heartbeat(node: Object, *, now: datetime) -> dict[str, Any]:
    """Return the node with a new heartbeat time in each condition."""
    beat = {"lastHeartbeatTime": format_timestamp(now)}
    status = node["status"]
    return {
        **node,
        "status": {**status, "conditions": [{**condition, **beat} for condition in status["conditions"]]},
    }


def owner_reference(node: Object) -> dict[str, str]:
    """Return an owner reference, so that the object is deleted with the node."""
    meta = node["metadata"]
    return {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}


def without_taint(taints: Iterable[Object], gone: Taint) -> list[Object]:
    """Return encoded taints without one."""
    return [taint for taint in taints if (taint["key"], taint["effect"]) != (gone.key, gone.effect)]


def _labels(instance: BootedInstance) -> dict[str, str]:
    labels = {HOSTNAME: instance.name, ARCH: "amd64", OS: "linux", **instance.labels}
    # Nodes still have the deprecated labels, and old manifests select by them.
    old = {alias: labels[key] for alias, key in NORMALIZED_LABELS.items() if key in labels}
    return {**old, **labels}


def _reported(held: Resources, with_devices: bool) -> Resources:
    return Resources({k: v for k, v in held.items() if with_devices or not is_extended_resource(k)})


def _encode_taint(taint: Taint) -> dict[str, str]:
    written = {"key": taint.key, "effect": str(taint.effect)}
    return {**written, "value": taint.value} if taint.value else written


def _condition(kind: str, status: str, reason: str, message: str, *, now: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def _info(instance: BootedInstance, version: str) -> dict[str, str]:
    return {
        "architecture": instance.labels.get(ARCH, "amd64"),
        "operatingSystem": instance.labels.get(OS, "linux"),
        "osImage": OS_IMAGE,
        "kernelVersion": "6.12.0",
        "containerRuntimeVersion": "containerd://2.1.0",
        "kubeletVersion": version,
        "kubeProxyVersion": "",
        "machineID": instance.provider_id.rpartition("/")[2],
        "systemUUID": instance.provider_id.rpartition("/")[2],
        "bootID": instance.provider_id.rpartition("/")[2],
    }
