"""Total requests of a pod, computed as Kubernetes does."""

from collections.abc import Sequence

import msgspec

from dovetail.model.kube.resources import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    NO_RESOURCES,
    ONE_POD,
    Resources,
    sum_resources,
)


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """Requests and limits of a container."""

    requests: Resources = NO_RESOURCES
    limits: Resources = NO_RESOURCES
    is_sidecar: bool = False
    """An init container with ``restartPolicy: Always``, which keeps running."""
    allocated: Resources = NO_RESOURCES
    """Allocated resources from the kubelet (in-place resize); empty if not reported."""

    def effective_requests(self) -> Resources:
        """Return the maximum of requests and allocated resources."""
        return self.requests.maximum(self.allocated)

    def with_default_requests(self) -> "Container":
        """Return a copy whose missing requests are its limits, as the API server does."""
        return msgspec.structs.replace(self, requests=Resources({**self.limits, **self.requests}))


class PodResources(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of a pod template, from which the requests of its pods are computed."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Resources = NO_RESOURCES
    pod_level: Resources = NO_RESOURCES
    runtime_class: str = ""

    def total(self) -> Resources:
        """Return the requests that the node must have free, ``pods: 1`` included."""
        return compute_pod_requests(
            self.containers, self.init_containers, overhead=self.overhead, pod_level=self.pod_level
        )


def compute_pod_requests(
    containers: Sequence[Container],
    init_containers: Sequence[Container] = (),
    *,
    overhead: Resources = NO_RESOURCES,
    pod_level: Resources = NO_RESOURCES,
) -> Resources:
    """Return the requests that the node must have free, ``pods: 1`` included.

    Init containers run one after the other, each beside the sidecars started
    before it; containers run beside all sidecars. The result is the maximum over
    these steps. Pod-level requests replace the sum for the resources they name.
    """
    running = sum_resources(container.effective_requests() for container in containers)
    sidecars = NO_RESOURCES
    needed = NO_RESOURCES
    for container in init_containers:
        concurrent = sidecars + container.effective_requests()
        needed = needed.maximum(concurrent)
        if container.is_sidecar:
            sidecars = concurrent
    needed = needed.maximum(running + sidecars)
    replaced = {
        name: amount
        for name, amount in pod_level.items()
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)
    }
    return Resources({**needed, **replaced}) + overhead + ONE_POD
