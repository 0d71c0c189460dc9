"""Node objects as a kubelet writes them: registering, then ready."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Effect, Taint
from dovetail.model.labels import ALIASES, ARCH, HOSTNAME, OS
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.timestamps import timestamp
from dovetail.simulator.instance import Machine

NOT_READY: Final = Taint("node.kubernetes.io/not-ready", Effect.NO_SCHEDULE)
OS_IMAGE: Final = "Dovetail sandbox"
"""By which virtual nodes are told from real ones."""
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


def is_device(resource: str) -> bool:
    """Tell whether a device plugin, not the kubelet, knows how much there is of it."""
    return "/" in resource


def new_node(machine: Machine, *, now: datetime) -> dict[str, Any]:
    """Return the node as it registers: not ready, without its devices."""
    taints = [*machine.taints, NOT_READY]
    return {
        "metadata": {
            "name": machine.name,
            "labels": _labels(machine),
            "annotations": _ANNOTATIONS,
        },
        "spec": {"providerID": machine.provider_id, "taints": [_taint(one) for one in taints]},
        "status": {
            **amounts(machine, with_devices=False),
            "conditions": conditions(ready=False, now=now),
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "InternalDNS", "address": machine.name},
                {"type": "Hostname", "address": machine.name},
            ],
            "nodeInfo": _info(machine),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }


def amounts(machine: Machine, *, with_devices: bool) -> dict[str, Any]:
    """Return capacity and allocatable as far as they are known."""
    return {
        "capacity": _known(machine.capacity, with_devices).spelled(),
        "allocatable": _known(machine.allocatable, with_devices).spelled(),
    }


def conditions(*, ready: bool, now: datetime) -> list[dict[str, str]]:
    """Return the conditions of a node that has just become ready, or is not yet."""
    told = [_condition(kind, "False", *why, now=timestamp(now)) for kind, why in _PRESSURES.items()]
    if ready:
        state = ("True", "KubeletReady", "kubelet is posting ready status")
    else:
        state = ("False", "KubeletNotReady", _NO_NETWORK)
    return [*told, _condition("Ready", *state, now=timestamp(now))]


def beaten(node: Object, *, now: datetime) -> dict[str, Any]:
    """Return the node with a fresh heartbeat in each of its conditions."""
    beat = {"lastHeartbeatTime": timestamp(now)}
    status = node["status"]
    return {
        **node,
        "status": {**status, "conditions": [{**one, **beat} for one in status["conditions"]]},
    }


def owner(node: Object) -> dict[str, str]:
    """Return the reference by which what belongs to a node goes with it."""
    meta = node["metadata"]
    return {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}


def without_taint(taints: Iterable[Object], gone: Taint) -> list[Object]:
    """Return taints as on the wire, without one."""
    return [one for one in taints if (one["key"], one["effect"]) != (gone.key, gone.effect)]


def _labels(machine: Machine) -> dict[str, str]:
    labels = {HOSTNAME: machine.name, ARCH: "amd64", OS: "linux", **machine.labels}
    # Nodes still carry the older spellings, and old manifests still select by them.
    old = {alias: labels[key] for alias, key in ALIASES.items() if key in labels}
    return {**old, **labels}


def _known(held: Resources, with_devices: bool) -> Resources:
    return Resources({k: v for k, v in held.items() if with_devices or not is_device(k)})


def _taint(one: Taint) -> dict[str, str]:
    written = {"key": one.key, "effect": str(one.effect)}
    return {**written, "value": one.value} if one.value else written


def _condition(kind: str, status: str, reason: str, message: str, *, now: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def _info(machine: Machine) -> dict[str, str]:
    return {
        "architecture": machine.labels.get(ARCH, "amd64"),
        "operatingSystem": machine.labels.get(OS, "linux"),
        "osImage": OS_IMAGE,
        "kernelVersion": "6.12.0",
        "containerRuntimeVersion": "containerd://2.1.0",
        "kubeletVersion": "v1.34.0",
        "kubeProxyVersion": "",
        "machineID": machine.provider_id.rpartition("/")[2],
        "systemUUID": machine.provider_id.rpartition("/")[2],
        "bootID": machine.provider_id.rpartition("/")[2],
    }
