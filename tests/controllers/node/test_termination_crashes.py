"""Termination continues after a crash at any write.

A first run counts the writes. Then each run crashes after one of them, and the
controllers are started again.
"""

import pytest

from dovetail.controllers.node import eviction, termination
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.controllers.running_nodes import (
    add_owner,
    add_pdb,
    add_pod,
    add_running_node,
    in_seconds,
    stop_pod,
)

WRITES = 8
"""Writes of one termination, including the request to terminate the instance."""


def an_environment() -> ControllerEnvironment:
    env = ControllerEnvironment()
    add_running_node(env)
    add_pod(env, owner=add_owner(env, "ReplicaSet"), labels={"app": "web"})
    return env.run(lifecycle.controller, termination.controller, eviction.controller)


def pass_time(env: ControllerEnvironment, seconds: int) -> None:
    """Advance the clock, with a kubelet that stops pods a second after deletion."""
    for _ in range(seconds):
        env.wait(1)
        pod = env.get(PODS, "pod", "default")
        if pod is not None and "deletionTimestamp" in pod["metadata"]:
            stop_pod(env)
        # The Node exists as long as the instance.
        assert env.get(NODES, "node") is not None or not env.cloud.instances


def is_terminated(env: ControllerEnvironment) -> bool:
    objects = (env.get(NODES, "node"), env.get(NODE_CLAIMS, "claim"))
    return objects == (None, None) and not env.cloud.instances


def test_crash_points_cover_every_write() -> None:
    env = an_environment()

    env.delete(NODE_CLAIMS, "claim")
    pass_time(env, 20)

    assert is_terminated(env)
    assert len(env.writes) == WRITES


@pytest.mark.parametrize("write", range(1, WRITES + 1))
@pytest.mark.parametrize("what", ["claim", "node"])
def test_controllers_that_crash_after_any_write_finish_after_a_restart(what: str, write: int) -> None:
    env = an_environment()
    env.crash_after(write)

    env.delete(NODE_CLAIMS if what == "claim" else NODES, what)
    pass_time(env, 15)
    env.restart()
    pass_time(env, 30)

    assert is_terminated(env)
    assert env.get(PODS, "pod", "default") is None


@pytest.mark.parametrize("write", range(1, WRITES + 1))
def test_deadline_is_met_after_a_crash_during_forced_deletion(write: int) -> None:
    env = an_environment()
    add_pdb(env, minAvailable=1)
    deadline = {label_keys.TERMINATION_TIMESTAMP: in_seconds(env, 60)}
    env.patch(NODE_CLAIMS, "claim", {"metadata": {"annotations": deadline}})
    env.crash_after(write)

    env.delete(NODE_CLAIMS, "claim")
    pass_time(env, 45)
    env.restart()
    pass_time(env, 30)

    assert is_terminated(env)


def test_termination_completes_despite_repeated_crashes() -> None:
    env = an_environment()
    env.delete(NODE_CLAIMS, "claim")

    for _ in range(2 * WRITES):
        env.crash_after(1)
        pass_time(env, 7)
        env.restart()
    pass_time(env, 20)

    assert is_terminated(env)
