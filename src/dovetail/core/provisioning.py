"""From pods that wait to claims for machines: who waits, and what a claim says."""

from collections.abc import Iterable
from typing import Final

import msgspec

from dovetail.core.nodepool.hash import Stamp, pool_hash
from dovetail.core.scheduling.arrays.nodepools import some_value
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.capacitybuffer import is_virtual
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Owner, Pod
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.plan import PlannedNode, Refusal, Unplaced

LONGEST_MESSAGE: Final = 1000
"""Of an Event; Kubernetes takes 1,024 characters."""


def is_provisionable(pod: Pod) -> bool:
    """Tell whether a pod waits for a node that is not there yet."""
    return (
        pod.unschedulable
        and not pod.node_name
        and not pod.nominated_node
        and not pod.deleting
        and not pod.terminal
        and not pod.of_daemon_set
        and not pod.static
    )


def may_move(pod: Pod) -> bool:
    """Tell whether a pod on a node that goes away may need another; budgets apart."""
    if pod.terminal or pod.of_daemon_set or pod.static:
        return False
    return not pod.deleting or (pod.owner is not None and pod.owner.kind == "StatefulSet")


def is_usable(pool: NodePool) -> bool:
    """Tell whether a pool may buy for pods now."""
    return is_buyable(pool) and pool.replicas is None


def is_buyable(pool: NodePool) -> bool:
    """Tell whether anything may be bought for a pool now."""
    return (
        pool.ready
        and "Ready" in pool.conditions  # Until it has been looked at, nothing is known of it.
        and not pool.deleting
        and pool.template.node_class.supported
    )


def claim_for(planned: PlannedNode, pool: NodePool, *, name: str) -> NodeClaim:
    """Return the claim that asks for a planned node."""
    types = Requirement.one_of(
        label_keys.INSTANCE_TYPE, *(one.name for one in planned.instance_types)
    )
    promised = ",".join(
        f"{pod.namespace}/{pod.name}/{pod.uid}" for pod in planned.pods if not is_virtual(pod)
    )
    plain = claim_of_template(pool, name=name)
    return msgspec.structs.replace(
        plain,
        labels=FrozenDict({**planned.labels, **_own_labels(pool)}),
        annotations=FrozenDict(
            {
                **plain.annotations,
                label_keys.MIN_VALUES_RELAXED: str(planned.min_values_relaxed).lower(),
                label_keys.PROMISED_TO: promised,
                **_overlaid(planned),
            }
        ),
        requirements=tuple(planned.requirements.and_also([types]).specs()),
        requests=planned.requested,
        taints=planned.taints,
        startup_taints=planned.startup_taints,
    )


def _overlaid(planned: PlannedNode) -> dict[str, str]:
    types = planned.instance_types
    applied = {
        label_keys.PRICE_OVERLAID: any(one.price_overlaid for one in types),
        label_keys.CAPACITY_OVERLAID: any(one.capacity_overlaid for one in types),
    }
    return {name: "true" for name, yes in applied.items() if yes}


def claim_of_template(pool: NodePool, *, name: str) -> NodeClaim:
    """Return a claim for any machine that a pool allows."""
    template = pool.template
    return NodeClaim(
        name=name,
        labels=FrozenDict({**_made_up_labels(pool), **_own_labels(pool)}),
        # Of the pool as decided on: its own annotation may be from before an edit.
        annotations=FrozenDict({**template.annotations, **Stamp(pool_hash(pool)).annotations()}),
        owners=(Owner("karpenter.sh/v1", "NodePool", pool.name, pool.uid, controller=False),),
        requirements=template.requirements,
        taints=template.taints,
        startup_taints=template.startup_taints,
        node_class=template.node_class,
        expire_after=template.expire_after,
        termination_grace_period=template.termination_grace_period,
    )


def _own_labels(pool: NodePool) -> dict[str, str]:
    """Return what every node of a pool says."""
    key, value = pool.template.node_class.label
    return {**pool.template.labels, label_keys.NODEPOOL: pool.name, key: value}


def _made_up_labels(pool: NodePool) -> dict[str, str]:
    """Return a value for each label that a pool's requirements leave open, and no machine settles.

    A node without it would not be what its pool asks for, and be replaced for ever.
    """
    wanted = Requirements.of_specs(pool.template.requirements)
    return {
        key: chosen
        for key, one in wanted.items()
        if key not in label_keys.WELL_KNOWN
        and not label_keys.is_restricted(key)
        and (chosen := some_value(one))
    }


def why_not(unplaced: Unplaced) -> str:
    """Say in one line why a pod gets no node, pool by pool."""
    told = "; ".join(_told(one) for one in unplaced.refusals)
    return told if len(told) <= LONGEST_MESSAGE else told[: LONGEST_MESSAGE - 1] + "…"


def _told(refusal: Refusal) -> str:
    return (
        f"nodepool {refusal.nodepool}: {refusal.message}" if refusal.nodepool else refusal.message
    )


def named(types: Iterable[str], most: int = 5) -> str:
    """Name the first few instance types and count the others."""
    names = list(types)
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} other(s)" if more > 0 else "")
