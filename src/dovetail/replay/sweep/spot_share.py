"""Spot share: how much of the demand of a trace may run on spot nodes.

The rest gets a node affinity that excludes spot. Tasks are divided one by one. A workload
cannot be divided: whole workloads are chosen in the order of a hash of their names, so that
equal traces give equal choices, and a higher share only adds workloads to those on spot.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from dovetail.codec.kube.pod_specs import decode_template_resources
from dovetail.model import labels as label_keys
from dovetail.replay.generated import ObjectKey, find_generated, get_key
from dovetail.trace.model import Delete, Event, Initial, Interruption, Object, Scale, Set, Tasks, Template
from dovetail.trace.reader import Trace

ON_DEMAND_SUFFIX: Final = "/on-demand"
"""Of the ID of a template whose tasks must not run on spot."""
_WORKLOADS: Final = frozenset(("Deployment", "StatefulSet", "ReplicaSet", "Job", "Pod"))
_NOT_SPOT: Final = {"key": label_keys.CAPACITY_TYPE, "operator": "NotIn", "values": [label_keys.SPOT]}
_MEMORY_PER_VCPU: Final = 4 * 2**30
"""Bytes that count as one vCPU, as in general-purpose instance types."""
_NOTED_DIFFERENCE: Final = 0.02
"""From the share that was asked for; less is not reported."""


class SpotShare(msgspec.Struct, frozen=True):
    """A trace, and objects of files, of which a share of the demand may run on spot."""

    trace: Trace
    manifests: tuple[Object, ...]
    reached: float
    """Share of the divisible demand; workloads cannot be divided, so that it may differ."""


def limit_spot(trace: Trace, manifests: Iterable[Object], share: float) -> SpotShare:
    """Exclude spot for the demand beyond ``share``, from 0 to 1.

    Pods whose node selector or required affinity names a capacity type are left as they are.
    """
    files = tuple(manifests)
    demand = _measure_workloads(trace, files)
    excluded, weight = _choose_on_demand(demand, 1.0 - share)
    tasks = _measure_tasks(trace)
    total = sum(demand.values()) + tasks
    on_spot = sum(demand.values()) - weight + tasks * share
    return SpotShare(
        trace=replace(trace, events=tuple(_split_events(trace.events, excluded, 1.0 - share))),
        manifests=tuple(_exclude_from_workload(obj) if get_key(obj) in excluded else obj for obj in files),
        reached=on_spot / total if total else share,
    )


def describe_shares(trace: Trace, manifests: Iterable[Object], shares: Iterable[str]) -> Iterator[str]:
    """Yield what a report must say about these values of the key."""
    values = list(shares)
    files = tuple(manifests)
    if not values:
        return
    for text in values:
        reached = limit_spot(trace, files, float(text)).reached
        if abs(reached - float(text)) >= _NOTED_DIFFERENCE:
            yield (
                f"spotShare={text}: workloads with {reached:.0%} of the demand may run on spot; "
                "a workload is not divided."
            )
    if not any(
        isinstance(event, Interruption) and event.capacity_type != "on-demand" for event in trace.events
    ):
        yield "The trace has no spot interruptions: spot nodes run undisturbed in every replay."


def _choose_on_demand(demand: Mapping[ObjectKey, float], share: float) -> tuple[frozenset[ObjectKey], float]:
    """Return the workloads that must not run on spot, and their demand."""
    limit = share * sum(demand.values())
    chosen: set[ObjectKey] = set()
    before = 0.0
    for key in sorted(demand, key=_hash):
        # The nearer of both sums, so that workloads do not all err on one side.
        if before + demand[key] / 2 >= limit:
            break
        chosen.add(key)
        before += demand[key]
    return frozenset(chosen), before


def _hash(key: ObjectKey) -> bytes:
    return blake2b("/".join(key).encode(), digest_size=16).digest()


# -- Measure ---------------------------------------------------------------------------------


def _measure_workloads(trace: Trace, manifests: Iterable[Object]) -> dict[ObjectKey, float]:
    """Return the demand of each workload that may be chosen, in vCPU seconds."""
    meter = _WorkloadMeter()
    for obj in manifests:
        meter.set(obj, 0.0)
    # A workload of another one counts with it.
    generated = find_generated(event.object for event in trace.events if isinstance(event, Initial))
    known = frozenset(meter.demand) | generated
    for event in trace.events:
        match event:
            case Initial(object=obj) | Set(object=obj) if get_key(obj) not in known:
                meter.set(obj, event.t)
            case Scale():
                meter.scale((event.kind, event.namespace, event.name), event.t, event.replicas)
            case Delete():
                meter.scale((event.kind, event.namespace or "default", event.name), event.t, 0)
    for key in meter.demand:
        meter.scale(key, trace.seconds, 0)
    return meter.demand


class _WorkloadMeter:
    """Adds up the demand of workloads over time."""

    def __init__(self) -> None:
        self.demand: dict[ObjectKey, float] = {}
        """vCPU seconds."""
        self._running: dict[ObjectKey, tuple[float, float, int]] = {}
        """Time of the last change, size of a pod and number of pods since then."""

    def set(self, obj: Object, at: float) -> None:
        """Note a workload that is created or replaced."""
        if _is_divisible(obj):
            key = get_key(obj)
            self.scale(key, at, 0)
            self.demand.setdefault(key, 0.0)
            self._running[key] = (at, _measure_pod(_get_pod_spec(obj)), _get_replicas(obj))

    def scale(self, key: ObjectKey, at: float, number: int) -> None:
        """Note another number of replicas."""
        if key in self._running:
            since, size, before = self._running[key]
            self.demand[key] += before * size * max(0.0, at - since)
            self._running[key] = (at, size, number)


def _measure_tasks(trace: Trace) -> float:
    """Return the demand of all tasks that may be divided, in vCPU seconds."""
    sizes: dict[str, float] = {}
    demand = 0.0
    for event in trace.events:
        if isinstance(event, Template) and not _names_capacity_type(event.template["spec"]):
            sizes[event.id] = _measure_pod(event.template["spec"])
        elif isinstance(event, Tasks) and event.template in sizes:
            seconds = trace.seconds - event.t if event.seconds is None else event.seconds
            demand += event.count * seconds * sizes[event.template]
    return demand


def _measure_pod(spec: Mapping[str, Any]) -> float:
    """Return the size of a pod in vCPUs: the mean of CPU and of memory."""
    requests = decode_template_resources(spec).total()
    vcpus = float(requests.get("cpu", 0)) / 1000
    return (vcpus + float(requests.get("memory", 0)) / _MEMORY_PER_VCPU) / 2


def _get_replicas(obj: Object) -> int:
    spec = obj["spec"]
    number = spec.get("parallelism") if obj["kind"] == "Job" else spec.get("replicas")
    return number if isinstance(number, int) else 1


def _is_divisible(obj: Object) -> bool:
    """Return True for a workload or a bare pod, without a choice of its own."""
    is_bare = obj["kind"] != "Pod" or not obj["metadata"].get("ownerReferences")
    if obj["kind"] not in _WORKLOADS or not is_bare:
        return False
    spec = _get_pod_spec(obj)
    return bool(spec) and not _names_capacity_type(spec)


def _get_pod_spec(obj: Object) -> Mapping[str, Any]:
    """Return the spec of a workload's pods; empty: it has none."""
    spec = obj.get("spec") or {}
    if obj["kind"] != "Pod":
        spec = (spec.get("template") or {}).get("spec") or {}
    return spec if isinstance(spec, Mapping) else {}


def _names_capacity_type(spec: Mapping[str, Any]) -> bool:
    if label_keys.CAPACITY_TYPE in (spec.get("nodeSelector") or {}):
        return True
    return any(
        expression.get("key") == label_keys.CAPACITY_TYPE
        for term in _get_node_terms(spec)
        for expression in term.get("matchExpressions") or ()
    )


def _get_node_terms(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the terms of the required node affinity."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or ())


# -- Change ----------------------------------------------------------------------------------


def _split_events(events: Iterable[Event], excluded: frozenset[ObjectKey], share: float) -> Iterator[Event]:
    """Yield the events; of tasks, a share of templates that exclude spot."""
    divided: set[str] = set()
    part = Fraction(share).limit_denominator(1_000_000)
    counted = 0
    for event in events:
        match event:
            case Initial(object=obj) | Set(object=obj) if _is_divisible(obj) and get_key(obj) in excluded:
                yield replace(event, object=_exclude_from_workload(obj))
            case Template() if not _names_capacity_type(event.template["spec"]):
                divided.add(event.id)
                yield event
                template = {**event.template, "spec": _exclude_spot(event.template["spec"])}
                yield replace(event, id=event.id + ON_DEMAND_SUFFIX, template=template)
            case Tasks() if event.template in divided:
                # Running totals: the share is reached however many tasks each event has.
                on_demand = int((counted + event.count) * part) - int(counted * part)
                counted += event.count
                if event.count > on_demand:
                    yield replace(event, count=event.count - on_demand)
                if on_demand:
                    yield replace(event, count=on_demand, template=event.template + ON_DEMAND_SUFFIX)
            case _:
                yield event


def _exclude_from_workload(obj: Object) -> Object:
    if obj["kind"] == "Pod":
        return {**obj, "spec": _exclude_spot(obj["spec"])}
    template = obj["spec"]["template"]
    changed = {**template, "spec": _exclude_spot(template["spec"])}
    return {**obj, "spec": {**obj["spec"], "template": changed}}


def _exclude_spot(spec: Mapping[str, Any]) -> Object:
    """Return a pod spec with the requirement in each term of its node affinity."""
    terms = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), _NOT_SPOT]}
        for term in _get_node_terms(spec) or [{}]
    ]
    affinity = spec.get("affinity") or {}
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}
