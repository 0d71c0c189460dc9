"""Drifted nodes of static pools are replaced one for one: SD1, SD2, SD4, SD6, SD8."""

from datetime import timedelta

import pytest

from dovetail.controllers.disruption import controller as disruption
from dovetail.controllers.disruption import queue
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget
from dovetail.model.kube.resources import Resources
from tests.support.controllers.disruption import DisruptionEnvironment


def an_environment(
    nodes: int, *, replicas: int, limit: int | None = None, budget: str = "100%"
) -> DisruptionEnvironment:
    env = DisruptionEnvironment()
    limits = None if limit is None else Resources({"nodes": limit})
    env.add_pool(replicas=replicas, limits=limits, budgets=(Budget(nodes=budget),))
    for number in range(nodes):
        env.add_node(f"node-{number}", drifted=env.now - timedelta(minutes=5))
        env.add_app_pod(f"web-{number}", f"node-{number}", cpu="100")
    return env


def test_drifted_static_node_is_deleted_when_its_replacement_is_ready_even_if_pods_do_not_fit() -> None:
    env = an_environment(1, replicas=1).start()
    (new,) = env.replacements()
    before = env.deleting_claims()

    env.make_ready(new)

    assert before == []
    assert env.deleting_claims() == ["claim-0"]
    assert env.claim(new).requirements == env.pool().template.requirements


@pytest.mark.parametrize(
    ("limit", "budget", "started"),
    [(None, "100%", 3), (None, "2", 2), (3, "100%", 0), (4, "100%", 1), (5, "100%", 2)],
)
def test_budget_and_limit_restrict_concurrent_replacements(
    limit: int | None, budget: str, started: int
) -> None:
    env = an_environment(3, replicas=3, limit=limit, budget=budget).start().wait(60)

    assert len(env.replacements()) == len(env.disrupted_nodes()) == started


def test_static_nodepool_with_surplus_nodes_replaces_none() -> None:
    env = an_environment(3, replicas=2).start().wait(60)

    assert env.disrupted_nodes() == []


def test_do_not_disrupt_node_is_kept() -> None:
    env = DisruptionEnvironment()
    env.add_pool(replicas=1)
    since = env.now - timedelta(minutes=5)
    env.add_node("node", drifted=since, annotations={label_keys.DO_NOT_DISRUPT: "true"})

    env.run(disruption.controller, queue.controller).wait(60)

    assert env.disrupted_nodes() == []


def test_eligible_nodes_are_measured_over_all_nodepools() -> None:
    env = an_environment(2, replicas=2, budget="0")
    env.add_pool("other", after=None, budgets=(Budget(nodes="0"),))
    env.add_node("node-other", pool="other", drifted=env.now - timedelta(minutes=5))

    env.start()

    name = "karpenter_voluntary_disruption_eligible_nodes"
    assert env.metrics.total(name, reason="drifted") == 3
