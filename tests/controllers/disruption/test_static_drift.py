"""Drifted nodes of static pools are replaced one for one: SD1, SD2, SD4, SD6, SD8."""

from datetime import timedelta

import pytest

from dovetail.controllers.disruption.controller import Disruption
from dovetail.controllers.disruption.queue import Replacing
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import Budget
from dovetail.model.kube.resources import Resources
from tests.support.replaced import Yard


def a_yard(nodes: int, *, replicas: int, limit: int | None = None, budget: str = "100%") -> Yard:
    yard = Yard()
    limits = None if limit is None else Resources({"nodes": limit})
    yard.add_pool(replicas=replicas, limits=limits, budgets=(Budget(nodes=budget),))
    for number in range(nodes):
        yard.machine(f"node-{number}", drifted=yard.now - timedelta(minutes=5))
        yard.app_pod(f"web-{number}", f"node-{number}", cpu="100")
    return yard


def test_a_drifted_node_goes_when_another_is_there_whether_its_pods_fit_there_or_not() -> None:
    yard = a_yard(1, replicas=1).open()
    (new,) = yard.replacements()
    before = yard.leaving()

    yard.starts(new)

    assert before == []
    assert yard.leaving() == ["claim-0"]
    assert yard.claim(new).requirements == yard.pool().template.requirements


@pytest.mark.parametrize(
    ("limit", "budget", "begun"),
    [(None, "100%", 3), (None, "2", 2), (3, "100%", 0), (4, "100%", 1), (5, "100%", 2)],
)
def test_budget_and_limit_say_how_many_at_once(limit: int | None, budget: str, begun: int) -> None:
    yard = a_yard(3, replicas=3, limit=limit, budget=budget).open().wait(60)

    assert len(yard.replacements()) == len(yard.marked()) == begun


def test_a_pool_with_too_many_nodes_waits_until_they_have_gone() -> None:
    yard = a_yard(3, replicas=2).open().wait(60)

    assert yard.marked() == []


def test_a_protected_node_stays() -> None:
    yard = Yard()
    yard.add_pool(replicas=1)
    since = yard.now - timedelta(minutes=5)
    yard.machine("node", drifted=since, annotations={label_keys.DO_NOT_DISRUPT: "true"})

    yard.run(Disruption, Replacing).wait(60)

    assert yard.marked() == []


def test_how_many_have_drifted_is_measured_over_all_pools() -> None:
    yard = a_yard(2, replicas=2, budget="0")
    yard.add_pool("other", after=None, budgets=(Budget(nodes="0"),))
    yard.machine("node-other", pool="other", drifted=yard.now - timedelta(minutes=5))

    yard.open()

    name = "karpenter_voluntary_disruption_eligible_nodes"
    assert yard.metrics.total(name, reason="drifted") == 3
