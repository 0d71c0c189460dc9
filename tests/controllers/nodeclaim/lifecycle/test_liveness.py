"""Liveness: LV1–LV10 of the lifecycle checklist."""

from datetime import timedelta

from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodeclaim.lifecycle import liveness
from dovetail.core.nodeclaim.lifecycle import LifecycleTimeouts
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.ports.cloudprovider import CloudError, CreateError
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests

MINUTE = 60
DISRUPTED = "karpenter_nodeclaims_disrupted_total"


def an_environment() -> ControllerEnvironment:
    return ControllerEnvironment().run(lifecycle.controller, liveness.controller)


def never_launching(env: ControllerEnvironment) -> ControllerEnvironment:
    env.cloud.fail("create", *[CreateError("Unauthorized", "no")] * 1000)
    return env


def add(env: ControllerEnvironment, name: str = "claim", **claim: object) -> ControllerEnvironment:
    env.add(NODE_CLAIMS, manifests.claim(name, **claim))
    return env


def test_nodeclaim_not_registered_after_fifteen_minutes_is_deleted() -> None:
    env = add(an_environment())

    env.wait(15 * MINUTE - 1)
    before = env.get(NODE_CLAIMS, "claim")
    env.wait(6)

    assert before is not None
    assert env.get(NODE_CLAIMS, "claim") is None
    assert env.cloud.instances == {}
    assert env.metrics.total(DISRUPTED, reason="registration_timeout") == 1


def test_nodeclaim_of_another_provider_is_ignored() -> None:
    env = add(an_environment(), node_class=manifests.FOREIGN_NODE_CLASS)

    env.wait(3600)

    assert env.get(NODE_CLAIMS, "claim") is not None


def test_registered_nodeclaim_has_no_timeout() -> None:
    env = add(an_environment())
    env.add(NODES, manifests.node(provider_id=env.claim().provider_id, ready=False))

    env.wait(24 * 3600)

    assert condition(env.claim().conditions, "Initialized") == ("Unknown", "NodeNotReady")


def test_nodeclaim_not_launched_after_five_minutes_is_deleted() -> None:
    env = add(never_launching(an_environment()))

    env.wait(5 * MINUTE - 1)
    before = env.get(NODE_CLAIMS, "claim")
    env.wait(1)

    assert before is not None
    assert env.get(NODE_CLAIMS, "claim") is None
    assert env.metrics.total(DISRUPTED, reason="launch_timeout") == 1


def test_launch_timeout_is_configurable() -> None:
    timeouts = LifecycleTimeouts(launch=timedelta(seconds=45))
    env = ControllerEnvironment().run(lifecycle.controller, liveness.controller, lifecycle_timeouts=timeouts)
    add(never_launching(env))

    env.wait(30)
    before = env.get(NODE_CLAIMS, "claim")
    env.wait(30)

    assert before is not None
    assert env.get(NODE_CLAIMS, "claim") is None


def test_timeout_counts_from_the_transition_of_the_condition() -> None:
    env = add(ControllerEnvironment())
    env.wait(20 * MINUTE)
    # The launch and a registration attempt were recorded later than the creation.
    since = "2026-01-01T09:19:00Z"
    conditions = [
        {"type": kind, "status": status, "reason": "x", "lastTransitionTime": since}
        for kind, status in (("Launched", "True"), ("Registered", "Unknown"))
    ]
    env.patch(NODE_CLAIMS, "claim", {"status": {"conditions": conditions}}, subresource="status")

    env.run(liveness.controller).wait(14 * MINUTE - 1)
    before = env.get(NODE_CLAIMS, "claim")
    env.wait(1)

    assert before is not None
    assert env.get(NODE_CLAIMS, "claim") is None


# Registration health of the NodePool.


def time_out(env: ControllerEnvironment, name: str, *, uid: str = "") -> None:
    owner = manifests.owner("NodePool", "default", uid=uid or env.pool().uid)
    add(env, name, owners=[owner]).wait(20 * MINUTE)
    assert env.get(NODE_CLAIMS, name) is None


def healthy(env: ControllerEnvironment) -> tuple[str, str]:
    return condition(env.pool().conditions, "NodeRegistrationHealthy")


def test_second_timeout_makes_a_nodepool_unhealthy() -> None:
    env = an_environment()
    env.add(NODE_POOLS, manifests.pool())

    time_out(env, "one")
    after_one = healthy(env)
    time_out(env, "two")

    assert after_one == ("", "")
    assert healthy(env) == ("False", "RegistrationFailed")


def test_unhealthy_nodepool_has_the_reason_of_the_failed_launch() -> None:
    env = an_environment()
    env.add(NODE_POOLS, manifests.pool())
    owner = manifests.owner("NodePool", "default", uid=env.pool().uid)
    add(env, "good", owners=[owner])
    env.add(NODES, manifests.node(provider_id=env.claim("good").provider_id))
    assert healthy(env)[0] == "True"

    never_launching(env)
    time_out(env, "one")
    time_out(env, "two")

    assert healthy(env) == ("False", "Unauthorized")


def test_recreated_nodepool_ignores_outcomes_of_old_nodeclaims() -> None:
    env = an_environment()
    env.add(NODE_POOLS, manifests.pool())

    other = env.add(NODE_POOLS, manifests.pool("other"))["metadata"]["uid"]
    time_out(env, "one", uid=other)
    time_out(env, "two", uid=other)

    assert healthy(env) == ("", "")


def test_insufficient_capacity_is_no_failure_of_the_nodepool() -> None:
    env = an_environment()
    env.add(NODE_POOLS, manifests.pool())

    env.cloud.fail("create", CloudError("throttled"))
    add(env, owners=[manifests.owner("NodePool", "default", uid=env.pool().uid)])

    assert env.launch_outcomes.get(env.pool()) == ()


def test_second_reconcile_changes_nothing() -> None:
    env = add(an_environment())
    before = env.versions()

    env.manager.enqueue("nodeclaim.liveness", "claim")
    env.wait(60)

    assert env.versions() == before
