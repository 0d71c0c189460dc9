"""Every example: planned, applied, planned again, and taken away."""

import pytest

from dovetail.ports.api_resources import NODE_POOLS
from tests.support.clusters import EXAMPLES
from tests.support.moto.account import TestAccount

NAMES = [one.stem for one in EXAMPLES]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_made_in_one_run_and_taken_away_without_a_trace(
    account: TestAccount, name: str
) -> None:
    spec = account.prepared(name)
    before = account.inventory(spec.region)

    planned = account.plan(spec)
    done = account.apply(spec)

    assert planned.steps
    assert not planned.missing
    assert {one.id for one in done.done} == {one.id for one in planned.steps}
    assert account.plan(spec).steps == ()
    pools = account.served.call(lambda: account.served.api.list(NODE_POOLS).items)
    assert {one["metadata"]["name"] for one in pools} == {one.name for one in spec.node_pools}

    left = account.destroy(spec)

    assert left == []
    assert account.inventory(spec.region) == before


def test_a_second_apply_writes_nothing(account: TestAccount) -> None:
    spec = account.prepared("existing-vpc")
    account.apply(spec)
    account.moto.door.reset()

    account.apply(spec)

    assert _writes(account) == []


def test_planning_and_looking_make_no_call_that_could_change_anything(
    account: TestAccount,
) -> None:
    spec = account.prepared("tainted-node-group")
    account.plan(spec)
    account.apply(spec)
    account.moto.door.reset()

    account.plan(spec)

    assert account.moto.door.calls
    assert _writes(account) == []


def _writes(account: TestAccount) -> list[str]:
    reading = ("Describe", "Get", "List", "GET ")
    return sorted(one for one in account.moto.door.calls if not one.startswith(reading))
