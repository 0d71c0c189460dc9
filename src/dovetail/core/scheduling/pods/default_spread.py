"""Spread constraints for pods that state none (the scheduler's configuration)."""

from msgspec.structs import replace

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Owner, Pod, PodSpec, Spread
from dovetail.model.kube.requirements import RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import Controller, Service
from dovetail.model.snapshot import ClusterSnapshot


class DefaultSpreads:
    """Adds the default constraints, with a selector deduced from Services and owners."""

    def __init__(self, snapshot: ClusterSnapshot, spreads: tuple[Spread, ...]) -> None:
        self._spreads = spreads
        self._services: dict[str, list[Service]] = {}
        for service in snapshot.services:
            if service.selector:
                self._services.setdefault(service.namespace, []).append(service)
        self._controllers: dict[tuple[str, str, str], Controller] = {
            (one.kind, one.namespace, one.name): one for one in snapshot.controllers
        }
        self._known: dict[tuple[str, FrozenDict[str, str], Owner | None, PodSpec], PodSpec] = {}

    def spec_of(self, pod: Pod) -> PodSpec:
        """Return what a pod asks for, the defaults added where it states no spread."""
        if not self._spreads or pod.spec.spreads:
            return pod.spec
        key = (pod.namespace, pod.labels, pod.owner, pod.spec)
        spec = self._known.get(key)
        if spec is None:
            selector = self._selector(pod)
            spreads = tuple(replace(one, selector=selector) for one in self._spreads)
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
                return None  # Both cannot hold; such a selector would match nobody.
            labels.update(theirs.match_labels)
            expressions = theirs.expressions
        if not labels and not expressions:
            return None
        return LabelSelector(FrozenDict(labels), expressions)
