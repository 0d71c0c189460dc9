"""Admission of new pods: LimitRange defaults and RuntimeClass overhead.

Pods that exist have been admitted. Pods that a template will create have not: their
requests in the template can be lower than those they get.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain

import msgspec
from msgspec.structs import replace

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.pod_requests import Container, PodResources, compute_pod_requests
from dovetail.model.kube.quantity import format_amount
from dovetail.model.kube.resources import NO_RESOURCES, ONE_POD, Resources
from dovetail.model.kube.taints import Toleration


class LimitType(StrEnum):
    """``type`` of an item of a LimitRange; that of volume claims does not matter here."""

    CONTAINER = "Container"
    POD = "Pod"


class LimitRangeItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a LimitRange: defaults of containers, and constraints."""

    type: LimitType
    default_limits: Resources = NO_RESOURCES
    default_requests: Resources = NO_RESOURCES
    min: Resources = NO_RESOURCES
    max: Resources = NO_RESOURCES
    max_ratio: FrozenDict[str, float] = FrozenDict()
    """Maximum limit, as a multiple of the request."""

    def with_defaults(self) -> "LimitRangeItem":
        """Return it as the API server stores it: maxima are default limits, those default requests."""
        if self.type is not LimitType.CONTAINER:
            return self
        limits = Resources({**self.max, **self.default_limits})
        requests = Resources({**self.min, **limits, **self.default_requests})
        return replace(self, default_limits=limits, default_requests=requests)


class LimitRange(msgspec.Struct, frozen=True, kw_only=True):
    """A core/v1 LimitRange."""

    namespace: str
    name: str
    items: tuple[LimitRangeItem, ...] = ()

    def default_containers(self, resources: PodResources) -> PodResources:
        """Return the resources with the defaults of this LimitRange, init containers included."""
        limits: dict[str, int] = {}
        requests: dict[str, int] = {}
        for item in self.items:
            if item.type is LimitType.CONTAINER:
                limits |= item.default_limits
                requests |= item.default_requests
        if not limits and not requests:
            return resources

        def apply(container: Container) -> Container:
            return replace(
                container,
                limits=Resources({**limits, **container.limits}),
                requests=Resources({**requests, **container.requests}),
            )

        return replace(
            resources,
            containers=tuple(map(apply, resources.containers)),
            init_containers=tuple(map(apply, resources.init_containers)),
        )

    def find_violation(self, resources: PodResources) -> str:
        """Return why admission rejects a pod with these resources; empty if it does not."""
        for item in self.items:
            constrained: Iterable[tuple[Resources, Resources]]
            if item.type is LimitType.POD:
                constrained = [_pod_totals(resources)]
            else:
                containers = chain(resources.containers, resources.init_containers)
                constrained = ((container.requests, container.limits) for container in containers)
            for requests, limits in constrained:
                violation = next(filter(None, _find_violations(item, requests, limits)), "")
                if violation:
                    return f"LimitRange {self.name}: per {item.type}, {violation}"
        return ""


class RuntimeClass(msgspec.Struct, frozen=True, kw_only=True):
    """A node.k8s.io/v1 RuntimeClass."""

    name: str
    overhead: Resources = NO_RESOURCES
    node_selector: FrozenDict[str, str] = EMPTY
    tolerations: tuple[Toleration, ...] = ()


class AdmittedPod(msgspec.Struct, frozen=True):
    """A pod as admission changes it, or why it is rejected."""

    pod: Pod
    rejection: str = ""


class PodAdmission:
    """The LimitRanges and RuntimeClasses of a cluster, applied to pods of templates."""

    def __init__(
        self, limit_ranges: Iterable[LimitRange] = (), runtime_classes: Iterable[RuntimeClass] = ()
    ) -> None:
        self._limit_ranges: dict[str, list[LimitRange]] = {}
        # Of two defaults for one resource, the API server takes any; here the first by name.
        for limit_range in sorted(limit_ranges, key=lambda limit_range: limit_range.name):
            self._limit_ranges.setdefault(limit_range.namespace, []).append(limit_range)
        self._runtime_classes = {runtime_class.name: runtime_class for runtime_class in runtime_classes}

    def admit(self, pod: Pod, resources: PodResources | None) -> AdmittedPod:
        """Return a pod of a template as it will exist; ``resources`` are those of the template."""
        if resources is None:
            return AdmittedPod(pod)
        limit_ranges = self._limit_ranges.get(pod.namespace, ())
        runtime_class = self._runtime_classes.get(resources.runtime_class)
        if not limit_ranges and runtime_class is None:
            return AdmittedPod(pod)
        for limit_range in limit_ranges:
            resources = limit_range.default_containers(resources)
        rejection = next(filter(None, (each.find_violation(resources) for each in limit_ranges)), "")
        spec = pod.spec
        if runtime_class is not None:
            resources = replace(resources, overhead=resources.overhead or runtime_class.overhead)
            spec = replace(
                spec,
                node_selector=spec.node_selector.with_items(runtime_class.node_selector),
                tolerations=tuple(dict.fromkeys((*spec.tolerations, *runtime_class.tolerations))),
            )
        return AdmittedPod(replace(pod, spec=replace(spec, requests=resources.total())), rejection)


def _pod_totals(resources: PodResources) -> tuple[Resources, Resources]:
    """Return requests and limits of a pod as a LimitRange counts them: without overhead."""
    requests = replace(resources, overhead=NO_RESOURCES).total() - ONE_POD
    limits = compute_pod_requests(
        [Container(requests=container.limits) for container in resources.containers],
        [
            Container(requests=container.limits, is_sidecar=container.is_sidecar)
            for container in resources.init_containers
        ],
    )
    return requests.without_zeros(), (limits - ONE_POD).without_zeros()


def _find_violations(item: LimitRangeItem, requests: Resources, limits: Resources) -> Iterator[str]:
    for name, minimum in item.min.items():
        yield _find_too_little(name, minimum, requests, limits)
    for name, maximum in item.max.items():
        yield _find_too_much(name, maximum, requests, limits)
    for name, ratio in item.max_ratio.items():
        request, limit = requests.get(name, 0), limits.get(name, 0)
        if not request or not limit or limit > ratio * request:
            yield f"the limit of {name} may be at most {ratio:g} times the request"


def _find_too_little(name: str, minimum: int, requests: Resources, limits: Resources) -> str:
    least = f"the minimum of {name} is {format_amount(name, minimum)}"
    if name not in requests:
        return f"{least}, but no request is set"
    if requests[name] < minimum:
        return f"{least}, but the request is {format_amount(name, requests[name])}"
    if limits.get(name, minimum) < minimum:
        return f"{least}, but the limit is {format_amount(name, limits[name])}"
    return ""


def _find_too_much(name: str, maximum: int, requests: Resources, limits: Resources) -> str:
    most = f"the maximum of {name} is {format_amount(name, maximum)}"
    if name not in limits:
        return f"{most}, but no limit is set"
    if limits[name] > maximum:
        return f"{most}, but the limit is {format_amount(name, limits[name])}"
    if requests.get(name, 0) > maximum:
        return f"{most}, but the request is {format_amount(name, requests[name])}"
    return ""
