"""Number of virtual pods of a CapacityBuffer."""

from math import ceil

from dovetail.model.karpenter.capacitybuffer import CapacityBuffer
from dovetail.model.kube.resources import Resources


def count_buffer_pods(buffer: CapacityBuffer, *, workload_pods: int, requests: Resources) -> int:
    """Return the larger of replicas and percentage, as far as the limits allow.

    The percentage is of ``workload_pods``. With limits alone it is as many pods as
    they allow.
    """
    counts = []
    if buffer.replicas is not None:
        counts.append(buffer.replicas)
    if buffer.percentage is not None:
        counts.append(ceil(workload_pods * buffer.percentage / 100))
    limit = _count_within_limits(buffer.limits, requests)
    if not counts:
        return limit or 0
    return max(counts) if limit is None else min(max(counts), limit)


def _count_within_limits(limits: Resources, requests: Resources) -> int | None:
    """Return the number of pods that limits allow; None: no limit on requested resources."""
    counts = [limit // requests[name] for name, limit in limits.items() if requests.get(name)]
    return min(counts, default=None)
