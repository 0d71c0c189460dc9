"""Demand: events of a trace, performed on a simulated cluster."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import partial, singledispatchmethod
from itertools import count
from typing import Any, Final

from dovetail.ports.api_resources import NAMESPACES, PODS, RESOURCES, find_resource
from dovetail.ports.kube_errors import ApiError, NotFound
from dovetail.preview.observer import WORKLOAD
from dovetail.replay.generated import get_key
from dovetail.replay.start import clean, with_images
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.cluster import FIELD_MANAGER, SimulatedCluster
from dovetail.simulator.ec2.capacity import CapacityLimit
from dovetail.simulator.ec2.instances import Ec2Instance, InstanceState
from dovetail.simulator.fork.workloads import MISSING, UnknownControllers
from dovetail.simulator.kubelet.pod_workers import RUN_SECONDS
from dovetail.simulator.workqueue import start_watch
from dovetail.trace.model import (
    CapacityError,
    Delete,
    Event,
    Finish,
    Gap,
    Interruption,
    Object,
    Scale,
    Set,
    Tasks,
    Template,
)

_KEPT: Final = timedelta(minutes=1)
"""Time after which a finished task is deleted, as by ttlSecondsAfterFinished."""
_BEYOND: Final = 86_400.0
"""Seconds that tasks without a known end run on after the trace."""
_NAME: Final = re.compile(r"[^a-z0-9-]+")
_BOUND: Final = ("PersistentVolume", "PersistentVolumeClaim")
"""Kinds whose spec controllers write, too: an event does not have those fields, which stay."""
_BY_KIND: Final = {resource.kind: resource for resource in RESOURCES}


class Demand:
    """Performs events; what the cluster refuses is counted, not raised."""

    def __init__(self, cluster: SimulatedCluster, *, seconds: float, recorded: Iterable[Object] = ()) -> None:
        """``seconds`` is the length of the trace; ``recorded`` are the objects it began with."""
        self._cluster = cluster
        self._recorded = {get_key(obj): obj for obj in recorded if obj["kind"] not in _BOUND}
        """Objects that no event has changed yet."""
        self._seconds = seconds
        self._templates: dict[str, Template] = {}
        self._namespaces: set[str] = set()
        self._numbers = count(1)
        self._refused: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._watching = False
        self._initial = {
            pod["metadata"]["uid"]: (pod["metadata"]["name"], pod["metadata"]["namespace"])
            for pod in cluster.api.list(PODS).items
        }
        """UID of an initial pod → its name, which a pod that was created in its place has, too."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about events that were refused or had no effect."""
        return tuple(
            f"{what}: {number:,}; for example {self._examples[what]}"
            for what, number in sorted(self._refused.items())
        )

    def apply(self, obj: Object) -> None:
        """Apply an object as a user does."""
        name = f"{obj['kind']} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"
        if find_resource(obj["apiVersion"], obj["kind"]) is None:
            self._refuse("Objects of kinds that have no effect on nodes", name)
            return
        self._attempt(name, lambda: self._cluster.apply([clean(obj)]))

    @singledispatchmethod
    def perform(self, event: Event) -> None:
        """Perform an event now."""
        raise TypeError(f"{event!r} is not demand")

    @perform.register
    def _(self, event: Set) -> None:
        self._own_fields(event.object)
        self.apply(event.object)

    @perform.register
    def _(self, event: Delete) -> None:
        resource = _BY_KIND.get(event.kind)
        name = f"{event.kind} {event.namespace}/{event.name}"
        if resource is not None:
            self._attempt(name, lambda: self._cluster.api.delete(resource, event.name, event.namespace))

    @perform.register
    def _(self, event: Scale) -> None:
        resource = _BY_KIND.get(event.kind)
        name = f"{event.kind} {event.namespace}/{event.name}"
        if resource is None or "scale" not in resource.subresources:
            self._refuse("Workloads of unknown kinds, not scaled", name)
            return
        scale = {"spec": {"replicas": event.replicas}}
        api = self._cluster.api
        self._attempt(
            name,
            lambda: api.patch(
                resource, event.name, scale, PatchType.MERGE, event.namespace, subresource="scale"
            ),
        )

    @perform.register
    def _(self, event: Template) -> None:
        self._templates[event.id] = event

    @perform.register
    def _(self, event: Tasks) -> None:
        template = self._templates[event.template]
        self._watch()
        if template.namespace not in self._namespaces:
            self._namespaces.add(template.namespace)
            namespace = {"metadata": {"name": template.namespace}}
            self._cluster.api.apply(NAMESPACES, namespace, manager=FIELD_MANAGER, force=True)
        seconds = event.seconds if event.seconds is not None else self._seconds - event.t + _BEYOND
        for _ in range(event.count):
            pod = _build_task(template, seconds, next(self._numbers))
            self._attempt(f"Pod {pod['metadata']['name']}", partial(self._cluster.api.create, PODS, pod))

    @perform.register
    def _(self, event: Interruption) -> None:
        running = [
            instance
            for instance in self._cluster.ec2.instances()
            if instance.state is InstanceState.RUNNING
            and fnmatchcase(instance.choice.offering.capacity_type, event.capacity_type)
        ]
        # Other settings launch other types: then any instance of the capacity type is hit.
        matching = [instance for instance in running if _matches(instance, event)] or running
        number = event.count if event.share is None else max(1, round(len(matching) * event.share))
        number = min(number or 1, len(matching))
        if not matching:
            self._refuse("Interruptions that found no instance", f"{event.capacity_type} at t={event.t:g}")
        for position in range(number):
            self._cluster.ec2.interrupt(matching[position * len(matching) // number].id)

    @perform.register
    def _(self, event: CapacityError) -> None:
        self._cluster.ec2.capacity.add_limit(
            CapacityLimit(
                instance_type=event.instance_type,
                zone=event.zone,
                capacity_type=event.capacity_type,
                until=self._cluster.clock.now() + timedelta(seconds=event.seconds),
            )
        )

    @perform.register
    def _(self, event: Finish) -> None:
        """End an initial pod; other tasks have their run time from the start."""
        name, namespace = self._initial.get(event.id, ("", ""))
        if not name:
            return
        done = {"status": {"phase": "Succeeded"}}
        api = self._cluster.api

        def end() -> None:
            # Succeeded first: a pod of an unknown controller would be created again.
            api.patch(PODS, name, done, PatchType.MERGE, namespace, subresource="status")
            api.delete(PODS, name, namespace)

        self._attempt(f"Pod {namespace}/{name}", end)

    @perform.register
    def _(self, event: Gap) -> None:
        """Do nothing: the demand stays as it was."""

    def _own_fields(self, changed: Object) -> None:
        """Own what a recorded object had, so that an apply removes the fields that it has no more."""
        before = self._recorded.pop(get_key(changed), None)
        resource = find_resource(changed["apiVersion"], changed["kind"])
        if before is None or resource is None:
            return
        asked = clean(before)
        # Annotations stay unowned: controllers wrote most of them.
        meta = {key: value for key, value in asked["metadata"].items() if key != "annotations"}
        name, namespace = str(meta["name"]), str(meta.get("namespace", ""))
        api = self._cluster.api

        def own() -> None:
            api.track_fields(resource, name, namespace)
            api.apply(resource, {**asked, "metadata": meta}, namespace, manager=FIELD_MANAGER, force=True)

        # An object that was deleted meanwhile is created by the apply.
        if find_object(api, resource, name, namespace) is not None:
            self._attempt(f"{changed['kind']} {namespace}/{name}", own)

    def _watch(self) -> None:
        """Recreate evicted tasks, and delete finished ones."""
        if self._watching:
            return
        self._watching = True
        cluster = self._cluster
        UnknownControllers(cluster.api, cluster.clock)
        start_watch(cluster.api, cluster.clock, PODS, self._handle_pod)

    def _handle_pod(self, event: WatchEvent) -> None:
        pod = event.object
        meta = pod["metadata"]
        if event.type is EventType.DELETED or WORKLOAD not in (meta.get("annotations") or {}):
            return
        if get_field(pod, "status", "phase") in ("Succeeded", "Failed") and not meta.get("deletionTimestamp"):
            self._cluster.clock.call_later(_KEPT, partial(self._remove, meta["name"], meta["namespace"]))

    def _remove(self, name: str, namespace: str) -> None:
        try:
            self._cluster.api.delete(PODS, name, namespace)
        except NotFound:
            return  # Its node was deleted meanwhile.

    def _attempt(self, name: str, act: Callable[[], Any]) -> None:
        try:
            act()
        except NotFound:
            self._refuse("Events about objects that do not exist", name)
        except ApiError as error:
            self._refuse("Objects that the API server refused", f"{name}: {error}")

    def _refuse(self, what: str, example: str) -> None:
        self._refused[what] += 1
        self._examples.setdefault(what, example)


def _matches(instance: Ec2Instance, event: Interruption) -> bool:
    return fnmatchcase(instance.choice.instance_type.name, event.instance_type) and fnmatchcase(
        instance.choice.offering.zone, event.zone
    )


def _build_task(template: Template, seconds: float, number: int) -> Object:
    workload = template.workload or template.id
    base = _NAME.sub("-", workload.lower()).strip("-")[:50] or "task"
    meta = dict(template.template.get("metadata") or {})
    annotations = {**(meta.get("annotations") or {}), RUN_SECONDS: f"{seconds:.3f}", WORKLOAD: workload}
    built: Object = {
        "metadata": {
            "name": f"{base}-{number}",
            "namespace": template.namespace,
            "labels": meta.get("labels") or {},
            "annotations": annotations,
        },
        "spec": {**with_images(template.template["spec"]), "restartPolicy": "Never"},
    }
    if template.owner == "Job":
        # A controller that is not there: its pods are recreated when they are evicted.
        owner = {
            "apiVersion": MISSING,
            "kind": "Job",
            "name": workload,
            "uid": template.id,
            "controller": True,
        }
        built["metadata"]["ownerReferences"] = [owner]
    return built
