"""Start of a replay: the cluster as it was recorded, or its demand alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodeClassRef
from dovetail.ports.api_resources import PODS, find_resource
from dovetail.replay.generated import ObjectKey, find_generated, get_controller, get_key
from dovetail.simulator.apiserver.admission.defaults import apply_defaults
from dovetail.trace.model import Event, Finish, Initial, Object, Set, Tasks, Template
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

_TASK_METADATA: Final = ("labels", "annotations")
_IMAGE: Final = "recorded"

_encode = msgspec.json.Encoder(order="deterministic").encode

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
    # Those of an object that a file replaces are still its controller's.
    generated = find_generated(event.object for event in trace.events if isinstance(event, Initial))
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
        objects = _sort([*_find_demand(initial, generated), *first, *given])
        recorded: tuple[Object, ...] = ()
        events = (*_build_tasks(initial, generated, events), *events)
    else:
        objects, recorded = _sort([*first, *given]), tuple(map(_complete, initial))
    if not any(obj["kind"] == "NodePool" for obj in (*objects, *recorded)):
        later = any(isinstance(event, Set) and event.object["kind"] == "NodePool" for event in events)
        if not later:
            raise DovetailError("the trace has no NodePool; name files with NodePools: -f PATH")
    notes += _check_nodeclasses([*objects, *recorded], events, has_nodes=bool(recorded))
    return Start(recorded=recorded, objects=tuple(objects), events=events, notes=tuple(notes))


def _check_nodeclasses(objects: Iterable[Object], events: Iterable[Event], *, has_nodes: bool) -> list[str]:
    """Return notes on NodePools that launch no nodes; raise if none does and there are no nodes."""
    later = (event.object for event in events if isinstance(event, Set))
    start = list(objects)
    classes = {obj["metadata"]["name"] for obj in (*start, *later) if obj["kind"] == "EC2NodeClass"}
    pools = {obj["metadata"]["name"]: _get_nodeclass(obj) for obj in start if obj["kind"] == "NodePool"}
    problems = []
    for pool, ref in sorted(pools.items()):
        if not ref.is_supported:
            problem = f"it refers to {ref.kind} {ref.name} of {ref.group}, which is not simulated"
            advice = "give a NodePool and its EC2NodeClass: -f PATH"
        elif ref.name not in classes:
            problem = f"neither the trace nor the files have EC2NodeClass {ref.name}"
            advice = "name a file with it: -f PATH"
        else:
            continue
        problems.append((f"NodePool {pool} launches no nodes: {problem}", advice))
    if problems and len(problems) == len(pools) and not has_nodes:
        raise DovetailError("; ".join(problems[0]))
    return [f"{problem}." for problem, _ in problems]


def _get_nodeclass(pool: Object) -> NodeClassRef:
    template = (pool.get("spec") or {}).get("template") or {}
    ref = (template.get("spec") or {}).get("nodeClassRef") or {}
    fields = NodeClassRef.__struct_fields__
    return NodeClassRef(**{field: str(ref[field]) for field in fields if field in ref})


class _Replaced:
    """Objects of files, which replace those of the trace."""

    def __init__(self, manifests: Iterable[Object]) -> None:
        self.objects = [clean(obj) for obj in manifests]
        self.pools = any(obj["kind"] == "NodePool" for obj in self.objects)
        self._keys = {get_key(obj) for obj in self.objects}

    def replaces(self, event: Event) -> bool:
        if not isinstance(event, Initial | Set):
            return False
        return (self.pools and event.object["kind"] == "NodePool") or get_key(event.object) in self._keys


def clean(obj: Mapping[str, Any]) -> Object:
    """Return an object as a user would apply it: without what the API server writes."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_METADATA}
    cleaned = {**{key: value for key, value in obj.items() if key != "status"}, "metadata": meta}
    if obj["kind"] == "Pod" and isinstance(spec := obj.get("spec"), Mapping):
        cleaned["spec"] = {key: spec[key] for key in spec if key != "nodeName"}
    return _with_images_inside(cleaned)


def _complete(obj: Object) -> Object:
    """Return a recorded object with fields that the trace leaves out.

    Later writes need them: the API server validates the whole object.
    """
    if obj["kind"] != "Pod":
        return _with_images_inside(obj)
    # Kubelets are calibrated by image: with one for all, the slowest workload would decide.
    completed = {**obj, "spec": with_images(obj.get("spec") or {}, _name_image)}
    apply_defaults(PODS, completed)
    controller = get_controller(obj)
    if controller is not None and controller.get("kind") == "Job" and not _has_ended(obj):
        # The trace says when it ends: neither a kubelet nor the fork may estimate it. Its Job is
        # not in the trace, and cannot count it.
        completed["spec"] = {**completed["spec"], "restartPolicy": "Always"}
        meta = obj["metadata"]
        completed["metadata"] = {key: value for key, value in meta.items() if key != "finalizers"}
        status = obj.get("status") or {}
        completed["status"] = {key: value for key, value in status.items() if key != "startTime"}
    return completed


def _with_images_inside(obj: Object) -> Object:
    """Return an object with images in its pod spec or template."""
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return dict(obj)
    if obj["kind"] == "Pod":
        return {**obj, "spec": with_images(spec)}
    template = spec.get("template")
    if not isinstance(template, Mapping) or not isinstance(pod_spec := template.get("spec"), Mapping):
        return dict(obj)
    return {**obj, "spec": {**spec, "template": {**template, "spec": with_images(pod_spec)}}}


def with_images(pod_spec: Mapping[str, Any], name: Callable[[Object], str] = lambda _: _IMAGE) -> Object:
    """Return a pod spec with images: a trace has none, the API server needs them."""
    completed = dict(pod_spec)
    for key in ("containers", "initContainers"):
        containers = pod_spec.get(key)
        if isinstance(containers, list):
            completed[key] = [
                {"name": f"c{number}", "image": name(dict(container)), **container}
                for number, container in enumerate(containers)
                if isinstance(container, Mapping)
            ]
    return completed


def _name_image(container: Object) -> str:
    return f"{_IMAGE}-{blake2b(_encode(container), digest_size=4).hexdigest()}"


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


def _find_demand(initial: list[Object], generated: frozenset[ObjectKey]) -> Iterator[Object]:
    """Yield what users and operators asked for, of all recorded objects except pods."""
    for obj in initial:
        if obj["kind"] in _NODE_KINDS or obj["kind"] == "Pod" or get_key(obj) in generated:
            continue
        if find_resource(obj["apiVersion"], obj["kind"]) is not None:
            yield clean(obj)


def _build_tasks(
    initial: list[Object], generated: frozenset[ObjectKey], events: Iterable[Event]
) -> Iterator[Template | Tasks]:
    """Yield pods that no recorded workload creates as tasks, which end when the trace says."""
    ends = {event.id: event.t for event in events if isinstance(event, Finish)}
    for pod in initial:
        if pod["kind"] != "Pod" or get_key(pod) in generated or _has_ended(pod):
            continue
        controller = get_controller(pod)
        meta, spec = pod["metadata"], pod.get("spec") or {}
        id = str(meta.get("uid") or meta["name"])
        yield Template(
            t=0,
            id=id,
            namespace=str(meta.get("namespace") or "default"),
            owner="Pod" if controller is None else "Job",
            workload=str(meta["name"] if controller is None else controller.get("name", "")),
            template={
                "metadata": {key: meta[key] for key in _TASK_METADATA if key in meta},
                "spec": {key: value for key, value in spec.items() if key != "nodeName"},
            },
        )
        yield Tasks(t=0, template=id, seconds=ends.get(id))


def _has_ended(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _sort(objects: list[Object]) -> list[Object]:
    return sorted(
        objects, key=lambda obj: _FIRST.index(obj["kind"]) if obj["kind"] in _FIRST else len(_FIRST)
    )
