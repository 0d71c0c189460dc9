"""Invariants: each speaks when it is broken, and is silent about what is allowed."""

from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any

import pytest

from dovetail.codec.quantities import show_instant
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import (
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
from dovetail.ports.kube_errors import TooManyRequests
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.checks.invariants import GuardedKube, Invariants
from dovetail.simulator.ec2.account import VirtualEc2
from dovetail.simulator.ec2.billing import Purchase
from tests.simulator.ec2.place import REGION, Steady
from tests.support.cluster import START, Cluster, a_pod, owned_by, run_pod
from tests.support.wire import claim, node, pool

AT_ONCE = DeleteOptions(grace_seconds=0)
MINUTE = 60


class Careless(Cluster):
    """An API server that evicts whomever it is asked to, whatever the budgets say."""

    def evict(self, name: str, namespace: str, *, options: DeleteOptions = AT_ONCE) -> None:
        self.delete(PODS, name, namespace, options=options)


class Watched:
    """A cluster without actors, an account, and the invariants between them."""

    def __init__(self, api: Cluster | None = None) -> None:
        self.api = api or Cluster()
        self.ec2 = VirtualEc2(self.api.engine, region=REGION, chance=Steady())
        self.invariants = Invariants(self.api, self.api.engine, self.ec2)
        self.kube = GuardedKube(self.api, self.invariants)

    @property
    def violations(self) -> list[str]:
        return self.invariants.violations

    def wait(self, seconds: float = 0) -> None:
        self.api.wait(seconds)

    def claim(self, name: str = "claim", *, cpu: int = 0, **metadata: Any) -> str:
        """Write a claim, with the size of its machine once ``cpu`` says it; returns its uid."""
        made = claim(name)
        made["metadata"].update(metadata)
        uid: str = self.api.create(NODE_CLAIMS, made)["metadata"]["uid"]
        if cpu:
            self.claim_status(name, capacity={"cpu": str(cpu)})
        self.wait()
        return uid

    def claim_status(self, name: str = "claim", **status: Any) -> None:
        self.api.patch(NODE_CLAIMS, name, {"status": status}, PatchType.MERGE, subresource="status")
        self.wait()

    def buy(self, uid: str, number: int = 1, *, name: str = "claim") -> Purchase:
        made = Purchase(
            claim=name,
            claim_uid=uid,
            provider_id=provider(number),
            instance_type="m5.large",
            zone="eu-west-1a",
            capacity_type="spot",
            price=0.1,
            launched=self.now,
        )
        self.ec2.ledger.launched(made)
        return made

    def give_back(self, purchase: Purchase) -> None:
        self.ec2.ledger.shuts_down(purchase, now=self.now)

    @property
    def now(self) -> datetime:
        return self.api.engine.now()


def provider(number: int) -> str:
    return f"aws:///eu-west-1a/i-{number}"


def occupied(pod: dict[str, Any] | None = None, **metadata: Any) -> tuple[Watched, Purchase]:
    """A machine that joined as node n1, with a pod that runs on it."""
    world = Watched()
    bought = world.buy(world.claim(**metadata))
    world.api.create(NODES, node("n1", provider_id=bought.provider_id))
    run_pod(world.api, pod or a_pod("web"), node="n1")
    world.wait(1)
    return world, bought


def driven(work: Coroutine[Any, Any, Any]) -> None:
    """Make a call that answers at once."""
    with pytest.raises(StopIteration):
        work.send(None)


# Launches.


def test_a_second_instance_for_a_claim_is_noted() -> None:
    world = Watched()
    uid = world.claim()

    world.buy(uid, 1)
    world.buy(uid, 2)

    assert world.violations == [
        f"09:00:00 nodeclaim claim got two instances: {provider(1)} and {provider(2)}"
    ]


def test_one_instance_for_each_claim_is_fine_even_under_the_same_name() -> None:
    world = Watched()

    first = world.buy(world.claim())
    world.give_back(first)
    world.api.delete(NODE_CLAIMS, "claim")
    world.buy(world.claim(), 2)
    world.wait(10 * MINUTE)

    assert world.violations == []


# Orphans.


def test_an_instance_that_outlives_its_claim_is_noted() -> None:
    world = Watched()
    world.buy(world.claim())
    world.wait(10 * MINUTE)

    world.api.delete(NODE_CLAIMS, "claim")
    world.wait(3 * MINUTE)

    assert world.violations == [f"09:13:00 {provider(1)} has no nodeclaim for over 0:03:00"]


def test_an_instance_whose_claim_was_gone_before_it_came_is_noted() -> None:
    world = Watched()
    uid = world.claim()
    world.api.delete(NODE_CLAIMS, "claim")
    world.wait(1)

    world.buy(uid)
    world.wait(3 * MINUTE)

    assert world.violations == [f"09:03:01 {provider(1)} has no nodeclaim for over 0:03:00"]


def test_an_instance_has_its_three_minutes_from_when_it_was_left_alone() -> None:
    world = Watched()
    bought = world.buy(world.claim())

    # Shortly before the look that the launch had arranged for.
    world.wait(3 * MINUTE - 1)
    world.api.delete(NODE_CLAIMS, "claim")
    world.wait(2 * MINUTE)
    world.give_back(bought)
    world.wait(10 * MINUTE)

    assert world.violations == []


def test_nodes_that_were_there_beforehand_need_no_claim() -> None:
    world = Watched()

    world.buy("whatever", name="")
    world.wait(10 * MINUTE)

    assert world.violations == []


# Limits.


def limited(**limits: str) -> Watched:
    world = Watched()
    made = pool()
    made["spec"]["limits"] = limits
    world.api.create(NODE_POOLS, made)
    return world


def test_a_pool_beyond_its_limit_is_noted() -> None:
    world = limited(cpu="6")

    world.claim("a", cpu=4)
    assert world.violations == []
    world.claim("b", cpu=4)

    assert world.violations == ["09:00:00 nodepool default has 8000 of cpu, its limit is 6000"]


def test_nodes_can_be_limited_in_number() -> None:
    world = limited(nodes="1")

    world.claim("a", cpu=4)
    world.claim("b", cpu=4)

    [told] = world.violations
    assert "has 2 of nodes, its limit is 1" in told


def test_a_pool_may_be_filled_to_its_limit() -> None:
    world = limited(cpu="8", memory="1Gi")

    world.claim("a", cpu=4)
    world.claim("b", cpu=4)
    world.claim_status("a", capacity={"cpu": "4"})

    assert world.violations == []


def test_what_is_on_its_way_out_makes_room_for_others() -> None:
    world = limited(cpu="4")
    world.claim("old", cpu=4, finalizers=["karpenter.sh/termination"])

    world.api.delete(NODE_CLAIMS, "old")
    world.wait()
    world.claim("new", cpu=4)

    assert world.violations == []


def test_a_pool_without_limits_or_that_is_not_there_may_be_of_any_size() -> None:
    without, gone = Watched(), Watched()
    without.api.create(NODE_POOLS, pool())

    for world in (without, gone):
        world.claim("a", cpu=1_000_000)

    assert without.violations == gone.violations == []


# Budgets.


def a_budget(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "budget", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def guarded(api: Cluster, **spec: Any) -> Watched:
    """Two pods of which both must stay."""
    world = Watched(api)
    world.claim()
    world.claim_status(nodeName="n1")
    api.create(NODES, node("n1", provider_id=provider(1)))
    api.create(POD_DISRUPTION_BUDGETS, a_budget(minAvailable=2))
    for name in ("a", "b"):
        run_pod(api, a_pod(name, labels={"app": "web"}, **spec))
    world.wait()
    return world


@pytest.mark.parametrize("grace", [0, 30], ids=["gone at once", "with grace"])
def test_an_eviction_that_breaks_a_budget_is_noted(grace: int) -> None:
    world = guarded(Careless(), terminationGracePeriodSeconds=grace)

    driven(world.kube.evict("a", "default", uid=""))

    assert world.violations == [
        "09:00:00 evicting pod default/a breaks budget default/budget: 1 healthy, 2 wanted"
    ]


def test_an_eviction_that_is_refused_is_none() -> None:
    world = guarded(Cluster())

    with pytest.raises(TooManyRequests):
        world.kube.evict("a", "default", uid="").send(None)

    assert world.violations == []


def test_a_pod_that_is_going_already_can_be_evicted_again() -> None:
    world = guarded(Careless())
    world.api.delete(PODS, "a", "default")

    driven(world.kube.evict("a", "default", uid=""))

    assert world.violations == []


def test_a_pod_that_is_not_ready_takes_nothing_from_a_budget() -> None:
    world = guarded(Careless())
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    world.api.patch(PODS, "a", unready, PatchType.MERGE, "default", subresource="status")

    driven(world.kube.evict("a", "default", uid=""))

    assert world.violations == []


def test_a_pod_that_is_deleted_past_its_budget_is_noted() -> None:
    world = guarded(Cluster())

    driven(world.kube.delete(PODS, "a", "default", grace_seconds=1))

    assert world.violations == [
        "09:00:00 deleting pod default/a breaks budget default/budget: 1 healthy, 2 wanted"
    ]


def test_pods_of_a_node_with_a_deadline_may_be_deleted_in_time_for_it() -> None:
    world = guarded(Cluster())
    soon = {label_keys.TERMINATION_TIMESTAMP: show_instant(START + timedelta(seconds=30))}
    world.api.patch(NODE_CLAIMS, "claim", {"metadata": {"annotations": soon}}, PatchType.MERGE)
    world.wait()

    driven(world.kube.delete(PODS, "a", "default", grace_seconds=1))

    assert world.violations == []


def test_whatever_else_is_deleted_has_no_budget() -> None:
    world = guarded(Cluster())

    driven(world.kube.delete(NODES, "n1"))

    assert world.violations == []


# Instances given back.


def test_an_instance_given_back_under_a_pod_is_noted() -> None:
    world, bought = occupied()

    world.give_back(bought)

    assert world.violations == ["09:00:01 n1 was given back under pod default/web"]


def test_a_deadline_excuses_only_once_it_has_passed() -> None:
    at = {label_keys.TERMINATION_TIMESTAMP: show_instant(START + timedelta(minutes=5))}
    early, late = occupied(annotations=at), occupied(annotations=at)

    early[0].wait(299 - 1)
    early[0].give_back(early[1])
    late[0].wait(300 - 1)
    late[0].give_back(late[1])

    assert early[0].violations == ["09:04:59 n1 was given back under pod default/web"]
    assert late[0].violations == []


def test_what_ec2_takes_back_it_takes_with_pods() -> None:
    world, bought = occupied()

    world.ec2.reclaimed.add(bought.provider_id)
    world.give_back(bought)

    assert world.violations == []


def test_an_instance_that_never_joined_can_be_given_back() -> None:
    world = Watched()
    bought = world.buy(world.claim())

    world.give_back(bought)

    assert world.violations == []


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"operator": "Exists", "effect": "NoSchedule"},
        {"key": "karpenter.sh/disrupted"},
        {"key": "karpenter.sh/disrupted", "operator": "Exists"},
        {"key": "karpenter.sh/disrupted", "operator": "Equal", "effect": "NoSchedule"},
    ],
    ids=str,
)
def test_pods_that_tolerate_the_taint_go_down_with_the_node(toleration: dict[str, Any]) -> None:
    world, bought = occupied(a_pod("web", tolerations=[toleration]))

    world.give_back(bought)

    assert world.violations == []


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "other", "operator": "Exists"},
        {"operator": "Exists", "effect": "NoExecute"},
        {"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoExecute"},
        {"key": "karpenter.sh/disrupted", "operator": "Equal", "value": "yes"},
    ],
    ids=str,
)
def test_other_tolerations_do_not_count(toleration: dict[str, Any]) -> None:
    world, bought = occupied(a_pod("web", tolerations=[toleration]))

    world.give_back(bought)

    assert len(world.violations) == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_hold_nobody_up(phase: str) -> None:
    world, bought = occupied()
    over = {"status": {"phase": phase}}
    world.api.patch(PODS, "web", over, PatchType.MERGE, "default", subresource="status")

    world.give_back(bought)

    assert world.violations == []


def test_static_pods_belong_to_the_node() -> None:
    world, bought = occupied()
    world.api.delete(PODS, "web", "default", options=AT_ONCE)
    run_pod(world.api, owned_by(a_pod("static"), world.api.get(NODES, "n1")), node="n1")

    world.give_back(bought)

    assert world.violations == []


def test_a_pod_that_does_not_go_is_waited_for_a_minute_beyond_its_end() -> None:
    worlds = occupied(), occupied()

    for (world, bought), wait in zip(worlds, (30 + 59, 30 + 60), strict=True):
        world.api.delete(PODS, "web", "default")  # It has thirty seconds.
        world.wait(wait)
        world.give_back(bought)

    (early, _), (late, _) = worlds
    assert early.violations == ["09:01:30 n1 was given back under pod default/web"]
    assert late.violations == []


def test_pods_of_a_namesake_are_no_business_of_the_machine_before_it() -> None:
    world, bought = occupied()
    world.api.delete(NODES, "n1")
    world.api.create(NODES, node("n1", provider_id=provider(2)))
    world.wait()

    world.give_back(bought)

    assert world.violations == []


# Pods left behind.


def test_a_pod_left_on_a_node_that_is_gone_is_lost() -> None:
    world, _ = occupied()

    world.api.delete(NODES, "n1")
    world.wait(2 * MINUTE - 1)
    assert world.violations == []
    world.wait(1)

    assert world.violations == ["09:02:01 pod default/web is lost: n1 is gone"]


def test_a_pod_that_goes_with_its_node_is_not_lost() -> None:
    world, _ = occupied()

    world.api.delete(NODES, "n1")
    world.wait(MINUTE)
    world.api.delete(PODS, "web", "default", options=AT_ONCE)
    world.wait(10 * MINUTE)

    assert world.violations == []


def test_a_pod_whose_node_registers_anew_is_not_lost() -> None:
    world, bought = occupied()

    world.api.delete(NODES, "n1")
    world.wait(MINUTE)
    world.api.create(NODES, node("n1", provider_id=bought.provider_id))
    world.wait(10 * MINUTE)

    assert world.violations == []
