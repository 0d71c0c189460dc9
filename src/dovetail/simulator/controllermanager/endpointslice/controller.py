"""EndpointSlice controller: the addresses of the pods that Services select."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dovetail.model.labels import ZONE
from dovetail.ports.api_resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field, thaw
from dovetail.simulator.apiserver.storage.selectors import decode_label_selector
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.controller import Controller
from dovetail.simulator.controllermanager.endpointslice.endpoints import (
    Endpoint,
    Ports,
    divide_endpoints,
    encode_endpoint,
    has_endpoint,
    resolve_ports,
)
from dovetail.simulator.controllermanager.owner_references import controller_reference, is_deleting
from dovetail.simulator.controllermanager.ownership.selector_index import SelectorIndex
from dovetail.simulator.workqueue import start_watch

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_MANAGER: Final = "endpointslice-controller.k8s.io"
_HEADLESS: Final = "service.kubernetes.io/headless"
_NO_PORTS: Final = b"[]"


class EndpointSliceController(Controller):
    """Writes the EndpointSlices of every Service with a selector.

    Costs nothing while there is no such Service.
    """

    resource = SERVICES

    def __init__(self, context: ManagerContext) -> None:
        self._selectors = SelectorIndex()
        self._selected: set[ObjectKey] = set()
        """Services with a selector."""
        super().__init__(context)
        context.pods.add_handler(self._pod_changed)
        start_watch(context.api, context.clock, ENDPOINT_SLICES, self._slice_changed)

    def _handle_event(self, event: WatchEvent) -> None:
        super()._handle_event(event)
        if event.type is EventType.DELETED:
            return
        key, selector = object_key(event.object), _selector_of(event.object)
        if selector:
            self._selected.add(key)
            self._selectors.update(key, decode_label_selector({"matchLabels": selector}))
        else:
            self._drop_selector(key)

    def _forget(self, key: ObjectKey) -> None:
        super()._forget(key)
        self._drop_selector(key)

    def _drop_selector(self, key: ObjectKey) -> None:
        self._selected.discard(key)
        self._selectors.remove(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if not self._selected or _endpoint_facts(old) == _endpoint_facts(new):
            return
        for pod in (old, new):
            if pod is not None:
                meta = pod["metadata"]
                for key in self._selectors.matching(meta["namespace"], meta.get("labels") or {}):
                    self._queue.add(key)

    def _slice_changed(self, event: WatchEvent) -> None:
        meta = event.object["metadata"]
        labels = meta.get("labels") or {}
        key = meta["namespace"], labels.get(SERVICE_NAME, "")
        if labels.get(MANAGED_BY) == _MANAGER and key in self._selected:
            self._queue.add(key)

    def _sync(self, key: ObjectKey) -> None:
        service = self._context.find(SERVICES, key)
        if service is None or is_deleting(service) or not _selector_of(service):
            return
        slices: dict[bytes, list[Object]] = {}
        for item in self._slices_of(key):
            slices.setdefault(_encode_ports(item.get("ports") or ()), []).append(item)
        wanted = self._endpoints_of(service, key)
        if not any(wanted.values()):
            # A Service without pods keeps one slice without endpoints and ports.
            wanted = {}
            placeholders = slices.pop(_NO_PORTS, [])
            self._write_placeholder(service, placeholders)
        for ports in slices.keys() | wanted.keys():
            self._write_slices(service, ports, slices.get(ports, []), wanted.get(ports, []))

    def _slices_of(self, key: ObjectKey) -> list[Object]:
        """Return the slices that this controller has written for a Service, oldest first."""
        selector = f"{SERVICE_NAME}={key[1]},{MANAGED_BY}={_MANAGER}"
        items = self._context.api.list(ENDPOINT_SLICES, ListOptions(key[0], selector)).items
        current = [item for item in items if not is_deleting(item)]
        return sorted(current, key=lambda item: item["metadata"]["creationTimestamp"])

    def _endpoints_of(self, service: Object, key: ObjectKey) -> dict[bytes, list[Endpoint]]:
        """Return the endpoints of a Service by their encoded ports, which may differ by pod."""
        terms = ",".join(f"{name}={value}" for name, value in _selector_of(service).items())
        wanted: dict[bytes, list[Endpoint]] = {}
        for pod in self._context.api.list(PODS, ListOptions(key[0], terms)).items:
            if has_endpoint(pod):
                ports = _encode_ports(resolve_ports(service, pod))
                endpoint = encode_endpoint(service, pod, self._zone_of(pod["spec"].get("nodeName", "")))
                wanted.setdefault(ports, []).append(endpoint)
        return wanted

    def _zone_of(self, node_name: str) -> str:
        node = self._context.find(NODES, ("", node_name)) if node_name else None
        return "" if node is None else str((node["metadata"].get("labels") or {}).get(ZONE, ""))

    def _write_placeholder(self, service: Object, placeholders: list[Object]) -> None:
        if not placeholders:
            self._create(service, [], [])
            return
        first, *others = placeholders
        self._update(service, first, [])
        for item in others:
            self._context.delete(ENDPOINT_SLICES, item)

    def _write_slices(
        self, service: Object, ports: bytes, slices: list[Object], endpoints: list[Endpoint]
    ) -> None:
        changes = divide_endpoints(slices, endpoints)
        for item in slices:
            name = item["metadata"]["name"]
            if name in changes.deletions:
                self._context.delete(ENDPOINT_SLICES, item)
            else:
                self._update(service, item, changes.updates.get(name))
        for new in changes.creations:
            self._create(service, msgspec.json.decode(ports), new)

    def _create(self, service: Object, ports: Ports, endpoints: list[Endpoint]) -> None:
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        meta = {
            "generateName": f"{name}-",
            "namespace": namespace,
            "labels": _labels_for(service),
            "ownerReferences": [controller_reference(service)],
        }
        item = {"metadata": meta, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}
        self._context.api.create(ENDPOINT_SLICES, item, namespace)

    def _update(self, service: Object, item: Object, endpoints: list[Endpoint] | None) -> None:
        """Update a slice whose labels or endpoints differ; None keeps its endpoints."""
        labels = _labels_for(service)
        current = thaw(item.get("endpoints") or [])
        endpoints = current if endpoints is None else endpoints
        if endpoints == current and item["metadata"].get("labels") == labels:
            return
        meta = {**item["metadata"], "labels": labels}
        self._context.api.update(ENDPOINT_SLICES, {**item, "metadata": meta, "endpoints": endpoints})


def _selector_of(service: Object) -> Mapping[str, str]:
    """Return the selector of a Service; empty if others write its endpoints."""
    if get_field(service, "spec", "type") == "ExternalName":
        return {}
    selector: Mapping[str, str] = get_field(service, "spec", "selector") or {}
    return selector


def _labels_for(service: Object) -> dict[str, str]:
    """Return the labels of a Service's slices: its own, and those that name it."""
    labels = {**(service["metadata"].get("labels") or {})}
    labels.pop(_HEADLESS, None)
    if get_field(service, "spec", "clusterIP") == "None":
        labels[_HEADLESS] = ""
    return {**labels, SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: _MANAGER}


def _encode_ports(ports: Any) -> bytes:
    return msgspec.json.encode(thaw(ports) or [], order="deterministic")


def _endpoint_facts(pod: Object | None) -> object:
    """Return the fields of a pod that its endpoints depend on."""
    if pod is None:
        return None
    meta, status = pod["metadata"], pod.get("status") or {}
    ready = [item["status"] for item in status.get("conditions") or () if item["type"] == "Ready"]
    return (
        meta["uid"],
        meta.get("labels"),
        "deletionTimestamp" in meta,
        status.get("phase"),
        status.get("podIP"),
        ready,
    )
