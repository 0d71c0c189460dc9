"""Endpoints of a Service: the addresses, conditions and ports of its pods."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.simulator.apiserver.conditions import get_conditions
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field, thaw
from dovetail.simulator.controllermanager.owner_references import is_deleting

Endpoint = dict[str, Any]
"""An endpoint of an EndpointSlice, as JSON."""
Ports = list[dict[str, Any]]
"""The ports of an EndpointSlice, as JSON."""
MAX_ENDPOINTS: Final = 100
"""Endpoints of one slice; kube-controller-manager's default."""


class SliceChanges(msgspec.Struct):
    """Contents of existing slices by name, contents of new ones, and slices to delete."""

    updates: dict[str, list[Endpoint]] = msgspec.field(default_factory=dict)
    creations: list[list[Endpoint]] = msgspec.field(default_factory=list)
    deletions: list[str] = msgspec.field(default_factory=list)


def has_endpoint(pod: Object) -> bool:
    """Return True if a pod has an address and its containers have not exited for good."""
    status = pod.get("status") or {}
    return bool(status.get("podIP")) and status.get("phase") not in ("Succeeded", "Failed")


def encode_endpoint(service: Object, pod: Object, zone: str) -> Endpoint:
    """Return the endpoint of a pod of a Service."""
    meta = pod["metadata"]
    serving = any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in get_conditions(pod)
    )
    terminating = is_deleting(pod)
    published = bool(get_field(service, "spec", "publishNotReadyAddresses"))
    endpoint: Endpoint = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {
            "ready": published or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "nodeName": pod["spec"].get("nodeName", ""),
        "targetRef": {
            "kind": "Pod",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        },
    }
    if zone:
        endpoint["zone"] = zone
    hostname = pod["spec"].get("hostname")
    if hostname and pod["spec"].get("subdomain") == service["metadata"]["name"]:
        endpoint["hostname"] = hostname
    return endpoint


def resolve_ports(service: Object, pod: Object) -> Ports:
    """Return a Service's ports on a pod; named ports that the pod lacks are left out."""
    ports: Ports = []
    for port in get_field(service, "spec", "ports") or ():
        protocol = port.get("protocol", "TCP")
        number = _resolve_port(port.get("targetPort") or port["port"], protocol, pod)
        if number is None:
            continue
        encoded = {"name": port.get("name", ""), "port": number, "protocol": protocol}
        if port.get("appProtocol"):
            encoded["appProtocol"] = port["appProtocol"]
        ports.append(encoded)
    return ports


def _resolve_port(target: int | str, protocol: str, pod: Object) -> int | None:
    if isinstance(target, int):
        return target
    sidecars = (
        container
        for container in pod["spec"].get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    )
    for container in (*(pod["spec"].get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("name") == target and port.get("protocol", "TCP") == protocol:
                number: int = port["containerPort"]
                return number
    return None


def divide_endpoints(slices: Sequence[Object], endpoints: Iterable[Endpoint]) -> SliceChanges:
    """Distribute endpoints over slices with the same ports.

    An endpoint stays in its slice; new ones fill slices that have room. Slices that become
    empty are deleted.
    """
    wanted = {_target(endpoint): endpoint for endpoint in endpoints}
    contents: dict[str, list[Endpoint]] = {}
    for item in slices:
        targets = (_target(endpoint) for endpoint in item.get("endpoints") or ())
        contents[item["metadata"]["name"]] = [wanted.pop(key) for key in targets if key in wanted]
    added = list(wanted.values())
    for kept in contents.values():
        room = MAX_ENDPOINTS - len(kept)
        kept += added[:room]
        del added[:room]
    changes = SliceChanges()
    for item in slices:
        name = item["metadata"]["name"]
        if not contents[name]:
            changes.deletions.append(name)
        elif contents[name] != thaw(item.get("endpoints") or []):
            changes.updates[name] = contents[name]
    changes.creations = [
        added[start : start + MAX_ENDPOINTS] for start in range(0, len(added), MAX_ENDPOINTS)
    ]
    return changes


def _target(endpoint: Mapping[str, Any]) -> str:
    uid: str = (endpoint.get("targetRef") or {}).get("uid", "")
    return uid
