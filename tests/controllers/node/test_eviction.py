"""The eviction queue: pods asked to go, one by one.

EV1, EV2, EV3, EV4, EV5, EV6, EV7, EV8, EV9, EV10, EV11, EV12, EV13, EV14.
"""

from datetime import timedelta

import pytest

from dovetail.controllers.node import eviction
from dovetail.model import labels as label_keys
from dovetail.model.kube.conditions import TRUE, Condition
from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_errors import ApiError, Conflict, Forbidden, NotFound
from dovetail.state.pods.evictions import PodKey
from tests.support.fleet import a_budget, a_machine, a_pod, an_owner, is_asked_to_go, stop_pod
from tests.support.world import World

WEB = {"app": "web"}


def a_world(**machine: object) -> World:
    world = World()
    a_machine(world, **machine)  # type: ignore[arg-type]
    a_pod(world, owner=an_owner(world, "ReplicaSet"), labels=WEB)
    return world.run(eviction.EvictionQueue)


def evict(world: World, name: str = "pod", *, within: float | None = None) -> PodKey:
    """Want a pod gone, as a node that drains does."""
    pod = world.mirror.pod("default", name)
    assert pod is not None
    deadline = None if within is None else world.now + timedelta(seconds=within)
    world.evictions.add(pod, deadline=deadline)
    world.wait(0)
    return ("default", name, pod.uid)


def requests(world: World) -> list[str]:
    asked = world.metrics.values.get("karpenter_pods_eviction_requests_total", [])
    return [labels["code"] for _, labels in asked]


def test_a_pod_without_a_budget_is_evicted() -> None:
    world = a_world()

    key = evict(world)

    assert is_asked_to_go(world)
    assert world.events.about("pod") == ["Evicted"]
    assert requests(world) == ["200"]
    assert world.evictions.get(key) is None


def test_a_pod_whose_budget_allows_it_is_evicted() -> None:
    world = a_world()
    a_pod(world, "twin", owner=an_owner(world, "ReplicaSet"), labels=WEB)
    a_budget(world, minAvailable=1, allowed=1)

    evict(world)

    assert is_asked_to_go(world)
    assert not is_asked_to_go(world, "twin")


def test_a_pod_that_is_gone_is_no_trouble() -> None:
    world = a_world()
    pod = world.mirror.pod("default", "pod")
    assert pod is not None
    stop_pod(world)

    world.evictions.add(pod, deadline=None)
    world.wait(0)

    assert world.events.told == []
    assert world.evictions.get(("default", "pod", pod.uid)) is None
    assert world.log.said("reconciler error") == []


@pytest.mark.parametrize("answer", [NotFound("no such pod"), Conflict("another uid")])
def test_a_pod_that_goes_while_it_is_asked_is_no_trouble(answer: ApiError) -> None:
    world = a_world()
    world.faults.fail("evict", PODS, answer)

    key = evict(world)

    assert world.events.told == []
    assert requests(world) == [str(answer.code)]
    assert world.evictions.get(key) is None
    assert world.log.said("reconciler error") == []


def test_another_pod_under_the_name_is_not_touched() -> None:
    world = a_world()
    a_budget(world, minAvailable=1)
    evict(world)

    stop_pod(world)
    world.delete(POD_DISRUPTION_BUDGETS, "budget", "default")
    a_pod(world, owner=an_owner(world, "ReplicaSet"), labels=WEB)
    world.wait(30)

    assert not is_asked_to_go(world)
    assert "Evicted" not in world.events.about("pod")


def test_a_pod_that_its_budget_keeps_stays_queued_and_is_asked_less_and_less_often() -> None:
    world = a_world()
    a_budget(world, minAvailable=1)

    key = evict(world)
    world.wait(1.4)
    early = len(requests(world))
    world.wait(60)
    late = len(requests(world))
    world.wait(60)

    assert world.evictions.get(key) is not None
    assert early == 4
    assert len(requests(world)) - late == 6
    assert set(requests(world)) == {"429"}
    assert world.events.about("node")[0] == "FailedDraining"
    assert not is_asked_to_go(world)
    assert world.log.said("reconciler error") == []


def test_a_pod_with_two_budgets_stays_queued() -> None:
    world = a_world()
    a_budget(world, "one", minAvailable=0, allowed=1)
    a_budget(world, "two", minAvailable=0, allowed=1)

    key = evict(world)

    assert world.evictions.get(key) is not None
    assert requests(world) == ["500"]
    assert world.events.about("node") == ["FailedDraining"]


def test_once_the_budget_allows_it_the_pod_goes() -> None:
    world = a_world()
    a_budget(world, minAvailable=1)
    key = evict(world)

    a_pod(world, "twin", owner=an_owner(world, "ReplicaSet"), labels=WEB)
    world.wait(10)

    assert is_asked_to_go(world)
    assert world.evictions.get(key) is None


def test_other_refusals_are_errors_and_tried_again() -> None:
    world = a_world()
    world.faults.fail("evict", PODS, Forbidden("no rights"))

    evict(world)
    world.wait(1)

    assert requests(world) == ["403", "200"]
    assert len(world.log.said("reconciler error")) == 1


def test_pods_of_a_node_that_nobody_chose_are_counted_as_forced() -> None:
    world = a_world()

    evict(world)

    reason = "Forceful Termination"
    assert world.metrics.total("karpenter_pods_drained_total", reason=reason) == 1


def test_pods_of_a_node_that_was_chosen_are_counted_by_the_reason() -> None:
    chosen = Condition(status=TRUE, reason="Drifted", generation=1)
    world = a_world(conditions={"DisruptionReason": chosen})

    evict(world)

    assert world.metrics.total("karpenter_pods_drained_total", reason="Drifted") == 1


def test_pods_of_a_node_without_a_claim_are_counted_without_a_reason() -> None:
    world = a_world()
    a_pod(world, "stray", node="elsewhere")

    evict(world, "stray")

    assert world.metrics.total("karpenter_pods_drained_total", reason="") == 1


def test_a_deadline_that_is_near_overrules_the_budget() -> None:
    world = a_world()
    a_budget(world, minAvailable=1)

    evict(world, within=20)

    assert is_asked_to_go(world)
    assert world.events.about("pod") == ["Disrupted"]


def test_a_queued_pod_is_made_to_go_when_it_is_given_a_deadline() -> None:
    world = a_world()
    a_budget(world, minAvailable=1)
    evict(world)
    world.wait(60)

    evict(world, within=5)

    assert is_asked_to_go(world)


def test_a_queued_pod_is_made_to_go_at_the_moment_it_would_be_late() -> None:
    world = a_world()
    a_budget(world, minAvailable=1)
    evict(world, within=100)

    world.wait(69.9)
    before = is_asked_to_go(world)
    world.wait(0.1)

    assert not before
    assert is_asked_to_go(world)


def test_a_later_deadline_changes_nothing() -> None:
    world = a_world()
    a_budget(world, minAvailable=1)
    key = evict(world, within=100)

    evict(world, within=200)

    kept = world.evictions.get(key)
    assert kept is not None
    assert kept.deadline == world.now + timedelta(seconds=100)


def test_a_pod_that_vanishes_leaves_nothing_behind() -> None:
    world = a_world()
    a_budget(world, minAvailable=1)
    key = evict(world)

    stop_pod(world)
    world.wait(10)

    assert world.evictions.get(key) is None


def test_the_grace_of_a_pod_that_is_made_to_go_is_never_below_a_second() -> None:
    world = a_world()

    evict(world, within=-100)

    meta = world.get(PODS, "pod", "default")["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 1


def test_wanting_a_pod_gone_while_it_is_being_asked_does_no_harm() -> None:
    world = a_world()
    a_budget(world, minAvailable=1)

    for _ in range(5):
        evict(world)
    asked = len(requests(world))

    assert asked == 1


def test_an_annotation_that_cannot_be_read_is_told_and_ignored() -> None:
    world = a_world()
    a_pod(world, "odd", annotations={label_keys.DO_NOT_DISRUPT: "false"})

    evict(world, "odd")

    assert is_asked_to_go(world, "odd")
    assert "InvalidDoNotDisruptAnnotation" in world.events.about("odd")


def test_a_second_pass_changes_nothing() -> None:
    world = a_world()
    key = evict(world)
    before = world.versions()

    world.runtime.ask(eviction.NAME, key)
    world.wait(0)

    assert world.versions() == before


def test_a_budget_that_comes_to_allow_one_more_lets_one_more_go_at_once() -> None:
    world = a_world()
    a_pod(world, "twin", owner=an_owner(world, "ReplicaSet"), labels=WEB)
    a_budget(world, minAvailable=2)
    evict(world)
    evict(world, "twin")
    world.wait(60)
    asked = len(requests(world))

    a_pod(world, "third", owner=an_owner(world, "ReplicaSet"), labels=WEB)
    allowed = {"status": {"disruptionsAllowed": 1}}
    world.patch(POD_DISRUPTION_BUDGETS, "budget", allowed, "default", subresource="status")

    assert [is_asked_to_go(world, name) for name in ("pod", "twin")] == [True, False]
    assert len(requests(world)) == asked + 1


def test_a_budget_that_is_deleted_lets_all_go_at_once() -> None:
    world = a_world()
    a_pod(world, "twin", owner=an_owner(world, "ReplicaSet"), labels=WEB)
    a_budget(world, minAvailable=2)
    evict(world)
    evict(world, "twin")
    world.wait(60)

    world.delete(POD_DISRUPTION_BUDGETS, "budget", "default")

    assert [is_asked_to_go(world, name) for name in ("pod", "twin")] == [True, True]
