"""Provisioner: pods that are expensive to plan do not delay others."""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest

from dovetail.model.settings import SchedulingSettings
from dovetail.ports.api_resources import NAMESPACES, NODE_POOLS, NODES, PODS
from dovetail.ports.event_loop import EventLoop
from tests.support.controllers.provisioning import ProvisioningEnvironment
from tests.support.kube import manifests
from tests.support.kube.hostile_objects import NAMESPACE, hostile_nodepools, hostile_pods

SECONDS_PER_STEP = 10e-6
POSTPONED = "dovetail_scheduler_postponed_pods_count"
QUEUED = "karpenter_scheduler_queue_depth"
COMPLEX = "dovetail_scheduler_complex_pods_count"
UNSCHEDULABLE = "karpenter_scheduler_unschedulable_pods_count"
TERMS = [
    {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": f"other-{n}"}}}
    for n in range(100)
]
MANY_TERMS = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}}}


T = TypeVar("T")


class SlowExecutor:
    """``ports.executor.Executor`` whose work begins after a delay."""

    def __init__(self, loop: EventLoop, delay: timedelta) -> None:
        self._loop, self._delay = loop, delay

    async def run(self, function: Callable[[], T]) -> T:
        await self._loop.sleep(self._delay)
        return function()


def add_complex_pod(env: ProvisioningEnvironment, name: str, *, cpu: str = "1") -> None:
    env.add_pending_pod(name, requests={"cpu": cpu}, **MANY_TERMS)


def test_complex_pod_gets_a_nodeclaim_in_the_same_pass() -> None:
    env = ProvisioningEnvironment().start()

    env.add_pending_pod("ordinary")
    add_complex_pod(env, "complex")
    env.wait(1.1)

    assert len(env.live_claims()) == 2
    assert env.considered == [["ordinary"], ["complex"]]


def test_complex_pod_without_a_node_is_considered_at_growing_intervals() -> None:
    env = ProvisioningEnvironment().start()

    add_complex_pod(env, "complex", cpu="5000")
    env.add_pending_pod("impossible", requests={"cpu": "5000"})
    env.wait(300)

    attempts = sum("complex" in names for names in env.considered)
    assert 4 <= attempts <= 6
    assert sum("impossible" in names for names in env.considered) > 20


def test_after_a_restart_complex_pods_are_tried_once_after_others_and_wait_again() -> None:
    """The intervals are in memory."""
    env = ProvisioningEnvironment().start()
    for number in range(5):
        add_complex_pod(env, f"complex-{number}", cpu=str(5000 + number))
    env.wait(60)
    env.considered.clear()

    env.restart()
    env.add_pending_pod("ordinary")
    env.wait(9)

    assert env.considered[0] == ["ordinary"]
    assert len(env.live_claims()) == 1
    assert sum("complex-0" in names for names in env.considered) == 1


def test_new_nodepool_ends_the_interval() -> None:
    env = ProvisioningEnvironment().start()
    add_complex_pod(env, "complex", cpu="5000")
    env.wait(75)
    env.considered.clear()

    env.add_pool("second")
    env.wait(1.5)

    assert ["complex"] in env.considered


def test_pods_that_a_pass_postpones_are_planned_by_the_next_one() -> None:
    settings = SchedulingSettings(isolated_steps=1)
    env = ProvisioningEnvironment().start(scheduling_settings=settings)

    for name, cpu in (("a", "1"), ("b", "2"), ("c", "3")):
        add_complex_pod(env, name, cpu=cpu)
    env.wait(1.1)
    first = len(env.live_claims())
    postponed = env.metrics.total(POSTPONED)
    env.wait(3)

    assert first == 1
    assert postponed == 2
    assert len(env.live_claims()) == 3
    assert [names for names in env.considered if names] == [["a"], ["b"], ["c"]]


def test_pod_that_is_too_complex_is_reported() -> None:
    env = ProvisioningEnvironment().start(scheduling_settings=SchedulingSettings(class_steps=10))

    add_complex_pod(env, "complex")
    env.add_pending_pod("ordinary")
    env.wait(1.5)

    assert len(env.live_claims()) == 1
    (event,) = [event for event in env.events.published if event.reason == "FailedScheduling"]
    assert event.name == "complex"
    assert "100 pod anti-affinity terms" in event.message
    assert "too complex to plan" in event.message
    assert env.metrics.total(COMPLEX) == 1
    assert env.metrics.total(UNSCHEDULABLE) == 1


def test_waiting_pods_stay_counted_as_unschedulable() -> None:
    env = ProvisioningEnvironment().start()
    add_complex_pod(env, "complex", cpu="5000")
    env.wait(15)

    env.add_pending_pod("ordinary")
    env.wait(1.5)

    assert env.metrics.total(UNSCHEDULABLE) == 1


@pytest.mark.parametrize(("seconds", "considered"), [(9, ["ordinary"]), (10, [])])
def test_pass_stops_when_its_time_is_used_up(seconds: int, considered: list[str]) -> None:
    env = ProvisioningEnvironment()
    env.start(executor=SlowExecutor(env.loop, timedelta(seconds=seconds)))

    env.add_pending_pod("ordinary")
    env.wait(1.5 + seconds)

    assert env.considered[0] == considered


@pytest.mark.slow
def test_ordinary_pod_gets_a_nodeclaim_in_seconds_beside_hostile_objects() -> None:
    """62 pods with hundreds of constraints, 100 NodePools with dozens of labels."""
    env = ProvisioningEnvironment().start()
    env.add(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for pool in hostile_nodepools():
        ready = {"type": "Ready", "status": "True", "reason": "Ready"}
        env.add(NODE_POOLS, {**pool, "status": {"conditions": [ready]}})
    for pod in hostile_pods():
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        env.add(PODS, {**pod, "status": {"phase": "Pending", "conditions": [condition]}})
    env.wait(5)
    env.steps.clear()

    env.add_pending_pod("ordinary", requests={"cpu": "1"})
    env.wait(2)

    assert env.claims_for("ordinary")
    assert sum(env.steps) * SECONDS_PER_STEP < 3


def test_gauges_of_pending_pods_are_zero_within_ten_seconds_after_the_last_one_is_gone() -> None:
    env = ProvisioningEnvironment().start()
    env.add(NODES, manifests.node("n1", size={"cpu": "1"}))
    env.add_pending_pod("deleted", requests={"cpu": "900"})
    add_complex_pod(env, "bound", cpu="900")
    env.wait(5)
    before = [env.metrics.total(name) for name in (QUEUED, UNSCHEDULABLE, COMPLEX)]

    env.delete(PODS, "deleted", "default")
    env.bind("bound", "n1")
    env.wait(10)

    assert before == [2, 2, 1]
    assert [env.metrics.total(name) for name in (QUEUED, UNSCHEDULABLE, COMPLEX, POSTPONED)] == [0, 0, 0, 0]
