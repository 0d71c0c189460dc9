"""Evaluations of the whole cluster for the view: keep reasons, target, plan, lower bound."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from dovetail.core.cost.fleet_gap import measure_fleet
from dovetail.core.disruption.command import KeepReason
from dovetail.core.provisioning import is_provisionable
from dovetail.core.scheduling.solver import solve
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.plan import Plan
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.ports.api_resources import Resource
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.explain.blockers import compute_savings, group_by_blocker, mark_consolidatable
from dovetail.state.explain.nodes import compute_cluster_target, explain_cluster
from dovetail.state.snapshot import build_provisioning_snapshot
from dovetail.view.build import Explanations

_MAX_BLOCKERS: Final = 8
"""Blockers whose saving is computed; each takes an evaluation of the whole cluster."""
_MAX_NODES: Final = 300
"""Larger clusters have their blockers ranked by the price of the nodes they keep."""

Objects = Mapping[Resource, Sequence[Any]]


class EvaluationInput(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster to evaluate; immutable, so that a thread can do it."""

    objects: Objects
    """Of ``ClusterCache.objects``."""
    now: datetime
    types: Mapping[str, tuple[InstanceType, ...]]
    """NodePool → its instance types with prices."""
    scheduling: SchedulingSettings = SchedulingSettings()
    keep_reasons: tuple[KeepReason, ...] | None = None
    """Of the disruption controller; None: computed, and target and plan with them."""


def evaluate(source: EvaluationInput) -> Explanations:
    """Return all explanations; seconds for a large cluster."""
    cache = ClusterCache.from_objects(source.objects)

    def get_types(pool: NodePool) -> tuple[InstanceType, ...]:
        return source.types.get(pool.name, ())

    types = {pool.name: get_types(pool) for pool in cache.pools()}
    snapshot = build_provisioning_snapshot(cache, types, source.now)
    bound = measure_fleet(snapshot).bound.price if any(types.values()) else None
    if source.keep_reasons is not None:
        return Explanations(keep_reasons=source.keep_reasons, lower_bound=bound, at=source.now)
    reasons = explain_cluster(cache, get_types, source.now, scheduling=source.scheduling)
    plan = _plan(cache, snapshot, source.scheduling)
    if not types:
        return Explanations(keep_reasons=reasons, plan=plan, at=source.now)
    blocked = None
    if len(cache.nodes()) <= _MAX_NODES and group_by_blocker(reasons):

        def evaluate_without_limits(objects: Objects) -> tuple[KeepReason, ...]:
            changed = ClusterCache.from_objects(objects)
            return explain_cluster(
                changed, get_types, source.now, scheduling=source.scheduling, ignore_limits=True
            )

        unlimited = mark_consolidatable(source.objects)
        blocked = compute_savings(
            group_by_blocker(evaluate_without_limits(unlimited)),
            lambda objects: sum(reason.saving for reason in evaluate_without_limits(objects)),
            unlimited,
            _MAX_BLOCKERS,
        )
    return Explanations(
        keep_reasons=reasons,
        blocked=blocked,
        target=compute_cluster_target(cache, get_types, source.now, scheduling=source.scheduling),
        lower_bound=bound,
        plan=plan,
        at=source.now,
    )


def _plan(cache: ClusterCache, snapshot: ClusterSnapshot, settings: SchedulingSettings) -> Plan | None:
    is_pending = any(is_provisionable(pod) for pod in cache.unbound_pods())
    return solve(snapshot, settings) if is_pending else None
