"""Recorded objects by kind and name, ready for the simulated API server.

Objects keep their uid, times, generation and status. Server-managed bookkeeping that
nothing reads is dropped, and equal parts of pods are shared: a cluster of 50,000 pods has few
different pod templates.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import NAMESPACES, NODES, PODS, RESOURCES, Resource, find_resource
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze
from dovetail.simulator.apiserver.storage.store import ObjectKey
from dovetail.simulator.apiserver.timestamps import format_timestamp
from dovetail.simulator.fork.report import ReportBuilder

_NOT_LOADED: Final = frozenset(
    {kinds.EVENTS, kinds.LEASES, kinds.SECRETS, kinds.CONFIG_MAPS, kinds.SERVICE_ACCOUNTS}
    | {kinds.VOLUME_ATTACHMENTS, kinds.HORIZONTAL_POD_AUTOSCALERS}
)
"""Kinds that the simulation does not read, or writes itself."""
_DROPPED: Final = ("resourceVersion", "selfLink")
_APPLIED: Final = frozenset(
    {kinds.NODE_POOLS, kinds.EC2_NODE_CLASSES, kinds.NODE_OVERLAYS, kinds.CAPACITY_BUFFERS}
    | {kinds.DEPLOYMENTS, kinds.STATEFUL_SETS, kinds.DAEMON_SETS, kinds.JOBS, kinds.CRON_JOBS}
    | {kinds.POD_DISRUPTION_BUDGETS}
)
"""Kinds that users apply.

Their managedFields are needed for fields that a changed file removes; those of other kinds
would only cost memory and time."""
_POD_ANNOTATIONS_DROPPED: Final = "kubectl.kubernetes.io/last-applied-configuration"

_encode = msgspec.json.Encoder(order="deterministic").encode


class Records:
    """Objects of one cluster by resource, namespace and name."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.by_resource: dict[Resource, dict[ObjectKey, Object]] = {resource: {} for resource in RESOURCES}
        self.uids: set[str] = set()
        self._timestamp = format_timestamp(now)
        self._shared: dict[bytes, Any] = {}
        self._generated = 0

    def __getitem__(self, resource: Resource) -> dict[ObjectKey, Object]:
        return self.by_resource[resource]

    def put(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        """Add or replace an object; fields that every stored object has are completed."""
        meta = dict(obj["metadata"])
        for name in _DROPPED:
            meta.pop(name, None)
        if resource not in _APPLIED or not _was_applied(meta):
            meta.pop("managedFields", None)
        if resource.namespaced:
            meta["namespace"] = meta.get("namespace") or "default"
        else:
            meta.pop("namespace", None)
        meta.setdefault("creationTimestamp", self._timestamp)
        if not meta.get("uid"):
            self._generated += 1
            meta["uid"] = f"{self._generated:08x}-0000-4000-9000-{self._generated:012x}"
        if resource.has_generation:
            meta["generation"] = int(meta.get("generation") or 1)
        header = {"apiVersion": resource.api_version, "kind": resource.kind}
        completed = {**obj, **header, "metadata": meta}
        if resource is PODS or resource is NODES:
            completed["spec"] = obj.get("spec") or {}
            completed["status"] = obj.get("status") or {}
        status = obj.get("status")
        if isinstance(status, dict) and status.get("conditions"):
            conditions = _complete_conditions(status["conditions"], meta["creationTimestamp"])
            completed["status"] = {**status, "conditions": conditions}
        if resource is PODS:
            completed = self._share_parts(completed)
        frozen: Object = freeze(completed)
        self.uids.add(meta["uid"])
        self.by_resource[resource][(meta.get("namespace", ""), meta["name"])] = frozen
        return frozen

    def remove(self, resource: Resource, key: ObjectKey) -> None:
        """Leave an object out."""
        removed = self.by_resource[resource].pop(key)
        self.uids.discard(removed["metadata"]["uid"])

    def _share_parts(self, pod: dict[str, Any]) -> dict[str, Any]:
        meta = pod["metadata"]
        annotations = meta.get("annotations")
        if annotations and _POD_ANNOTATIONS_DROPPED in annotations:
            meta["annotations"] = {k: v for k, v in annotations.items() if k != _POD_ANNOTATIONS_DROPPED}
        for parent in (meta, pod["spec"] if isinstance(pod["spec"], dict) else {}):
            shared = {name: self._share(value) for name, value in parent.items()}
            if parent is meta:
                pod["metadata"] = shared
            else:
                pod["spec"] = shared
        return pod

    def _share(self, value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        key = _encode(value)
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = freeze(value)
        return shared


def read_records(objects: Iterable[Mapping[str, Any]], *, now: datetime, report: ReportBuilder) -> Records:
    """Return the objects that the simulation uses; the first of two of one name counts."""
    records = Records(now)
    ignored: Counter[str] = Counter()
    for obj in objects:
        problem = _find_problem(obj)
        if problem:
            report.note_of("object", _describe(obj), problem)
            continue
        resource = find_resource(obj["apiVersion"], obj["kind"])
        if resource is None:
            ignored[f"{obj['kind']} ({obj['apiVersion']})"] += 1
            continue
        if resource in _NOT_LOADED:
            continue
        meta = obj["metadata"]
        namespace = (meta.get("namespace") or "default") if resource.namespaced else ""
        known = records[resource].get((namespace, meta["name"]))
        if known is None:
            records.put(resource, obj)
        elif meta.get("uid") not in (None, "", known["metadata"]["uid"]):
            report.note_of(
                "object",
                _describe(obj),
                "there twice with different uids, as in dumps of two clusters; the first of each was used",
            )
    for kind, count in sorted(ignored.items()):
        report.note(f"{count:,} × {kind} not used: the simulated API server does not serve the kind")
    _add_namespaces(records)
    return records


def _complete_conditions(conditions: Any, since: str) -> list[Any]:
    """Return the conditions that have type and status, with a time of transition."""
    usable = isinstance(conditions, list)
    return [
        condition if condition.get("lastTransitionTime") else {**condition, "lastTransitionTime": since}
        for condition in (conditions if usable else ())
        if isinstance(condition, dict) and condition.get("type") and condition.get("status")
    ]


def _was_applied(meta: Mapping[str, Any]) -> bool:
    """Return True if an object was applied server-side."""
    entries = meta.get("managedFields")
    return isinstance(entries, list) and any(
        isinstance(entry, dict) and entry.get("operation") == "Apply" for entry in entries
    )


def _add_namespaces(records: Records) -> None:
    """Add the namespaces that objects are in."""
    for resource, by_key in records.by_resource.items():
        if not resource.namespaced:
            continue
        for namespace in {key[0] for key in by_key}:
            if ("", namespace) not in records[NAMESPACES]:
                records.put(
                    NAMESPACES,
                    {
                        "metadata": {"name": namespace, "labels": {"kubernetes.io/metadata.name": namespace}},
                        "spec": {"finalizers": ["kubernetes"]},
                        "status": {"phase": "Active"},
                    },
                )


def _find_problem(obj: Mapping[str, Any]) -> str:
    """Return what makes an object unusable; empty if nothing does."""
    if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str):
        return "not used: no kind"
    if not isinstance(obj.get("apiVersion"), str):
        return "not used: no apiVersion"
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        return "not used: no metadata.name"
    for part in ("spec", "status"):
        if not isinstance(obj.get(part) or {}, dict):
            return f"not used: {part} is not a map"
    if meta.get("deletionTimestamp") and not meta.get("finalizers") and obj["kind"] == "Node":
        return "half-deleted; not used: a deletion timestamp, but no finalizer"
    return ""


def _describe(obj: Mapping[str, Any]) -> str:
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    name = "/".join(str(meta[part]) for part in ("namespace", "name") if meta.get(part))
    return f"{obj.get('kind', 'object') if isinstance(obj, dict) else 'object'} {name}".strip()
