"""Decoders of autoscalers of pods: HorizontalPodAutoscaler and KEDA's ScaledObject."""

import msgspec

from dovetail.codec.fields import Field
from dovetail.codec.kube.metadata import decode_metadata
from dovetail.codec.kube.workloads import MAX_REPLICAS

_KEDA_MAXIMUM = 100
"""``maxReplicaCount`` of a ScaledObject without one."""


class PodAutoscaler(msgspec.Struct, frozen=True, kw_only=True):
    """An autoscaler: the workload it scales, and the range of its replicas."""

    kind: str
    namespace: str
    name: str
    target: tuple[str, str]
    """Kind and name of the workload."""
    low: int
    high: int

    @property
    def target_key(self) -> tuple[str, str, str]:
        kind, name = self.target
        return (kind, self.namespace, name)


def decode_horizontal_pod_autoscaler(root: Field) -> PodAutoscaler:
    """Decode an autoscaling/v1 or v2 HorizontalPodAutoscaler."""
    meta, spec = decode_metadata(root), root["spec"]
    spec["maxReplicas"].check_required()
    return _autoscaler(
        "HorizontalPodAutoscaler",
        meta.namespace,
        meta.name,
        spec["scaleTargetRef"],
        low=spec["minReplicas"].integer(low=0, high=MAX_REPLICAS),
        high=spec["maxReplicas"],
        defaults=(1, 1),
    )


def decode_scaled_object(root: Field) -> PodAutoscaler:
    """Decode a keda.sh/v1alpha1 ScaledObject."""
    meta, spec = decode_metadata(root), root["spec"]
    low = spec["minReplicaCount"].integer(low=0, high=MAX_REPLICAS)
    return _autoscaler(
        "ScaledObject",
        meta.namespace,
        meta.name,
        spec["scaleTargetRef"],
        low=low,
        high=spec["maxReplicaCount"],
        defaults=(0, _KEDA_MAXIMUM),
    )


def _autoscaler(
    kind: str,
    namespace: str,
    name: str,
    target: Field,
    *,
    low: int | None,
    high: Field,
    defaults: tuple[int, int],
) -> PodAutoscaler:
    target["name"].check_required()
    lowest = defaults[0] if low is None else low
    given = high.integer(low=1, high=MAX_REPLICAS)
    highest = max(lowest, defaults[1]) if given is None else given
    if highest < lowest:
        high.add_error(f"is {highest}, but the minimum is {lowest}")
    return PodAutoscaler(
        kind=kind,
        namespace=namespace,
        name=name,
        target=(target["kind"].text("Deployment"), target["name"].text()),
        low=lowest,
        high=highest,
    )
