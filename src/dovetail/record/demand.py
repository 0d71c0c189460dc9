"""Demand on a cluster: watched objects become the events of a trace.

Every object is kept in its stripped form, so that a new file can begin with the whole state.
Before ``begin`` or ``resume`` nothing is written: lists fill the state. Afterwards a change of
what was asked for is written at once; changes that only controllers made are not.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from dovetail.dump.strip import find_replaced_hash, replace_hashes
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.record.fields import RECORDED, Object, encode_form, is_generated, requested_form, strip_recorded
from dovetail.record.resumption import Resumption
from dovetail.record.tasks import TaskTracker
from dovetail.trace.model import Delete, Event, Gap, Header, Initial, Scale, Set

Key = tuple[str, str]
"""Namespace and name."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Demand:
    """State of the recorded kinds; implements ``kube.reflector.ReflectorStore``."""

    def __init__(
        self,
        write: Callable[[Event], None],
        *,
        now: Callable[[], datetime],
        rename: Callable[[Object], Object] = lambda obj: obj,
        on_object: Callable[[Resource, Object], None] = lambda resource, obj: None,
    ) -> None:
        """``rename`` replaces names in stripped objects; ``on_object`` sees objects as they are."""
        self._sink = write
        self._now = now
        self._rename = rename
        self._on_object = on_object
        self._objects: dict[Resource, dict[Key, bytes]] = {resource: {} for resource in RECORDED}
        self._forms: dict[tuple[str, Key], tuple[bytes, int]] = {}
        """Kind and key → what was asked for, without its scale, and its scale."""
        self._start: datetime | None = None
        self._t = 0.0
        self._tasks = TaskTracker(self._sink)
        self._hashes: dict[str, str] = {}
        """Hash of a NodePool or node class → that of its stripped form."""

    # -- Beginning and resuming a file --------------------------------------------------------

    def begin(self, start: datetime, write: Callable[[Event], None] | None = None) -> None:
        """Write the whole state as the beginning of a file, with ``write`` if it is given."""
        write = write or self._sink
        self._start, self._t = start, 0.0
        self._forms.clear()
        pods: dict[str, Object] = {}
        for resource, objects in self._objects.items():
            for key, encoded in sorted(objects.items()):
                obj = _decode(encoded)
                if resource is kinds.PODS:
                    pods[obj["metadata"].get("uid", "")] = obj
                self._remember_form(resource, key, obj)
                replace_hashes(obj, self._hashes)
                write(Initial(t=0, object=obj))
        self._tasks.begin(pods)

    def resume(self, header: Header, resumption: Resumption) -> None:
        """Continue a file: write a gap and every difference to its last known state."""
        self._start = header.start
        self.now()
        self._sink(Gap(t=self._t, seconds=round(max(0.0, self._t - resumption.last), 3)))
        self._forms = dict(resumption.forms)
        self._tasks.resume(resumption.templates, resumption.running)
        present: set[tuple[str, Key]] = set()
        uids: set[str] = set()
        for resource, objects in self._objects.items():
            for key, encoded in sorted(objects.items()):
                obj = _decode(encoded)
                if resource is kinds.PODS:
                    uids.add(obj["metadata"].get("uid", ""))
                    self._tasks.observe(obj, obj, self._t, self._now())
                else:
                    present.add((resource.kind, key))
                    self._record_change(resource, key, obj)
        for kind, key in sorted(self._forms.keys() - present):
            if not self._is_of_stateful_set(kind, key):
                self._record_deletion(kind, key)
        ran = {id: round(resumption.last - begun, 1) for id, begun in resumption.running.items()}
        self._tasks.finish_missing(uids, ran, self._t)

    def find_region(self) -> str:
        """Return the region of most nodes; empty if there are none."""
        counts: dict[str, int] = {}
        for encoded in self._objects[kinds.NODES].values():
            labels = _decode(encoded)["metadata"].get("labels") or {}
            region = labels.get("topology.kubernetes.io/region", "")
            counts[region] = counts.get(region, 0) + 1
        return max(sorted(counts), key=lambda region: counts[region], default="")

    def hash_cluster(self) -> str:
        """Return a hash that only this cluster has; empty if namespaces cannot be listed.

        Simulated clusters have equal UIDs, but not equal times.
        """
        encoded = self._objects[kinds.NAMESPACES].get(("", "kube-system"))
        meta = {} if encoded is None else _decode(encoded)["metadata"]
        if "uid" not in meta:
            return ""
        identity = f"{meta['uid']} {meta.get('creationTimestamp', '')}"
        return blake2b(identity.encode(), digest_size=8, person=b"cluster").hexdigest()

    def count(self, resource: Resource) -> int:
        """Return how many objects of a kind there are."""
        return len(self._objects[resource])

    # -- Writes of reflectors ----------------------------------------------------------------

    def begin_relist(self, resource: Resource) -> "_Relist":
        """Begin to replace all objects of a kind by a list that arrives in pages."""
        return _Relist(self, resource, set(self._objects[resource]))

    def apply_event(self, resource: Resource, obj: Object) -> None:
        """Add or update an object."""
        self.apply(resource, obj)

    def apply(self, resource: Resource, obj: Object) -> Key:
        """Add or update an object; return its new key."""
        self._on_object(resource, obj)
        stripped = self._rename(strip_recorded(resource, obj))
        if resource in (kinds.NODE_POOLS, kinds.EC2_NODE_CLASSES):
            named = {**obj, "kind": resource.kind}
            self._hashes |= find_replaced_hash(named, stripped)
        key = _key(stripped)
        encoded = _encode(stripped)
        if self._objects[resource].get(key) == encoded and resource is not kinds.PODS:
            return key
        self._objects[resource][key] = encoded
        if self._start is not None:
            self.now()
            if resource is kinds.PODS:
                self._tasks.observe(stripped, obj, self._t, self._now())
            else:
                self._record_change(resource, key, stripped)
        return key

    def delete(self, resource: Resource, obj: Object) -> None:
        """Delete an object."""
        stripped = self._rename(strip_recorded(resource, obj))
        self._delete(resource, _key(stripped), stripped, obj)

    def delete_missing(self, resource: Resource, keys: Iterable[Key]) -> None:
        """Delete objects that a list no longer has; their last state is the stored one."""
        for key in sorted(keys):
            encoded = self._objects[resource].get(key)
            if encoded is not None:
                stored = _decode(encoded)
                self._delete(resource, key, stored, stored)

    def _delete(self, resource: Resource, key: Key, stripped: Object, raw: Object) -> None:
        self._objects[resource].pop(key, None)
        if self._start is None:
            return
        self.now()
        if resource is kinds.PODS:
            self._tasks.observe_deletion(stripped, raw, self._t, self._now())
        else:
            self._record_deletion(resource.kind, key)

    # -- Events ------------------------------------------------------------------------------

    def write(self, event: Event) -> None:
        """Write an event of another source at the current time."""
        self.now()
        self._sink(msgspec.structs.replace(event, t=self._t))

    def now(self) -> float:
        """Return seconds since the start of the file."""
        if self._start is not None:
            # Never less than before, even if the clock was set back.
            self._t = max(self._t, round((self._now() - self._start).total_seconds(), 3))
        return self._t

    def _record_change(self, resource: Resource, key: Key, stripped: Object) -> None:
        if stripped["metadata"].get("deletionTimestamp"):
            # Finalizers keep it, but it was asked to go.
            self._record_deletion(resource.kind, key)
            return
        known = self._forms.get((resource.kind, key))
        form = self._remember_form(resource, key, stripped)
        if form is None or form == known:
            return
        if known is not None and known[0] == form[0]:
            namespace, name = key
            scale = Scale(t=self._t, kind=resource.kind, namespace=namespace, name=name, replicas=form[1])
            self._sink(scale)
        else:
            self._sink(Set(t=self._t, object=requested_form(resource, stripped)))

    def _record_deletion(self, kind: str, key: Key) -> None:
        if self._forms.pop((kind, key), None) is not None:
            self._sink(Delete(t=self._t, kind=kind, namespace=key[0], name=key[1]))

    def _remember_form(self, resource: Resource, key: Key, stripped: Object) -> tuple[bytes, int] | None:
        """Remember what was asked for; None if controllers made the object."""
        if is_generated(resource, stripped) or self._is_of_stateful_set(resource.kind, key):
            return None
        form = self._forms[(resource.kind, key)] = encode_form(resource, stripped)
        return form

    def _is_of_stateful_set(self, kind: str, key: Key) -> bool:
        """Return True for the volume claim ``data-db-0`` of a StatefulSet ``db``."""
        if kind != kinds.PERSISTENT_VOLUME_CLAIMS.kind:
            return False
        namespace, name = key
        prefix, _, ordinal = name.rpartition("-")
        parts = prefix.split("-") if ordinal.isdecimal() else []
        owners = self._objects[kinds.STATEFUL_SETS]
        return any((namespace, "-".join(parts[at:])) in owners for at in range(1, len(parts)))


class _Relist:
    """A list of one kind; ``finish`` deletes what it does not have."""

    def __init__(self, demand: Demand, resource: Resource, before: set[Key]) -> None:
        self._demand = demand
        self._resource = resource
        self._missing = before

    def add(self, objects: Iterable[Object]) -> None:
        for obj in objects:
            self._missing.discard(self._demand.apply(self._resource, obj))

    def finish(self, revision: str) -> None:
        self._demand.delete_missing(self._resource, self._missing)


def _key(obj: Object) -> Key:
    meta = obj["metadata"]
    return str(meta.get("namespace") or ""), str(meta["name"])
