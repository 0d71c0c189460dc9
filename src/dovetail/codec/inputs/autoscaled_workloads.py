"""Replicas of workloads that an autoscaler scales."""

from enum import StrEnum

import msgspec

from dovetail.codec.inputs.collection import Collection
from dovetail.codec.inputs.replicas import WORKLOADS
from dovetail.codec.kube.autoscalers import PodAutoscaler
from dovetail.codec.kube.workloads import Workload
from dovetail.codec.text.suggestions import join_first

AUTOSCALERS = ("HorizontalPodAutoscaler", "ScaledObject")


class ReplicaSource(StrEnum):
    """Number of replicas to plan for an autoscaled workload."""

    SPEC = "spec"
    """That of the workload, within the range of its autoscaler."""
    MIN = "min"
    MAX = "max"


def scale_workloads(manifests: Collection, live: Collection, source: ReplicaSource) -> list[str]:
    """Set the replicas of autoscaled workloads of the manifests, in place; return notes."""
    autoscalers: dict[tuple[str, str, str], PodAutoscaler] = {
        autoscaler.target_key: autoscaler
        for collection in (live, manifests)
        for kind in AUTOSCALERS
        for autoscaler in collection.models(kind)
    }
    planned = []
    for key, decoded in manifests.objects.items():
        autoscaler = autoscalers.get(key)
        if autoscaler is None or decoded.kind not in WORKLOADS:
            continue
        replicas = _choose(decoded.model, live.model(*key), autoscaler, source)
        model = msgspec.structs.replace(decoded.model, replicas=replicas, has_replica_count=True)
        manifests.objects[key] = msgspec.structs.replace(decoded, model=model)
        planned.append(f"{decoded.name} {replicas:,} ({autoscaler.low:,} to {autoscaler.high:,})")
    notes = []
    if planned:
        others = ", ".join(f"--replicas {other}" for other in ReplicaSource if other is not source)
        notes.append(f"autoscaled workloads with their replicas ({others}): {join_first(planned)}")
    missing = [
        f"{autoscaler.kind} {autoscaler.namespace}/{autoscaler.name} ({' '.join(autoscaler.target)})"
        for kind in AUTOSCALERS
        for autoscaler in manifests.models(kind)
        if autoscaler.target_key not in manifests.objects and autoscaler.target_key not in live.objects
    ]
    if missing:
        notes.append(f"autoscalers whose target is not given: {join_first(missing)}")
    return notes


def _choose(
    workload: Workload, current: Workload | None, autoscaler: PodAutoscaler, source: ReplicaSource
) -> int:
    if source is ReplicaSource.MIN:
        return autoscaler.low
    if source is ReplicaSource.MAX:
        return autoscaler.high
    replicas = workload.replicas
    if not workload.has_replica_count and current is not None:
        replicas = current.replicas
    return max(autoscaler.low, min(replicas, autoscaler.high))
