"""Scale, binding and eviction."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_errors import BadRequest, Conflict, InternalError, Invalid, TooManyRequests
from dovetail.simulator.apiserver.delete import DeleteOptions, Deleter, check_preconditions
from dovetail.simulator.apiserver.pdb import allowance, budgets_over, is_ready
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze, look
from dovetail.simulator.apiserver.storage.selectors import selector_text
from dovetail.simulator.apiserver.storage.store import Store
from dovetail.simulator.apiserver.write import Writer

_COUNTED_IN: Final[Mapping[str, str]] = {"NodePool": "nodes"}
"""The field of the status that says how many there are, where it is not ``replicas``."""


def scale_of(obj: Object) -> Object:
    """Return the Scale object of a workload."""
    meta = obj["metadata"]
    counted_in = _COUNTED_IN.get(obj["kind"], "replicas")
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale: Object = freeze(
        {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: meta.get(name) for name in shown},
            "spec": {"replicas": look(obj, "spec", "replicas") or 0},
            "status": {
                "replicas": look(obj, "status", counted_in) or 0,
                "selector": selector_text(look(obj, "spec", "selector") or {}),
            },
        }
    )
    return scale


def scaled(obj: Object, scale: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workload as a changed Scale wants it."""
    replicas = look(scale, "spec", "replicas") or 0  # Left out, it is none.
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise BadRequest(f"spec.replicas: {replicas!r} is no number of replicas")
    if replicas < 0:
        name = obj["metadata"]["name"]
        raise Invalid(
            f'Scale.autoscaling "{name}" is invalid: spec.replicas: Invalid value: {replicas}: '
            "must be greater than or equal to 0",
            kind="Scale",
            name=name,
        )
    meta = dict(obj["metadata"])
    revision = look(scale, "metadata", "resourceVersion")
    if revision:
        meta["resourceVersion"] = revision
    return {**obj, "metadata": meta, "spec": {**obj["spec"], "replicas": replicas}}


def bind(writer: Writer, pod: Object, binding: Mapping[str, Any]) -> Object:
    """Assign a pod to a node, once, as kube-scheduler does."""
    node = look(binding, "target", "name")
    meta = pod["metadata"]
    if not node:
        raise BadRequest("target.name: Required value: a binding names a node")
    bound_to = look(pod, "spec", "nodeName")
    problem = ""
    if meta.get("deletionTimestamp"):
        problem = f"pod {meta['name']} is being deleted, cannot be assigned to a host"
    elif bound_to:
        problem = f'pod {meta["name"]} is already assigned to node "{bound_to}"'
    elif pod["spec"].get("schedulingGates"):
        problem = f"pod {meta['name']} has non-empty .spec.schedulingGates"
    elif look(binding, "metadata", "uid") not in (None, meta["uid"]):
        problem = f"Precondition failed: UID in object meta: {meta['uid']}"
    if problem:
        raise Conflict(
            f'Operation cannot be fulfilled on pods/binding "{meta["name"]}": {problem}',
            kind="pods/binding",
            name=meta["name"],
        )
    annotations = look(binding, "metadata", "annotations")
    if annotations:
        meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **annotations}}
    scheduled = {"type": "PodScheduled", "status": "True"}
    status = dict(_with_condition(pod, scheduled, writer.timestamp()))
    status.pop("nominatedNodeName", None)
    return writer.save(
        PODS,
        pod,
        {
            **pod,
            "metadata": meta,
            "spec": {**pod["spec"], "nodeName": node},
            "status": status,
        },
    )


def evict(
    store: Store, writer: Writer, deleter: Deleter, pod: Object, options: DeleteOptions
) -> None:
    """Delete a pod if the budget over it allows; TooManyRequests when it does not.

    The budget is counted afresh from the pods, so that it holds even while
    the controller that writes its status lags behind.
    """
    check_preconditions(PODS, pod, options)
    if not _needs_no_budget(pod):
        _spend(store, writer, pod, dry_run=options.dry_run)
    if not options.dry_run and not pod["metadata"].get("deletionTimestamp"):
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        status = _with_condition(pod, target, writer.timestamp())
        pod = writer.save(PODS, pod, {**pod, "status": status})
        # The version that was meant has just got a successor, by our own hand.
        options = msgspec.structs.replace(options, resource_version="")
    deleter.delete(PODS, pod, options)


def _needs_no_budget(pod: Object) -> bool:
    phase = look(pod, "status", "phase")
    return bool(pod["metadata"].get("deletionTimestamp")) or phase in (
        "Pending",
        "Succeeded",
        "Failed",
    )


def _spend(store: Store, writer: Writer, pod: Object, *, dry_run: bool) -> None:
    budgets = budgets_over(store, pod)
    if len(budgets) > 1:
        raise InternalError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource "
            "does not support."
        )
    if not budgets:
        return
    (budget,) = budgets
    counts = allowance(store, budget)
    if not is_ready(pod):
        policy = look(budget, "spec", "unhealthyPodEvictionPolicy")
        budget_is_kept = counts.desired > 0 and counts.healthy >= counts.desired
        if policy == "AlwaysAllow" or budget_is_kept:
            return
    if counts.allowed <= 0:
        name = budget["metadata"]["name"]
        raise TooManyRequests(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            causes=[
                {
                    "reason": "DisruptionBudget",
                    "message": f"The disruption budget {name} needs {counts.desired} healthy pods "
                    f"and has {counts.healthy} currently",
                }
            ],
            retry_after=0,
        )
    if not dry_run:
        status = {
            **(budget.get("status") or {}),
            "expectedPods": counts.expected,
            "currentHealthy": counts.healthy - is_ready(pod),
            "desiredHealthy": counts.desired,
            "disruptionsAllowed": counts.allowed - 1,
            "observedGeneration": budget["metadata"]["generation"],
        }
        writer.save(POD_DISRUPTION_BUDGETS, budget, {**budget, "status": status})


def _with_condition(pod: Object, condition: dict[str, Any], now: str) -> dict[str, Any]:
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or () if one["type"] != condition["type"]]
    return {**status, "conditions": [*others, {**condition, "lastTransitionTime": now}]}
