"""Encoder of NodePools."""

from typing import Any

from dovetail.codec.fields import drop_empty
from dovetail.codec.karpenter.nodepools import DEFAULT_EXPIRE_AFTER
from dovetail.codec.kube.requirements import encode_requirement, encode_taint
from dovetail.codec.quantities import encode_duration
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import Budget, Disruption, NodePool, NodeTemplate
from dovetail.model.kube.conditions import FALSE, READY

API_VERSION = "karpenter.sh/v1"


def encode_nodepool(pool: NodePool) -> dict[str, Any]:
    """Encode a NodePool; fields with default values are left out."""
    template = pool.template
    metadata = {"labels": dict(template.labels), "annotations": dict(template.annotations)}
    spec = {
        "template": drop_empty({"metadata": drop_empty(metadata), "spec": encode_node_spec(template)}),
        "disruption": _encode_disruption(pool.disruption),
        # Empty limits are limits of nothing.
        **({} if pool.limits is None else {"limits": pool.limits.to_quantities()}),
        "weight": pool.weight or None,
        "replicas": pool.replicas,
    }
    encoded = {
        "apiVersion": API_VERSION,
        "kind": "NodePool",
        "metadata": drop_empty({"name": pool.name, "uid": pool.uid}),
        "spec": {name: value for name, value in spec.items() if value is not None},
    }
    if not pool.ready:
        encoded["status"] = {"conditions": [{"type": READY, "status": FALSE}]}
    return encoded


def encode_node_spec(source: NodeTemplate | NodeClaim) -> dict[str, Any]:
    """Encode the spec fields that NodePool templates and NodeClaims share."""
    ref, expire_after = source.node_class, source.expire_after
    grace_period = source.termination_grace_period
    return {
        "requirements": [encode_requirement(requirement) for requirement in source.requirements],
        **drop_empty(
            {
                "taints": [encode_taint(taint) for taint in source.taints],
                "startupTaints": [encode_taint(taint) for taint in source.startup_taints],
                "nodeClassRef": {"group": ref.group, "kind": ref.kind, "name": ref.name},
                "expireAfter": encode_duration(expire_after) if expire_after != DEFAULT_EXPIRE_AFTER else "",
                "terminationGracePeriod": encode_duration(grace_period) if grace_period is not None else "",
            }
        ),
    }


def _encode_disruption(disruption: Disruption) -> dict[str, Any] | None:
    defaults = Disruption()
    encoded: dict[str, Any] = {}
    if disruption.policy != defaults.policy:
        encoded["consolidationPolicy"] = str(disruption.policy)
    if disruption.consolidate_after != defaults.consolidate_after:
        encoded["consolidateAfter"] = encode_duration(disruption.consolidate_after)
    if disruption.budgets != defaults.budgets:
        encoded["budgets"] = [_encode_budget(budget) for budget in disruption.budgets]
    return encoded or None


def _encode_budget(budget: Budget) -> dict[str, Any]:
    return drop_empty(
        {
            "nodes": budget.nodes,
            "schedule": budget.schedule,
            "duration": None if budget.duration is None else encode_duration(budget.duration),
            "reasons": list(budget.reasons),
        }
    )
