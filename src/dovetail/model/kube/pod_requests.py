"""What a pod requests in total, computed as Kubernetes does."""

from collections.abc import Sequence

import msgspec

from dovetail.model.kube.resources import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    NOTHING,
    ONE_POD,
    Resources,
    total,
)


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container's demands."""

    requests: Resources = NOTHING
    limits: Resources = NOTHING
    sidecar: bool = False
    """An init container with ``restartPolicy: Always``: it stays."""
    allocated: Resources = NOTHING
    """What the kubelet has granted (in-place resize); none when not reported."""

    def effective(self) -> Resources:
        """Return the larger of what is asked for and what is granted."""
        return self.requests.at_least(self.allocated)

    def defaulted(self) -> "Container":
        """Fill missing requests from limits, as the API server does for pods."""
        return msgspec.structs.replace(self, requests=Resources({**self.limits, **self.requests}))


def pod_requests(
    containers: Sequence[Container],
    init_containers: Sequence[Container] = (),
    *,
    overhead: Resources = NOTHING,
    pod_level: Resources = NOTHING,
) -> Resources:
    """Return the requests that a node must hold, ``pods: 1`` included.

    Init containers run one after the other, each beside the sidecars started
    before it; containers run beside all sidecars. The pod needs the largest
    stage. Pod-level requests replace the sum for the resources they name.
    """
    running = total(one.effective() for one in containers)
    sidecars = NOTHING
    needed = NOTHING
    for one in init_containers:
        stage = sidecars + one.effective()
        needed = needed.at_least(stage)
        if one.sidecar:
            sidecars = stage
    needed = needed.at_least(running + sidecars)
    replaced = {
        name: amount
        for name, amount in pod_level.items()
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)
    }
    return Resources({**needed, **replaced}) + overhead + ONE_POD
