"""Every example: planned, applied, planned again, and destroyed."""

import pytest

from dovetail.ports.api_resources import NODE_POOLS
from tests.support.eks.configs import EXAMPLES
from tests.support.moto.cluster_account import TestAccount

NAMES = [path.stem for path in EXAMPLES]
QUICK = "managed-node-group"
"""The others take ten seconds each."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == QUICK else pytest.mark.slow) for name in NAMES]
)
def test_example_is_created_in_one_run_and_destroyed_without_leftovers(
    account: TestAccount, name: str
) -> None:
    config = account.prepared(name)
    before = account.inventory(config.region)

    plan = account.plan(config)
    result = account.apply(config)

    assert plan.steps
    assert not plan.missing
    assert {step.id for step in result.done} == {step.id for step in plan.steps}
    assert account.plan(config).steps == ()
    pools = account.served.call(lambda: account.served.api.list(NODE_POOLS).items)
    assert {pool["metadata"]["name"] for pool in pools} == {pool.name for pool in config.node_pools}

    leftovers = account.destroy(config)

    assert leftovers == []
    assert account.inventory(config.region) == before


def test_second_apply_writes_nothing(account: TestAccount) -> None:
    config = account.prepared("existing-vpc")
    account.apply(config)
    account.moto.middleware.reset()

    account.apply(config)

    assert _writes(account) == []


def test_plan_makes_no_mutating_call(account: TestAccount) -> None:
    config = account.prepared("tainted-node-group")
    account.plan(config)
    account.apply(config)
    account.moto.middleware.reset()

    account.plan(config)

    assert account.moto.middleware.calls
    assert _writes(account) == []


def _writes(account: TestAccount) -> list[str]:
    read_prefixes = ("Describe", "Get", "List", "GET ")
    return sorted(call for call in account.moto.middleware.calls if not call.startswith(read_prefixes))
