"""Horizontal pod autoscaler controller."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import HORIZONTAL_POD_AUTOSCALERS, PODS, Resource, find_resource
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.conditions import get_conditions, set_condition
from dovetail.simulator.apiserver.options import ListOptions, PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.autoscaling.behavior import ScalingHistory
from dovetail.simulator.controllermanager.autoscaling.metrics import Proposal, propose_replicas
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.controller import Controller

_SYNC_PERIOD: Final = timedelta(seconds=15)


class _Decision(msgspec.Struct, frozen=True):
    """Replicas to scale to, and the conditions and metrics that explain it."""

    replicas: int
    conditions: tuple[tuple[str, bool, str, str], ...]
    """Type, status, reason and message."""
    metrics: tuple[Mapping[str, Any], ...] = ()
    reason: str = ""
    """Why the replicas change."""


class HorizontalPodAutoscalerController(Controller):
    """Scales the targets of HorizontalPodAutoscalers every 15 s."""

    resource = HORIZONTAL_POD_AUTOSCALERS

    def __init__(self, context: ManagerContext) -> None:
        super().__init__(context)
        self._histories: dict[ObjectKey, ScalingHistory] = {}
        self._seen: dict[ObjectKey, tuple[object, ...]] = {}
        """UID, generation and annotations, which have the load."""
        self._events = context.events_of("horizontal-pod-autoscaler")

    def _handle_event(self, event: WatchEvent) -> None:
        if event.type is not EventType.DELETED:
            key, meta = object_key(event.object), event.object["metadata"]
            seen = meta["uid"], meta.get("generation"), meta.get("annotations")
            if self._seen.get(key) == seen:
                # Only the status has changed: the next sync is due after the period.
                return
            self._seen[key] = seen
        super()._handle_event(event)

    def _forget(self, key: ObjectKey) -> None:
        super()._forget(key)
        self._histories.pop(key, None)
        self._seen.pop(key, None)

    def _sync(self, key: ObjectKey) -> None:
        hpa = self._context.find(HORIZONTAL_POD_AUTOSCALERS, key)
        if hpa is None:
            return
        self._queue.add(key, after=_SYNC_PERIOD)
        reference = get_field(hpa, "spec", "scaleTargetRef") or {}
        target = self._find_target(reference)
        try:
            if target is None:
                raise LookupError(f"no matches for kind {reference.get('kind')!r} with a scale subresource")
            scale = self._context.api.get(target, reference.get("name", ""), key[0], subresource="scale")
        except (ApiError, LookupError) as error:
            message = f"the HPA controller was unable to get the target's current scale: {error}"
            condition = ("AbleToScale", False, "FailedGetScale", message)
            self._write_status(hpa, _Decision(0, (condition,)), current=0)
            return
        self._reconcile(hpa, key, target, scale)

    def _find_target(self, reference: Mapping[str, Any]) -> Resource | None:
        api_version, kind = reference.get("apiVersion", ""), reference.get("kind", "")
        resource = find_resource(api_version, kind)
        if resource is None:
            versions = self._context.api.custom_kinds.versions()
            resource = next(
                (
                    version.storage
                    for version in versions
                    if (version.resource.api_version, version.resource.kind) == (api_version, kind)
                ),
                None,
            )
        return resource if resource is not None and "scale" in resource.subresources else None

    def _reconcile(self, hpa: Object, key: ObjectKey, target: Resource, scale: Object) -> None:
        current = get_field(scale, "spec", "replicas") or 0
        history = self._histories.setdefault(key, ScalingHistory())
        decision = self._decide(hpa, key, scale, current, history)
        if decision.replicas != current:
            name, replicas = scale["metadata"]["name"], {"spec": {"replicas": decision.replicas}}
            self._context.api.patch(target, name, replicas, PatchType.MERGE, key[0], subresource="scale")
            history.record_change(self._context.now(), decision.replicas - current)
            message = f"New size: {decision.replicas}; reason: {decision.reason}"
            self._events.record(HORIZONTAL_POD_AUTOSCALERS, hpa, "SuccessfulRescale", message)
        self._write_status(hpa, decision, current=current)

    def _decide(
        self, hpa: Object, key: ObjectKey, scale: Object, current: int, history: ScalingHistory
    ) -> _Decision:
        spec = hpa["spec"]
        low, high = spec.get("minReplicas") or 1, spec["maxReplicas"]
        able = ("AbleToScale", True, "ReadyForNewScale", "recommended size matches current size")
        if not current:
            message = "scaling is disabled since the replica count of the target is zero"
            return _Decision(0, (able, ("ScalingActive", False, "ScalingDisabled", message)))
        proposals = tuple(propose_replicas(hpa, self._ready_pods(key[0], scale), current))
        metrics = tuple(proposal.status for proposal in proposals if proposal.status is not None)
        active = _scaling_active(proposals)
        if not low <= current <= high:
            bounded = max(low, min(current, high))
            bound = "above Spec.MaxReplicas" if current > high else "below Spec.MinReplicas"
            reason = f"Current number of replicas {bound}"
            return _Decision(bounded, (able, active, _limited(current, low, high)), metrics, reason)
        known = [proposal.replicas for proposal in proposals if proposal.replicas is not None]
        # A missing metric may hide load: it does not allow to scale down.
        desired = max(known, default=current)
        if len(known) < len(proposals):
            desired = max(desired, current)
        allowed = history.limit(spec.get("behavior"), self._context.now(), current, desired)
        bounded = max(low, min(allowed, high))
        return _Decision(
            bounded,
            (able, active, _limited(desired, low, high)),
            metrics,
            _explain_change(proposals, current),
        )

    def _ready_pods(self, namespace: str, scale: Object) -> list[Object]:
        options = ListOptions(namespace=namespace, label_selector=scale["status"].get("selector") or "")
        return [
            pod
            for pod in self._context.api.list(PODS, options).items
            if any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in get_conditions(pod)
            )
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def _write_status(self, hpa: Object, decision: _Decision, *, current: int) -> None:
        now, conditions = self._context.timestamp(), list(get_conditions(hpa))
        for kind, is_true, reason, message in decision.conditions:
            condition = {"type": kind, "status": str(is_true), "reason": reason, "message": message}
            conditions = list(set_condition(conditions, condition, now=now))
        status = {
            **(hpa.get("status") or {}),
            "observedGeneration": hpa["metadata"].get("generation", 1),
            "currentReplicas": current,
            "desiredReplicas": decision.replicas,
            "currentMetrics": list(decision.metrics),
            "conditions": conditions,
        }
        if decision.replicas != current:
            status["lastScaleTime"] = now
        self._context.update_status(HORIZONTAL_POD_AUTOSCALERS, hpa, status)


def _explain_change(proposals: Sequence[Proposal], current: int) -> str:
    """Return why replicas change: the metric that asks for most, or that none asks for more."""
    most = max(proposals, key=lambda proposal: proposal.replicas or 0, default=None)
    if most is None or (most.replicas or 0) <= current:
        return "All metrics below target"
    return f"{most.description} above target"


def _scaling_active(proposals: Sequence[Proposal]) -> tuple[str, bool, str, str]:
    problems = [f"{proposal.name}: {proposal.problem}" for proposal in proposals if proposal.problem]
    if problems:
        message = f"the HPA was unable to compute the replica count: {', '.join(problems)}"
        return "ScalingActive", False, "FailedGetResourceMetric", message
    message = "the HPA was able to successfully calculate a replica count"
    return "ScalingActive", True, "ValidMetricFound", message


def _limited(desired: int, low: int, high: int) -> tuple[str, bool, str, str]:
    if desired > high:
        message = "the desired replica count is more than the maximum replica count"
        return "ScalingLimited", True, "TooManyReplicas", message
    if desired < low:
        message = "the desired replica count is less than the minimum replica count"
        return "ScalingLimited", True, "TooFewReplicas", message
    message = "the desired count is within the acceptable range"
    return "ScalingLimited", False, "DesiredWithinRange", message
