"""Provisioner: pods that are expensive to plan do not delay others."""

from datetime import timedelta

import pytest

from dovetail.controllers.provisioning import provisioner
from dovetail.core.scheduling import work
from dovetail.core.scheduling.solver import solve
from dovetail.model.plan import Plan
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.ports.api_resources import NAMESPACES, NODE_POOLS, PODS
from dovetail.simulator.event_loop import VirtualEventLoop
from tests.support.controllers.provisioning import ProvisioningEnvironment
from tests.support.kube.hostile_objects import NAMESPACE, hostile_nodepools, hostile_pods

SECONDS_PER_STEP = 10e-6
POSTPONED = "dovetail_scheduler_postponed_pods_count"
COMPLEX = "dovetail_scheduler_complex_pods_count"
UNSCHEDULABLE = "karpenter_scheduler_unschedulable_pods_count"
TERMS = [
    {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": f"other-{n}"}}}
    for n in range(100)
]
MANY_TERMS = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}}}


def add_complex_pod(env: ProvisioningEnvironment, name: str, *, cpu: str = "1") -> None:
    env.add_pending_pod(name, requests={"cpu": cpu}, **MANY_TERMS)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Names of the pods that each call of the solver considers."""
    considered: list[list[str]] = []

    def record(snapshot: ClusterSnapshot, *arguments: object) -> Plan:
        plan = solve(snapshot, *arguments)  # type: ignore[arg-type]
        postponed = {pod.name for pod in plan.postponed}
        considered.append(sorted(pod.name for pod in snapshot.pending_pods if pod.name not in postponed))
        return plan

    monkeypatch.setattr(provisioner, "solve", record)
    return considered


def test_complex_pod_gets_a_nodeclaim_in_the_same_pass(passes: list[list[str]]) -> None:
    env = ProvisioningEnvironment().start()

    env.add_pending_pod("ordinary")
    add_complex_pod(env, "complex")
    env.wait(1.1)

    assert len(env.live_claims()) == 2
    assert passes == [["ordinary"], ["complex"]]


def test_complex_pod_without_a_node_is_considered_at_growing_intervals(passes: list[list[str]]) -> None:
    env = ProvisioningEnvironment().start()

    add_complex_pod(env, "complex", cpu="5000")
    env.add_pending_pod("impossible", requests={"cpu": "5000"})
    env.wait(300)

    attempts = sum("complex" in names for names in passes)
    assert 4 <= attempts <= 6
    assert sum("impossible" in names for names in passes) > 20


def test_new_nodepool_ends_the_interval(passes: list[list[str]]) -> None:
    env = ProvisioningEnvironment().start()
    add_complex_pod(env, "complex", cpu="5000")
    env.wait(75)
    passes.clear()

    env.add_pool("second")
    env.wait(1.5)

    assert ["complex"] in passes


def test_pods_that_a_pass_postpones_are_planned_by_the_next_one(
    passes: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.core.scheduling.solver.ISOLATED_STEPS", 1)
    env = ProvisioningEnvironment().start()

    for name, cpu in (("a", "1"), ("b", "2"), ("c", "3")):
        add_complex_pod(env, name, cpu=cpu)
    env.wait(1.1)
    first = len(env.live_claims())
    postponed = env.metrics.total(POSTPONED)
    env.wait(3)

    assert first == 1
    assert postponed == 2
    assert len(env.live_claims()) == 3
    assert [names for names in passes if names] == [["a"], ["b"], ["c"]]


def test_pod_that_is_too_complex_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "CLASS_STEPS", 10)
    env = ProvisioningEnvironment().start()

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


def test_pass_stops_when_its_time_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    env = ProvisioningEnvironment().start()
    answers: list[bool] = []

    def slow(_: ClusterSnapshot, __: object, should_stop: work.ShouldStop, *___: object) -> Plan:
        now = env.clock.now()
        for seconds in (9, 10):
            with monkeypatch.context() as later:
                later.setattr(VirtualEventLoop, "now", lambda _: now + timedelta(seconds=seconds))  # noqa: B023
                answers.append(should_stop())
        return Plan()

    monkeypatch.setattr(provisioner, "solve", slow)
    env.add_pending_pod("ordinary")
    env.wait(1.5)

    assert answers == [False, True]


@pytest.mark.slow
def test_ordinary_pod_gets_a_nodeclaim_in_seconds_beside_hostile_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """62 pods with hundreds of constraints, 100 NodePools with dozens of labels."""
    steps: list[int] = []

    def count(*arguments: object) -> Plan:
        plan = solve(*arguments)  # type: ignore[arg-type]
        steps.append(plan.steps)
        return plan

    monkeypatch.setattr(provisioner, "solve", count)
    env = ProvisioningEnvironment().start()
    env.add(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for pool in hostile_nodepools():
        ready = {"type": "Ready", "status": "True", "reason": "Ready"}
        env.add(NODE_POOLS, {**pool, "status": {"conditions": [ready]}})
    for pod in hostile_pods():
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        env.add(PODS, {**pod, "status": {"phase": "Pending", "conditions": [condition]}})
    env.wait(5)
    steps.clear()

    env.add_pending_pod("ordinary", requests={"cpu": "1"})
    env.wait(2)

    assert env.claims_for("ordinary")
    assert sum(steps) * SECONDS_PER_STEP < 3
