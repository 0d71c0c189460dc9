"""Evaluations for the view: the lower bound is that of `explain` and of the metric."""

from collections.abc import Mapping

from dovetail.core.cost.fleet_gap import measure_fleet
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.kube.pod import PodPhase
from dovetail.ports import api_resources as kinds
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.snapshot import build_provisioning_snapshot
from dovetail.view.build import Explanations
from dovetail.view.evaluate import EvaluationInput, evaluate
from tests.support.scheduling.instance_types import DEFAULT_TYPES
from tests.view.clusters import NOW, a_cache, add_node, add_pod, an_environment


def evaluate_cache(cache: ClusterCache, types: Mapping[str, tuple[InstanceType, ...]]) -> Explanations:
    return evaluate(EvaluationInput(objects=cache.objects(), now=NOW, types=types))


def test_no_node_that_holds_the_pods_is_cheaper_than_the_lower_bound() -> None:
    env = an_environment()
    add_node(env)
    for number in range(4):
        add_pod(env, f"web-abc-{number}")
    cache, types = a_cache(env), {"default": DEFAULT_TYPES}

    bound = evaluate_cache(cache, types).lower_bound

    requested = {"cpu": 4 * 500, "memory": 4 << 30}
    cheapest = min(
        offering.price
        for kind in DEFAULT_TYPES
        for offering in kind.offerings
        if all(amount <= kind.allocatable.get(name, 0) for name, amount in requested.items())
    )
    assert bound is not None
    assert 0 < bound <= cheapest
    assert bound == measure_fleet(build_provisioning_snapshot(cache, types, NOW)).bound.price


def test_lower_bound_without_offerings_is_unknown() -> None:
    assert evaluate_cache(a_cache(an_environment()), {}).lower_bound is None


def test_without_nodepools_nodes_and_pending_pods_are_evaluated() -> None:
    env = an_environment()
    add_node(env)
    add_pod(env, "waits", node_name="", phase=PodPhase.PENDING, unschedulable=True)
    env[kinds.NODE_POOLS] = []

    explanations = evaluate_cache(a_cache(env), {})

    assert [reason.message for reason in explanations.keep_reasons] == ["NodePool 'default' not found"]
    assert explanations.plan is not None
    assert [placement.node for placement in explanations.plan.existing] == ["node"]
    assert explanations.target is None
