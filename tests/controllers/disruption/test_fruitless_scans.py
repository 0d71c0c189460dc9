"""Consolidation evaluates the cluster again only if a change may make a command possible."""

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget
from dovetail.ports.api_resources import NODE_POOLS, NODES, PODS
from dovetail.ports.metrics import DISRUPTION_EVALUATION_DURATION
from tests.support.controllers.disruption import DisruptionEnvironment
from tests.support.controllers.running_nodes import add_owner


def an_environment(*cpus: str, **pool: object) -> DisruptionEnvironment:
    """Return nodes of 4 CPU, each with a pod of 1 CPU and one of so many; no command is possible."""
    env = DisruptionEnvironment()
    env.add_pool(**pool)  # type: ignore[arg-type]
    for number, cpu in enumerate(cpus):
        env.add_node(f"node-{number}")
        env.add_app_pod(f"web-{number}", f"node-{number}", cpu=cpu)
        env.add_app_pod(f"small-{number}", f"node-{number}", cpu="1")
    env.wait(60)
    return env.start().wait(minutes=2)


def count_evaluations(env: DisruptionEnvironment) -> int:
    observed = env.metrics.values.get(DISRUPTION_EVALUATION_DURATION.name, [])
    return sum(labels["reason"] == "underutilized" for _, labels in observed)


def test_pod_that_was_bound_needs_no_evaluation() -> None:
    env = an_environment("2", "2")
    before = count_evaluations(env)

    env.add_app_pod("new", "node-0", cpu="500m")
    env.wait(minutes=2)

    assert before > 0
    assert count_evaluations(env) == before


def test_node_is_replaced_by_a_smaller_one_once_a_pod_has_left() -> None:
    env = an_environment("2", "2")

    env.add_app_pod("new", "node-0", cpu="500m")
    env.wait(minutes=1)
    env.delete(PODS, "web-0", "default")
    env.wait(minutes=2)

    assert len(env.replacements()) == 1


def test_pod_that_replaces_an_equal_one_needs_no_evaluation() -> None:
    env = an_environment("2", "2")
    env.add_app_pod("old", "node-0", cpu="500m", owner=add_owner(env, "ReplicaSet", "web"))
    env.wait(minutes=6)
    before = count_evaluations(env)

    env.add_app_pod("new", "node-0", cpu="500m", owner=add_owner(env, "ReplicaSet", "web"))
    env.delete(PODS, "old", "default")
    env.wait(minutes=2)

    assert count_evaluations(env) == before


def test_new_node_is_evaluated() -> None:
    env = an_environment("2", "2")

    env.add_node("node-2")
    env.add_app_pod("web-2", "node-2", cpu="500m")
    env.wait(minutes=2)

    assert len(env.deleting_claims()) == 1


def test_node_is_evaluated_once_it_is_initialized() -> None:
    env = an_environment("2", "2")
    before = count_evaluations(env)

    env.add_node("node-2", labels={label_keys.INITIALIZED: ""})
    env.add_app_pod("web-2", "node-2", cpu="500m")
    env.wait(minutes=2)
    starting = count_evaluations(env)
    env.patch(NODES, "node-2", {"metadata": {"labels": {label_keys.INITIALIZED: "true"}}})
    env.wait(minutes=2)

    assert starting == before
    assert count_evaluations(env) > starting


def test_change_of_the_nodepool_is_evaluated() -> None:
    env = an_environment("2", "2")
    before = count_evaluations(env)

    env.patch(NODE_POOLS, "default", {"spec": {"weight": 10}})
    env.add_app_pod("new", "node-0", cpu="500m")
    env.wait(minutes=2)

    assert count_evaluations(env) > before


def test_larger_budget_is_evaluated() -> None:
    env = an_environment("2", "2", "2", budgets=(Budget(nodes="1"),))
    before = count_evaluations(env)

    env.patch(NODE_POOLS, "default", {"spec": {"disruption": {"budgets": [{"nodes": "2"}]}}})
    env.wait(minutes=2)

    assert count_evaluations(env) > before


def test_changed_cluster_is_evaluated_every_five_minutes_at_least() -> None:
    env = an_environment("2", "2")
    before = count_evaluations(env)

    env.add_app_pod("new", "node-0", cpu="500m")
    env.wait(minutes=6)

    assert count_evaluations(env) == before + 1
