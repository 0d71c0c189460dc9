"""Start of a replay: the cluster as it was recorded, or its demand alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import find_resource
from dovetail.trace.model import Event, Initial, Object, Set
from dovetail.trace.reader import Trace

_NODE_KINDS: Final = frozenset(("Node", "NodeClaim", "Lease", "CSINode", "VolumeAttachment", "Event"))
"""Kinds that follow from the demand."""
_PLAYED_KINDS: Final = frozenset(("CronJob", "HorizontalPodAutoscaler"))
"""Kinds whose effect the trace has as events: tasks and scale."""
_SERVER_METADATA: Final = frozenset(
    "resourceVersion uid creationTimestamp generation managedFields selfLink ownerReferences".split()
)
_FIRST: Final = ("PriorityClass", "StorageClass", "RuntimeClass", "EC2NodeClass", "NodePool")
"""Kinds that pods refer to: applied before workloads."""

_IMAGE: Final = "recorded"

PoolChange = Callable[[Object], Object]
"""Returns a NodePool with other settings."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that a replay begins with, and the events that follow."""

    recorded: tuple[Object, ...]
    """Objects with their status; empty: the cluster begins without nodes."""
    objects: tuple[Object, ...]
    """Objects to apply first, in order."""
    events: tuple[Event, ...]
    notes: tuple[str, ...]


def prepare_start(
    trace: Trace, *, manifests: Iterable[Object] = (), change_pool: PoolChange | None = None, empty: bool
) -> Start:
    """Separate the start from what follows.

    NodePools of files replace all of the trace; other objects of files replace those of their name.

    The recorded nodes are left out if ``empty``, if there are none, or if one of them belongs
    to a NodePool that the files do not have. Raises ``DovetailError`` without a NodePool.
    """
    replaced = _Replaced(manifests)
    kept = [event for event in trace.events if not replaced.replaces(event)]
    changed = [_with_changed_pool(event, change_pool) for event in kept]
    initial = [event.object for event in changed if isinstance(event, Initial)]
    initial = [obj for obj in initial if obj["kind"] not in _PLAYED_KINDS]
    first = [event.object for event in changed if isinstance(event, Set) and event.t == 0]
    given = [
        change_pool(obj) if change_pool and obj["kind"] == "NodePool" else obj for obj in replaced.objects
    ]
    events = tuple(
        event
        for event in changed
        if not isinstance(event, Initial) and not (isinstance(event, Set) and event.t == 0)
    )
    notes = []
    lost = _find_lost_pools(initial, given) if replaced.pools else []
    if lost:
        notes.append(
            f"The replay begins without the recorded nodes: the files lack NodePool {', '.join(lost)}."
        )
    has_nodes = any(obj["kind"] == "Node" for obj in initial)
    if empty or lost or not has_nodes:
        objects = _sort([*_find_demand(initial), *first, *given])
        recorded: tuple[Object, ...] = ()
    else:
        objects, recorded = _sort([*first, *given]), tuple(initial)
    if not any(obj["kind"] == "NodePool" for obj in (*objects, *recorded)):
        later = any(isinstance(event, Set) and event.object["kind"] == "NodePool" for event in events)
        if not later:
            raise DovetailError("the trace has no NodePool; name files with NodePools: -f PATH")
    return Start(recorded=recorded, objects=tuple(objects), events=events, notes=tuple(notes))


class _Replaced:
    """Objects of files, which replace those of the trace."""

    def __init__(self, manifests: Iterable[Object]) -> None:
        self.objects = [clean(obj) for obj in manifests]
        self.pools = any(obj["kind"] == "NodePool" for obj in self.objects)
        self._keys = {_key(obj) for obj in self.objects}

    def replaces(self, event: Event) -> bool:
        if not isinstance(event, Initial | Set):
            return False
        return (self.pools and event.object["kind"] == "NodePool") or _key(event.object) in self._keys


def clean(obj: Mapping[str, Any]) -> Object:
    """Return an object as a user would apply it: without what the API server writes."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_METADATA}
    cleaned = {**{key: value for key, value in obj.items() if key != "status"}, "metadata": meta}
    spec = obj.get("spec")
    if isinstance(spec, Mapping):
        if obj["kind"] == "Pod":
            cleaned["spec"] = with_images({key: spec[key] for key in spec if key != "nodeName"})
        elif isinstance(template := spec.get("template"), Mapping):
            if isinstance(pod_spec := template.get("spec"), Mapping):
                cleaned["spec"] = {**spec, "template": {**template, "spec": with_images(pod_spec)}}
    return cleaned


def with_images(pod_spec: Mapping[str, Any]) -> Object:
    """Return a pod spec with the images that a trace leaves out and the API server requires."""
    completed = dict(pod_spec)
    for key in ("containers", "initContainers"):
        containers = pod_spec.get(key)
        if isinstance(containers, list):
            completed[key] = [
                {"name": f"c{number}", "image": _IMAGE, **container}
                for number, container in enumerate(containers)
                if isinstance(container, Mapping)
            ]
    return completed


def _key(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _with_changed_pool(event: Event, change_pool: PoolChange | None) -> Event:
    if change_pool is None or not isinstance(event, Initial | Set) or event.object["kind"] != "NodePool":
        return event
    return msgspec.structs.replace(event, object=change_pool(event.object))


def _find_lost_pools(initial: list[Object], given: list[Object]) -> list[str]:
    """Return the NodePools of recorded nodes that the files do not have."""
    names = {obj["metadata"]["name"] for obj in given if obj["kind"] == "NodePool"}
    nodes = (obj["metadata"].get("labels") or {} for obj in initial if obj["kind"] == "Node")
    pools = {labels[label_keys.NODEPOOL] for labels in nodes if label_keys.NODEPOOL in labels}
    return sorted(pools - names)


def _find_demand(initial: list[Object]) -> Iterator[Object]:
    """Yield what users asked for, of all recorded objects."""
    for obj in initial:
        is_owned = any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())
        if obj["kind"] in _NODE_KINDS or is_owned:
            continue
        if obj["kind"] == "Pod" and (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        if find_resource(obj["apiVersion"], obj["kind"]) is not None:
            yield clean(obj)


def _sort(objects: list[Object]) -> list[Object]:
    return sorted(
        objects, key=lambda obj: _FIRST.index(obj["kind"]) if obj["kind"] in _FIRST else len(_FIRST)
    )
