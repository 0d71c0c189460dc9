"""A consolidation policy that fails is asked less often, then not at all."""

from dovetail.controllers.disruption import controller as disruption
from dovetail.controllers.disruption import queue
from dovetail.controllers.disruption.policy_guard import MAX_FAILURES
from dovetail.core.disruption.policy import Offer, Policy, PolicyError
from tests.support.controllers.disruption import DisruptionEnvironment


class CountingPolicy:
    """Declines every move, or fails."""

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self.offers: list[Offer] = []

    def __call__(self, offer: Offer) -> tuple[int, ...]:
        self.offers.append(offer)
        if self.fails:
            raise PolicyError("it did not answer in time")
        return ()


def an_environment(choose: CountingPolicy) -> DisruptionEnvironment:
    """Return two nodes of which one can be deleted."""
    env = DisruptionEnvironment()
    env.add_pool()
    for node in ("node-a", "node-b"):
        env.add_node(node)
        env.add_app_pod(f"web-{node}", node, cpu="1")
    env.wait(60)
    policy = Policy("test", choose=choose)
    env.run(disruption.controller, queue.controller, consolidation_policy=policy)
    return env


def test_policy_that_declines_every_move_keeps_the_nodes() -> None:
    choose = CountingPolicy(fails=False)
    env = an_environment(choose)

    env.wait(minutes=20)

    assert env.deleting_claims() == []
    assert len(choose.offers) >= 2, "a policy may decide by the time, so it is asked again"


def test_failed_policy_leaves_the_decision_to_the_built_in_one_and_is_reported() -> None:
    choose = CountingPolicy(fails=True)
    env = an_environment(choose)

    env.wait(15)

    assert len(env.deleting_claims()) == 1
    assert env.events.reasons("default") == ["ConsolidationPolicyFailed"]
    labels = {"policy": "test"}
    assert env.metrics.total("dovetail_consolidation_policy_failures_total", **labels) == 1


def test_policy_is_switched_off_after_failures_in_a_row() -> None:
    choose = CountingPolicy(fails=True)
    env = an_environment(choose)

    for number in range(2 * MAX_FAILURES):
        env.wait(hours=1)
        env.add_node(f"more-{number}")
        env.add_app_pod(f"web-more-{number}", f"more-{number}", cpu="1")
        env.wait(minutes=10)

    assert len(choose.offers) == MAX_FAILURES
    assert env.metrics.total("dovetail_consolidation_policy_enabled", policy="test") == 0
