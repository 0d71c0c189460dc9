"""NodePools written to the wire."""

from datetime import timedelta
from typing import Any

from dovetail.codec.karpenter.nodepools import DEFAULT_EXPIRY
from dovetail.codec.kube.requirements import show_requirement, show_taint
from dovetail.codec.quantities import show_duration
from dovetail.model.karpenter.nodepool import (
    Budget,
    Disruption,
    NodeClassRef,
    NodePool,
    NodeTemplate,
)
from dovetail.model.kube.taints import Taint

API_VERSION = "karpenter.sh/v1"


def encode_node_pool(pool: NodePool) -> dict[str, Any]:
    """Write a NodePool; defaults are left out."""
    spec: dict[str, Any] = {"template": _encode_template(pool.template)}
    disruption = _encode_disruption(pool.disruption)
    if disruption:
        spec["disruption"] = disruption
    if pool.limits is not None:
        spec["limits"] = pool.limits.spelled()
    if pool.weight:
        spec["weight"] = pool.weight
    if pool.replicas is not None:
        spec["replicas"] = pool.replicas
    metadata_: dict[str, Any] = {"name": pool.name}
    if pool.uid:
        metadata_["uid"] = pool.uid
    shown = {"apiVersion": API_VERSION, "kind": "NodePool", "metadata": metadata_, "spec": spec}
    if not pool.ready:
        shown["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    return shown


def _encode_template(template: NodeTemplate) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    if template.labels:
        meta["labels"] = dict(template.labels)
    if template.annotations:
        meta["annotations"] = dict(template.annotations)
    spec = {"requirements": [show_requirement(one) for one in template.requirements]}
    spec.update(
        encode_node_parts(
            template.taints,
            template.startup_taints,
            template.node_class,
            template.expire_after,
            template.termination_grace_period,
        )
    )
    return {"metadata": meta, "spec": spec} if meta else {"spec": spec}


def encode_node_parts(
    marks: tuple[Taint, ...],
    early: tuple[Taint, ...],
    ref: NodeClassRef,
    expire_after: timedelta | None,
    grace_period: timedelta | None,
) -> dict[str, Any]:
    """Write what a pool's template and a claim have in common."""
    spec: dict[str, Any] = {}
    if marks:
        spec["taints"] = [show_taint(one) for one in marks]
    if early:
        spec["startupTaints"] = [show_taint(one) for one in early]
    spec["nodeClassRef"] = {"group": ref.group, "kind": ref.kind, "name": ref.name}
    if expire_after != DEFAULT_EXPIRY:
        spec["expireAfter"] = show_duration(expire_after)
    if grace_period is not None:
        spec["terminationGracePeriod"] = show_duration(grace_period)
    return spec


def _encode_disruption(disruption: Disruption) -> dict[str, Any]:
    plain = Disruption()
    shown: dict[str, Any] = {}
    if disruption.policy != plain.policy:
        shown["consolidationPolicy"] = str(disruption.policy)
    if disruption.consolidate_after != plain.consolidate_after:
        shown["consolidateAfter"] = show_duration(disruption.consolidate_after)
    if disruption.budgets != plain.budgets:
        shown["budgets"] = [_encode_budget(one) for one in disruption.budgets]
    return shown


def _encode_budget(budget: Budget) -> dict[str, Any]:
    shown: dict[str, Any] = {"nodes": budget.nodes}
    if budget.schedule is not None:
        shown["schedule"] = budget.schedule
    if budget.duration is not None:
        shown["duration"] = show_duration(budget.duration)
    if budget.reasons:
        shown["reasons"] = list(budget.reasons)
    return shown
