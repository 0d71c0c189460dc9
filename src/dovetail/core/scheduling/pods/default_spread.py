"""Default topology spread constraints for pods that have none.

As in the kube-scheduler configuration (PodTopologySpread, ``defaultConstraints``).
"""

from msgspec.structs import replace

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import OwnerReference, Pod, PodSpec, TopologySpreadConstraint
from dovetail.model.kube.requirements import RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import Service, WorkloadController
from dovetail.model.snapshot import ClusterSnapshot


class DefaultSpreads:
    """Adds default constraints, with a selector from Services and the pod's controller."""

    def __init__(self, snapshot: ClusterSnapshot, spreads: tuple[TopologySpreadConstraint, ...]) -> None:
        self._spreads = spreads
        self._services: dict[str, list[Service]] = {}
        for service in snapshot.services:
            if service.selector:
                self._services.setdefault(service.namespace, []).append(service)
        self._controllers: dict[tuple[str, str, str], WorkloadController] = {
            (controller.kind, controller.namespace, controller.name): controller
            for controller in snapshot.workload_controllers
        }
        self._known: dict[tuple[str, FrozenDict[str, str], OwnerReference | None, PodSpec], PodSpec] = {}

    def spec_of(self, pod: Pod) -> PodSpec:
        """Return the spec of a pod, with default spreads if it has none."""
        if not self._spreads or pod.spec.spreads:
            return pod.spec
        key = (pod.namespace, pod.labels, pod.owner, pod.spec)
        spec = self._known.get(key)
        if spec is None:
            selector = self._selector(pod)
            spreads = tuple(replace(spread, selector=selector) for spread in self._spreads)
            spec = replace(pod.spec, spreads=spreads) if selector else pod.spec
            self._known[key] = spec
        return spec

    def _selector(self, pod: Pod) -> LabelSelector | None:
        labels: dict[str, str] = {}
        for service in self._services.get(pod.namespace, ()):
            if all(pod.labels.get(k) == v for k, v in service.selector.items()):
                labels.update(service.selector)
        owner = pod.owner
        controller = None
        if owner is not None and owner.controller:
            controller = self._controllers.get((owner.kind, pod.namespace, owner.name))
        expressions: tuple[RequirementSpec, ...] = ()
        if controller is not None and controller.selector is not None:
            theirs = controller.selector
            if controller.kind != "ReplicationController" and any(
                labels.get(k, v) != v for k, v in theirs.match_labels.items()
            ):
                return None  # Contradictory labels: the selector would match no pod.
            labels.update(theirs.match_labels)
            expressions = theirs.expressions
        if not labels and not expressions:
            return None
        return LabelSelector(FrozenDict(labels), expressions)
