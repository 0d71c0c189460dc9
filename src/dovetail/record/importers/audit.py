"""Importer of Kubernetes audit logs: successful writes become events.

A log has only what was written while it was kept. Objects that were not written in that time
are unknown. How much a write says depends on its level: RequestResponse has the whole object,
Request the body that was sent, Metadata only a name.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from dovetail import __version__
from dovetail.codec.text.suggestions import pluralize
from dovetail.errors import DovetailError
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.record.demand import Demand
from dovetail.record.fields import RECORDED, ROLLED_OUT, SETTINGS, WORKLOADS, Object, drop_template_hash
from dovetail.record.importers.audit_events import AuditEvent
from dovetail.record.tasks import is_task
from dovetail.trace.model import End, Event, Header

_RESOURCES: Final = {(resource.group, resource.plural): resource for resource in RECORDED}
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_USED: Final = (*SETTINGS, *WORKLOADS, kinds.PODS)
_SUBRESOURCES: Final = ("", "scale", "status", "eviction")
_DISRUPTED: Final = {"type": "DisruptionTarget", "status": "True"}
_NAMED: Final = ("containers", "initContainers", "volumes")
"""Lists whose entries a patch names."""

Key = tuple[Resource, str, str]


class AuditImport:
    """Collects the writes of one or more files; ``events`` plays them in order of time."""

    def __init__(self) -> None:
        self._writes: list[AuditEvent] = []
        self._known: dict[Key, Object] = {}
        self._left_out: Counter[str] = Counter()
        self._levels: Counter[str] = Counter()
        self._bodies = False
        """Templates are those of requests: they lack defaults, which would seem to be changes."""
        self._now = datetime.min  # noqa: DTZ901 - replaced by the time of the first write

    def add(self, events: Iterable[AuditEvent]) -> None:
        """Add the events of a file; those that ask nothing of a cluster are dropped."""
        for event in events:
            reference = event.object_ref
            if reference is None or event.verb not in _WRITES or not event.has_succeeded:
                continue
            resource = _RESOURCES.get((reference.api_group, reference.resource))
            if resource in _USED and reference.subresource in _SUBRESOURCES:
                self._writes.append(event)
                self._levels[event.level] += 1
                if event.level == "Request" and resource in ROLLED_OUT:
                    self._bodies = True

    def play(self) -> tuple[Header, list[Event]]:
        """Return the trace; raise ``DovetailError`` if there is nothing in it."""
        if not self._writes:
            raise DovetailError(
                "the audit log has no successful write of a workload, pod or NodePool; "
                "is it the log of authenticator or of another cluster?"
            )
        # API servers log side by side: streams are merged by time; IDs break ties.
        self._writes.sort(key=lambda event: (event.stage_timestamp, event.audit_id))
        events: list[Event] = []
        start = self._now = self._writes[0].stage_timestamp
        rename = drop_template_hash if self._bodies else _keep
        demand = Demand(events.append, now=lambda: self._now, rename=rename)
        demand.begin(start)
        for write in self._writes:
            self._now = write.stage_timestamp
            try:
                self._play_write(demand, write)
            except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
                self._left_out["no API server stores such an object"] += 1
        if not events:
            reasons = "; ".join(self._describe_omissions())
            raise DovetailError(
                f"the audit log has no object that can be imported ({self._describe_levels()}; {reasons}); "
                "its policy needs level RequestResponse, or at least Request, for workloads and pods"
            )
        events.append(End(t=demand.now()))
        header = Header(
            written_by=f"dovetail trace import audit {__version__}",
            start=start,
            assumptions=self._assumptions(),
        )
        return header, events

    def _assumptions(self) -> tuple[str, ...]:
        return (
            self._describe_levels(),
            "objects that were not written while the log was kept are not in the trace; its first events "
            "are the first writes of each",
            *(
                ("at level Request, roll-outs are seen only if they change what scheduling reads",)
                if self._bodies
                else ()
            ),
            *self._describe_omissions(),
        )

    def _describe_levels(self) -> str:
        levels = ", ".join(f"{count:,} of level {level}" for level, count in sorted(self._levels.items()))
        return f"used: {pluralize(sum(self._levels.values()), 'write')}, {levels}"

    def _describe_omissions(self) -> list[str]:
        return [
            f"left out: {pluralize(count, 'write')}, {reason}"
            for reason, count in sorted(self._left_out.items())
        ]

    def _play_write(self, demand: Demand, write: AuditEvent) -> None:
        reference = write.object_ref
        if reference is None:
            return
        resource = _RESOURCES[(reference.api_group, reference.resource)]
        key = (resource, reference.namespace, reference.name)
        if reference.subresource == "eviction":
            self._evict(key)
        elif write.verb in ("delete", "deletecollection"):
            self._delete(demand, key, write)
        else:
            obj = self._find_object(key, write)
            if obj is not None:
                self._apply(demand, resource, obj)

    def _apply(self, demand: Demand, resource: Resource, obj: Object) -> None:
        meta = obj["metadata"]
        if resource is kinds.PODS and not is_task(obj):
            return
        self._known[(resource, str(meta.get("namespace") or ""), str(meta["name"]))] = obj
        demand.apply(resource, obj)

    def _find_object(self, key: Key, write: AuditEvent) -> Object | None:
        """Return the object after a write; None, and count it, if the log does not say it."""
        response, request = _decode(write.response_object), _decode(write.request_object)
        if isinstance(response, dict) and _is_whole(response, key[0]):
            return response
        known = self._known.get(key)
        if write.object_ref is not None and write.object_ref.subresource == "scale":
            return self._scale(known, response, request)
        if isinstance(request, dict):
            # The body of a new object has no UID; that of its request is as unique.
            uid = write.audit_id if known is None else str(known["metadata"].get("uid") or write.audit_id)
            named = _with_name(request, key, uid)
            if write.verb in ("create", "update") and _is_whole(named, key[0]):
                return named
            if write.verb == "patch" and known is not None:
                merged = _merge(known, request)
                return merged if isinstance(merged, dict) else None
        if isinstance(request, list) and known is not None:
            return _apply_json_patch(known, request)
        if key[0] is not kinds.PODS or write.verb == "create":
            self._left_out[_describe_omission(write, known)] += 1
        return None

    def _scale(self, known: Object | None, response: Any, request: Any) -> Object | None:
        for body in (response, request):
            replicas = (body.get("spec") or {}).get("replicas") if isinstance(body, dict) else None
            if isinstance(replicas, int) and known is not None:
                return {**known, "spec": {**(known.get("spec") or {}), "replicas": replicas}}
        self._left_out["the scale of a workload that was not written before"] += 1
        return None

    def _evict(self, key: Key) -> None:
        known = self._known.get(key)
        if known is not None:
            status = known.get("status") or {}
            conditions = [*(status.get("conditions") or ()), _DISRUPTED]
            self._known[key] = {**known, "status": {**status, "conditions": conditions}}

    def _delete(self, demand: Demand, key: Key, write: AuditEvent) -> None:
        if write.verb == "deletecollection":
            response = _decode(write.response_object)
            items = response.get("items") if isinstance(response, dict) else None
            if not items:
                self._left_out["a deletion of many objects whose names are not in the log"] += 1
            for item in items or ():
                self._delete_known(demand, (key[0], key[1], str(item["metadata"]["name"])))
            return
        response = _decode(write.response_object)
        terminating = isinstance(response, dict) and _is_whole(response, key[0])
        known = self._known.get(key)
        if key[0] is kinds.PODS and terminating and known is not None and _has_grace(response):
            # The kubelet deletes it again when its containers have ended.
            return
        self._delete_known(demand, key)

    def _delete_known(self, demand: Demand, key: Key) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            demand.delete(key[0], known)


def _keep(obj: Object) -> Object:
    return obj


def _decode(raw: msgspec.Raw) -> Any:
    encoded = bytes(raw)
    return msgspec.json.decode(encoded) if encoded else None


def _is_whole(obj: Object, resource: Resource) -> bool:
    """Return True if this is the object itself, and not a status or a part."""
    meta = obj.get("metadata")
    has_kind = obj.get("kind") in (None, resource.kind)
    return (
        has_kind
        and isinstance(meta, dict)
        and bool(meta.get("name"))
        and isinstance(obj.get("spec", {}), dict)
    )


def _with_name(obj: Object, key: Key, uid: str) -> Object:
    """Return a body with the name of its URL; bodies may leave it out."""
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    named = {"name": key[2], "namespace": key[1], "uid": uid, **{k: v for k, v in meta.items() if v}}
    return {**obj, "metadata": {k: v for k, v in named.items() if v}}


def _has_grace(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionGracePeriodSeconds"))


def _merge(value: Any, patch: Any, *, by_name: bool = True) -> Any:
    """Merge a patch: maps recursively, null removes, conditions by type.

    ``by_name``: lists of containers and volumes have only the entries that change, as in a strategic
    merge patch, which kubectl sends.
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for name, change in patch.items():
        if name.startswith("$"):
            continue  # Directives of strategic merge patches.
        if change is None:
            result.pop(name, None)
        elif name == "conditions" and isinstance(change, list):
            kept = {each.get("type"): each for each in result.get(name) or ()}
            for each in change:
                kept[each.get("type")] = {**kept.get(each.get("type"), {}), **each}
            result[name] = list(kept.values())
        elif name in _NAMED and by_name and isinstance(change, list):
            result[name] = _merge_named(result.get(name) or (), change)
        else:
            result[name] = _merge(result.get(name), change, by_name=by_name)
    return result


def _merge_named(entries: Iterable[Object], changes: Iterable[Object]) -> list[Object]:
    merged = {entry["name"]: entry for entry in entries}
    for change in changes:
        directive = change.get("$patch")
        if directive == "replace":
            merged.clear()
        elif directive == "delete":
            merged.pop(change["name"], None)
        if directive is None:
            merged[change["name"]] = _merge(merged.get(change["name"]), change)
    return list(merged.values())


def _apply_json_patch(known: Object, patch: list[Any]) -> Object:
    """Apply the operations that replace or add a field of an object; others are ignored."""
    result: Object = known
    for operation in patch:
        path = str(operation.get("path", "")).split("/")[1:]
        if operation.get("op") not in ("add", "replace") or any(
            part.isdecimal() or part == "-" for part in path
        ):
            continue
        nested: Any = operation.get("value")
        for part in reversed(path):
            nested = {part.replace("~1", "/").replace("~0", "~"): nested}
        if isinstance(nested, dict):
            result = _merge(result, nested, by_name=False)
    return result


def _describe_omission(write: AuditEvent, known: Object | None) -> str:
    if write.is_truncated:
        return "the API server truncated them"
    if write.level == "Metadata":
        return "level Metadata has no objects"
    if write.verb == "patch" and known is None:
        return "level Request has only a patch, and the object was not written before"
    return f"level {write.level} has no object"
