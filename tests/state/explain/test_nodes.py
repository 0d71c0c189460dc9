"""Keep reason and price of every node."""

import re
from datetime import timedelta
from typing import Any

import pytest

from dovetail.core.disruption.command import KeepReason
from dovetail.core.disruption.explain import TargetFleet
from dovetail.core.disruption.policy import Offer, Policy, PolicyError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget, ConsolidationPolicy, Disruption
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.state.explain.nodes import compute_cluster_target, explain_cluster
from tests.support.controllers.cloud_provider import TYPE
from tests.support.controllers.disruption import DisruptionEnvironment, an_instance_type
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.controllers.running_nodes import add_owner, add_pod, add_running_node
from tests.support.kube import manifests
from tests.support.scheduling.instance_types import DEFAULT_TYPES

CONSOLIDATABLE = {"Consolidatable": Condition(status=TRUE, reason="Consolidatable", observed_generation=1)}
DRIFTED = {"Drifted": Condition(status=TRUE, reason="NodePoolDrifted", observed_generation=1)}
DISRUPTED_TAINT_MANIFEST = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
EVERYTHING = ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED


def an_environment(
    *,
    after: float | None = 0,
    policy: ConsolidationPolicy = EVERYTHING,
    budgets: tuple[Budget, ...] = (Budget(nodes="100%"),),
    **instance: Any,
) -> ControllerEnvironment:
    env = ControllerEnvironment()
    settle = None if after is None else timedelta(seconds=after)
    rules = Disruption(consolidate_after=settle, policy=policy, budgets=budgets)
    pool = manifests.pool(disruption=rules)
    ready = {"type": "Ready", "status": "True", "reason": "Ready"}
    env.add(NODE_POOLS, {**pool, "status": {"conditions": [ready]}})
    add_running_node(env, **{"conditions": CONSOLIDATABLE, **instance})
    return env.wait(60)


def explain(env: ControllerEnvironment) -> dict[str, KeepReason]:
    reasons = explain_cluster(env.cache, lambda _: DEFAULT_TYPES, env.now)
    return {reason.node: reason for reason in reasons}


def test_empty_node_is_about_to_be_deleted() -> None:
    assert explain(an_environment())["node"].code == "goes"


def test_price_of_a_node_is_that_of_its_offering() -> None:
    kind = DEFAULT_TYPES[0]
    env = an_environment(
        labels={
            label_keys.INSTANCE_TYPE: kind.name,
            label_keys.ZONE: kind.offerings[0].zone,
            label_keys.CAPACITY_TYPE: kind.offerings[0].capacity_type,
        }
    )

    assert explain(env)["node"].price == kind.offerings[0].price > 0


def test_drifted_node_is_about_to_be_replaced_and_the_message_has_the_reason() -> None:
    reason = explain(an_environment(conditions=DRIFTED))["node"]

    assert (reason.code, reason.message) == ("goes", "it has drifted (NodePoolDrifted)")


@pytest.mark.parametrize(("policy", "after"), [(ConsolidationPolicy.WHEN_EMPTY, 0), (EVERYTHING, None)])
def test_a_setting_of_its_pool_keeps_a_node(policy: ConsolidationPolicy, after: float | None) -> None:
    env = an_environment(policy=policy, after=after)
    add_pod(env, owner=add_owner(env, "ReplicaSet"))

    assert explain(env)["node"].code == "setting"


def test_a_protected_pod_keeps_its_node_and_is_named() -> None:
    env = an_environment()
    add_pod(env, annotations={label_keys.DO_NOT_DISRUPT: "true"})

    reason = explain(env)["node"]

    assert reason.code == "spared"
    assert "default/pod" in reason.message


def test_a_node_whose_move_the_policy_declines_names_the_policy() -> None:
    env = an_underutilized_node()
    policy = Policy("never", choose=lambda _: ())

    (reason,) = explain_cluster(env.cache, lambda _: DEFAULT_TYPES, env.now, policy=policy)

    assert explain(env)["node"].code == "goes"
    assert reason.code == "policy"
    assert reason.message.startswith("policy 'never' declined to evict 1 pod to save ")


def test_a_policy_that_fails_is_an_error() -> None:
    def fail(_: Offer) -> tuple[int, ...]:
        raise PolicyError("it did not answer in time")

    env = an_underutilized_node()

    with pytest.raises(PolicyError, match="policy 'slow' failed: it did not answer in time"):
        explain_cluster(env.cache, lambda _: DEFAULT_TYPES, env.now, policy=Policy("slow", choose=fail))


def an_underutilized_node() -> ControllerEnvironment:
    """Return an on-demand node with one small pod, for which a cheaper type is enough."""
    kind = DEFAULT_TYPES[-1]
    (offering,) = [item for item in kind.offerings if item.capacity_type == label_keys.ON_DEMAND][:1]
    env = an_environment(
        labels={
            label_keys.INSTANCE_TYPE: kind.name,
            label_keys.ZONE: offering.zone,
            label_keys.CAPACITY_TYPE: offering.capacity_type,
        }
    )
    add_pod(env, owner=add_owner(env, "ReplicaSet"))
    return env


def test_invalid_budget_keeps_all_nodes_of_its_nodepool() -> None:
    env = an_environment()
    broken = {"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}
    env.patch(NODE_POOLS, "default", {"spec": {"disruption": {"budgets": [broken]}}})

    reason = explain(env)["node"]

    assert reason.code == "budget"
    assert "'61' is not within 0-59" in reason.message


def test_exhausted_budget_keeps_a_node() -> None:
    reason = explain(an_environment(budgets=(Budget(nodes="0"),)))["node"]

    assert (reason.code, "no budget left for Empty" in reason.message) == ("budget", True)


def test_node_with_a_recent_pod_event_is_young() -> None:
    env = an_environment(conditions={}, after=3600)
    add_pod(env, owner=add_owner(env, "ReplicaSet"))

    assert explain(env)["node"].code == "young"


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_young_node_says_how_long_consolidate_after_still_takes(is_empty: bool) -> None:
    env = an_environment(conditions=CONSOLIDATABLE if is_empty else {}, after=3600)
    if not is_empty:
        add_pod(env, owner=add_owner(env, "ReplicaSet"))

    message = explain(env)["node"].message

    matched = re.fullmatch(r".*; ([\d,]+) s left, until (\d\d:\d\d:\d\d)", message)
    assert matched is not None, message
    left, until = matched.groups()
    seconds = int(left.replace(",", ""))
    assert 0 < seconds <= 3600
    assert f"{env.now + timedelta(seconds=seconds):%H:%M:%S}" == until


def test_node_under_deletion_is_leaving() -> None:
    env = an_environment().delete(NODE_CLAIMS, "claim")

    assert explain(env)["node"].code == "leaving"


def test_node_that_is_being_replaced_is_leaving_and_the_message_has_the_reason() -> None:
    env = an_environment(conditions={**DRIFTED, "DisruptionReason": Condition(status=TRUE, reason="Drifted")})
    env.patch(NODES, "node", {"spec": {"taints": [DISRUPTED_TAINT_MANIFEST]}})

    reason = explain(env)["node"]

    assert (reason.code, reason.message) == ("leaving", "it is being disrupted (Drifted)")


def test_node_without_nodepool_is_unmanaged() -> None:
    env = an_environment()
    env.add(NODES, manifests.node("stranger", provider_id="aws:///z/i-2", labels={}))

    assert explain(env)["stranger"].code == "unmanaged"


def test_equal_caches_give_equal_explanations() -> None:
    env = an_environment()
    add_pod(env, owner=add_owner(env, "ReplicaSet"))

    assert explain(env) == explain(env)


def test_target_names_the_cheapest_fleet_for_the_pods_of_all_candidates() -> None:
    """Two nodes of 1 USD/h whose budget is used up; four of 0.1 USD/h hold their pods."""
    env = DisruptionEnvironment(
        (an_instance_type("m5.large", cpu=2, price=0.1), an_instance_type(TYPE, cpu=4, price=1.0))
    )
    env.add_pool(budgets=(Budget(nodes="0"),))
    for node in ("node-a", "node-b"):
        env.add_node(node)
        for number in range(2):
            env.add_app_pod(f"{node}-{number}", node, cpu="1500m")
    env.wait(60)

    target = compute_cluster_target(env.cache, lambda _: env.cloud.types, env.now)

    assert (target.nodes, target.price) == (2, pytest.approx(2.0))
    assert (target.target_nodes, target.target_price) == (4, pytest.approx(0.4))


def test_target_of_a_cluster_without_candidates_is_what_it_is() -> None:
    env = an_environment(policy=ConsolidationPolicy.WHEN_EMPTY)
    add_pod(env, owner=add_owner(env, "ReplicaSet"))

    target = compute_cluster_target(env.cache, lambda _: DEFAULT_TYPES, env.now)

    assert target == TargetFleet(nodes=0, price=0, target_nodes=0, target_price=0)
