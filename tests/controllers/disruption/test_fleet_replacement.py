"""One node is replaced by several cheaper ones; all of them are launched, or none counts."""

import pytest

from dovetail.core.disruption.consolidation.fleet_replacement import MIN_NODE_AGE
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS
from tests.support.controllers.cloud_provider import TYPE
from tests.support.controllers.disruption import DisruptionEnvironment, an_instance_type

TYPES = (an_instance_type("m5.large", cpu=2, price=0.1), an_instance_type(TYPE, cpu=4, price=1.0))


def an_environment(*, crash_after: int | None = None) -> DisruptionEnvironment:
    """Return a node of 1 USD/h with two pods that fit on two nodes of 0.1 USD/h."""
    env = DisruptionEnvironment(TYPES)
    env.add_pool()
    env.add_node()
    for number in range(2):
        env.add_app_pod(f"web-{number}", cpu="1500m")
    env.wait(MIN_NODE_AGE.total_seconds())
    if crash_after is not None:
        env.crash_after(crash_after)
    return env.start().wait(16)


def test_node_is_deleted_once_all_of_its_replacements_are_initialized() -> None:
    env = an_environment()
    first, second = env.replacements()

    env.make_ready(first, cpu="2")
    before = env.deleting_claims()
    env.make_ready(second, cpu="2")

    assert before == []
    assert env.deleting_claims() == ["claim"]


def test_replacement_that_is_gone_rolls_back_the_whole_step() -> None:
    env = an_environment()
    first, second = env.replacements()
    env.wait(31)

    env.delete(NODE_CLAIMS, first)

    assert env.disrupted_nodes() == []
    assert label_keys.REPLACES_ANNOTATION not in env.claim(second).annotations


def count_writes() -> int:
    return len(an_environment().writes)


@pytest.mark.parametrize("step", range(1, count_writes() + 1))
def test_crash_after_any_write_is_resumed_or_rolled_back(step: int) -> None:
    env = an_environment(crash_after=step)
    assert env.crashed

    env.restart().wait(120)
    for _ in range(2):
        new = sorted(claim.name for claim in env.cache.claims() if not claim.node_name)
        for name in new:
            env.make_ready(name, cpu="2")
        env.wait(120)

    # A replacement that was rolled back stays as an ordinary node, and receives pods.
    assert env.deleting_claims() == ["claim"]
    nodes = sorted(claim.name for claim in env.cache.claims() if claim.name != "claim")
    assert len(nodes) == 2
    assert env.disrupted_nodes() == ["node"]
