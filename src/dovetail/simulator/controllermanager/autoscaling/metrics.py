"""Metrics of HorizontalPodAutoscalers, from the load in their annotations.

Simulated pods use nothing. The annotation ``load.dovetail.sh/cpu: "4"`` of an autoscaler is the
load on all pods of its target together; so is one for memory and for every other metric name.
More pods share it, so that scaling has an effect.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final

import msgspec

from dovetail.model.kube.quantity import parse_quantity
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field

LOAD_PREFIX: Final = "load.dovetail.sh/"
_TOLERANCE: Final = 0.1
"""Share by which a metric may miss its target without scaling; Kubernetes' default."""
_RESOURCE_SOURCES: Final = {"Resource": "resource", "ContainerResource": "containerResource"}
_NAMED_SOURCES: Final = {"Pods": "pods", "Object": "object", "External": "external"}


class Proposal(msgspec.Struct, frozen=True):
    """Replicas that a metric asks for; None if its value is unknown."""

    replicas: int | None
    name: str
    status: Mapping[str, Any] | None = None
    """Entry of ``status.currentMetrics``."""
    problem: str = ""
    description: str = ""
    """The metric as Events name it."""


def propose_replicas(hpa: Object, pods: Sequence[Object], current: int) -> Iterator[Proposal]:
    """Yield what each metric of an autoscaler asks for."""
    annotations = hpa["metadata"].get("annotations") or {}
    for metric in get_field(hpa, "spec", "metrics") or ():
        kind = metric.get("type") or ""
        field = _RESOURCE_SOURCES.get(kind) or _NAMED_SOURCES.get(kind) or ""
        source = metric.get(field) or {}
        name = source.get("name") or get_field(source, "metric", "name") or ""
        load = _parse_load(annotations.get(f"{LOAD_PREFIX}{name}"))
        if load is None:
            yield Proposal(None, name, problem=f"no annotation {LOAD_PREFIX}{name}")
        elif kind in _RESOURCE_SOURCES:
            yield _propose_by_resource(metric, field, name, load, pods, current)
        else:
            yield _propose_by_value(metric, field, load, len(pods), current)


def _parse_load(text: str | None) -> float | None:
    try:
        return None if text is None else float(parse_quantity(text))
    except ValueError:
        return None


def _propose_by_resource(
    metric: Object, field: str, name: str, load: float, pods: Sequence[Object], current: int
) -> Proposal:
    target = metric[field].get("target") or {}
    if target.get("averageUtilization") is None:
        return _propose_by_value(metric, field, load, len(pods), current)
    requests = [_pod_request(pod, name, metric[field].get("container", "")) for pod in pods]
    if not pods or not all(requests):
        return Proposal(None, name, problem=f"missing request for {name}")
    requested = sum(requests)
    utilization = 100 * load / requested
    replicas = _scale(current, len(pods), utilization / target["averageUtilization"])
    value = {"averageUtilization": round(utilization), "averageValue": f"{round(1000 * load / len(pods))}m"}
    container = "container " if field == "containerResource" else ""
    described = f"{name} {container}resource utilization (percentage of request)"
    return Proposal(replicas, name, _current(metric, field, value), description=described)


def _propose_by_value(metric: Object, field: str, load: float, pods: int, current: int) -> Proposal:
    source = metric[field]
    name = source.get("name") or get_field(source, "metric", "name") or ""
    target = source.get("target") or {}
    if target.get("averageValue") is not None:
        wanted = float(parse_quantity(target["averageValue"]))
        ratio = load / (wanted * current) if wanted and current else 0.0
        replicas = _scale(current, current, ratio)
        value = {"averageValue": f"{round(1000 * load / max(current, 1))}m"}
    else:
        wanted = float(parse_quantity(target.get("value") or "1"))
        replicas = _scale(current, pods, load / wanted if wanted else 0.0)
        value = {"value": f"{round(1000 * load)}m"}
    return Proposal(replicas, name, _current(metric, field, value), description=_describe(field, name))


def _describe(field: str, name: str) -> str:
    if field in _RESOURCE_SOURCES.values():
        return f"{name} {'container ' if field == 'containerResource' else ''}resource"
    return f"{field} metric {name}"


def _scale(current: int, pods: int, ratio: float) -> int:
    if abs(ratio - 1) <= _TOLERANCE:
        return current
    # The last digits of a product of floating-point numbers would round up.
    return ceil(round(ratio * pods, 6))


def _current(metric: Object, field: str, value: Mapping[str, Any]) -> dict[str, Any]:
    source = metric[field]
    names = ("name", "container", "metric", "describedObject")
    return {
        "type": metric["type"],
        field: {**{name: source[name] for name in names if name in source}, "current": value},
    }


def _pod_request(pod: Object, resource: str, container: str) -> float:
    return sum(
        float(parse_quantity(get_field(spec, "resources", "requests", resource) or 0))
        for spec in pod["spec"].get("containers") or ()
        if not container or spec.get("name") == container
    )
