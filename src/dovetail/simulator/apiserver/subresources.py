"""Subresources of pods and workloads: scale, binding and eviction."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_errors import BadRequest, Conflict, InternalError, Invalid, TooManyRequests
from dovetail.simulator.apiserver.delete import Deleter, check_preconditions
from dovetail.simulator.apiserver.options import DeleteOptions
from dovetail.simulator.apiserver.pdb import PdbCounter, is_ready, pdbs_for_pod
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze, get_field
from dovetail.simulator.apiserver.storage.selectors import format_label_selector
from dovetail.simulator.apiserver.storage.store import Store
from dovetail.simulator.apiserver.write import Writer

_STATUS_REPLICAS: Final[Mapping[str, str]] = {"NodePool": "nodes"}
"""Status field with the number of replicas, for kinds where it is not ``replicas``."""


def encode_scale(obj: Object) -> Object:
    """Return the Scale object of a workload."""
    meta = obj["metadata"]
    status_field = _STATUS_REPLICAS.get(obj["kind"], "replicas")
    metadata_fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale: Object = freeze(
        {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: meta.get(name) for name in metadata_fields},
            "spec": {"replicas": get_field(obj, "spec", "replicas") or 0},
            "status": {
                "replicas": get_field(obj, "status", status_field) or 0,
                "selector": format_label_selector(get_field(obj, "spec", "selector") or {}),
            },
        }
    )
    return scale


def apply_scale(obj: Object, scale: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workload with the replicas of a Scale object."""
    replicas = get_field(scale, "spec", "replicas") or 0  # An absent count means 0.
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise BadRequest(f"spec.replicas: {replicas!r} is not an integer")
    if replicas < 0:
        name = obj["metadata"]["name"]
        raise Invalid(
            f'Scale.autoscaling "{name}" is invalid: spec.replicas: Invalid value: {replicas}: '
            "must be greater than or equal to 0",
            kind="Scale",
            name=name,
        )
    meta = dict(obj["metadata"])
    revision = get_field(scale, "metadata", "resourceVersion")
    if revision:
        meta["resourceVersion"] = revision
    return {**obj, "metadata": meta, "spec": {**obj["spec"], "replicas": replicas}}


def bind_pod(writer: Writer, pod: Object, binding: Mapping[str, Any]) -> Object:
    """Bind a pod to a node, as kube-scheduler does; Conflict if it is bound already."""
    node = get_field(binding, "target", "name")
    meta = pod["metadata"]
    if not node:
        raise BadRequest("target.name: Required value: a binding must name a node")
    bound_node = get_field(pod, "spec", "nodeName")
    reason = ""
    if meta.get("deletionTimestamp"):
        reason = f"pod {meta['name']} is being deleted, cannot be assigned to a host"
    elif bound_node:
        reason = f'pod {meta["name"]} is already assigned to node "{bound_node}"'
    elif pod["spec"].get("schedulingGates"):
        reason = f"pod {meta['name']} has non-empty .spec.schedulingGates"
    elif get_field(binding, "metadata", "uid") not in (None, meta["uid"]):
        reason = f"Precondition failed: UID in object meta: {meta['uid']}"
    if reason:
        raise Conflict(
            f'Operation cannot be fulfilled on pods/binding "{meta["name"]}": {reason}',
            kind="pods/binding",
            name=meta["name"],
        )
    annotations = get_field(binding, "metadata", "annotations")
    if annotations:
        meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **annotations}}
    scheduled = {"type": "PodScheduled", "status": "True"}
    status = dict(_with_condition(pod, scheduled, writer.timestamp()))
    status.pop("nominatedNodeName", None)
    return writer.save(
        PODS, pod, {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": node}, "status": status}
    )


def evict_pod(
    store: Store,
    writer: Writer,
    deleter: Deleter,
    pod: Object,
    options: DeleteOptions,
    *,
    pdb_counter: PdbCounter,
) -> None:
    """Delete a pod, or raise TooManyRequests if its PodDisruptionBudget forbids it.

    Allowed disruptions are computed from the pods and not read from the budget's
    status, which the disruption controller may not have updated yet.
    """
    check_preconditions(PODS, pod, options)
    if not _is_exempt_from_pdb(pod):
        _consume_disruption(store, writer, pod, pdb_counter, dry_run=options.dry_run)
    if not options.dry_run and not pod["metadata"].get("deletionTimestamp"):
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        status = _with_condition(pod, condition, writer.timestamp())
        pod = writer.save(PODS, pod, {**pod, "status": status})
        # The write of the condition has just changed the resourceVersion.
        options = msgspec.structs.replace(options, resource_version="")
    deleter.delete(PODS, pod, options)


def _is_exempt_from_pdb(pod: Object) -> bool:
    phase = get_field(pod, "status", "phase")
    return bool(pod["metadata"].get("deletionTimestamp")) or phase in ("Pending", "Succeeded", "Failed")


def _consume_disruption(
    store: Store, writer: Writer, pod: Object, pdb_counter: PdbCounter, *, dry_run: bool
) -> None:
    pdbs = pdbs_for_pod(store, pod)
    if len(pdbs) > 1:
        raise InternalError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if not pdbs:
        return
    (pdb,) = pdbs
    counts = pdb_counter.get_status(pdb)
    if not is_ready(pod):
        policy = get_field(pdb, "spec", "unhealthyPodEvictionPolicy")
        is_pdb_met = counts.desired > 0 and counts.healthy >= counts.desired
        if policy == "AlwaysAllow" or is_pdb_met:
            return
    if counts.allowed <= 0:
        name = pdb["metadata"]["name"]
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
            **(pdb.get("status") or {}),
            "expectedPods": counts.expected,
            "currentHealthy": counts.healthy - is_ready(pod),
            "desiredHealthy": counts.desired,
            "disruptionsAllowed": counts.allowed - 1,
            "observedGeneration": pdb["metadata"]["generation"],
        }
        writer.save(POD_DISRUPTION_BUDGETS, pdb, {**pdb, "status": status})


def _with_condition(pod: Object, condition: dict[str, Any], now: str) -> dict[str, Any]:
    status = pod.get("status") or {}
    conditions = [
        existing for existing in status.get("conditions") or () if existing["type"] != condition["type"]
    ]
    return {**status, "conditions": [*conditions, {**condition, "lastTransitionTime": now}]}
