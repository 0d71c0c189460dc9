"""For how many pods a buffer keeps room."""

from math import ceil

from dovetail.model.karpenter.capacitybuffer import CapacityBuffer
from dovetail.model.kube.resources import Resources


def room_for(buffer: CapacityBuffer, *, workload: int, requests: Resources) -> int:
    """Return the larger of number and share, as far as the limits allow.

    ``workload`` is how many pods the workload has that the share is of. With
    limits alone, as many as they allow.
    """
    wishes = []
    if buffer.replicas is not None:
        wishes.append(buffer.replicas)
    if buffer.percentage is not None:
        share = ceil(workload * buffer.percentage / 100)
        wishes.append(share)
    most = _within(buffer.limits, requests)
    if not wishes:
        return most or 0
    return max(wishes) if most is None else min(max(wishes), most)


def _within(limits: Resources, requests: Resources) -> int | None:
    """Return how many pods limits allow; None where they say nothing about what pods ask for."""
    counts = [limit // requests[name] for name, limit in limits.items() if requests.get(name)]
    return min(counts, default=None)
