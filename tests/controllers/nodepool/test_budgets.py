"""Invalid disruption budgets are reported on the NodePool."""

from typing import Any

import pytest

from dovetail.controllers.nodepool import budgets, validation
from dovetail.ports.api_resources import NODE_POOLS
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests

INVALID = {"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}
VALID = {"nodes": "1", "schedule": "0 9 * * *", "duration": "1h"}


def an_environment(budget: dict[str, Any]) -> ControllerEnvironment:
    env = ControllerEnvironment().run(budgets.controller, validation.controller)
    env.add(NODE_POOLS, manifests.pool())
    write(env, budget)
    return env


def write(env: ControllerEnvironment, budget: dict[str, Any]) -> None:
    env.patch(NODE_POOLS, "default", {"spec": {"disruption": {"budgets": [budget]}}})


def test_invalid_schedule_is_reported_in_a_condition_and_an_event() -> None:
    env = an_environment(INVALID)

    invalid = env.pool().conditions["DisruptionBudgetsValid"]
    assert (invalid.status, invalid.reason) == ("False", "InvalidDisruptionBudget")
    assert "budgets[0]: '61' is not within 0-59" in invalid.message
    assert env.events.reasons("default") == ["InvalidDisruptionBudget"]


def test_nodepool_with_an_invalid_budget_stays_ready() -> None:
    env = an_environment(INVALID)

    assert condition(env.pool().conditions, "ValidationSucceeded")[0] == "True"


@pytest.mark.parametrize("budget", [VALID, {"nodes": "10%"}, {"nodes": "0"}])
def test_valid_budgets_have_no_condition(budget: dict[str, Any]) -> None:
    env = an_environment(budget)

    assert "DisruptionBudgetsValid" not in env.pool().conditions
    assert env.events.reasons("default") == []


def test_corrected_budget_removes_the_condition() -> None:
    env = an_environment(INVALID)

    write(env, VALID)

    assert "DisruptionBudgetsValid" not in env.pool().conditions


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment(INVALID)
    before = env.versions()

    env.manager.enqueue("nodepool.budgets", "default")
    env.wait(0)

    assert env.versions() == before
    assert env.events.reasons("default") == ["InvalidDisruptionBudget"]
