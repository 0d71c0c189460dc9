"""Status checks of instances: 135 of the AWS checklist."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from dovetail.controllers.interruption import status_checks
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import InterruptionKind, UnhealthyInstance
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

UNHEALTHY = "karpenter_interruption_instance_status_unhealthy_total"
PROVIDER_ID = "aws:///us-east-1a/i-1"
CHECKS = [InterruptionKind.INSTANCE_STATUS, InterruptionKind.SYSTEM_STATUS]


class FakeStatusProvider:
    """Status provider whose result a test sets."""

    def __init__(self) -> None:
        self.unhealthy: list[UnhealthyInstance] = []

    async def list_unhealthy(self) -> Sequence[UnhealthyInstance]:
        return self.unhealthy


def an_environment(status: FakeStatusProvider, **claim: object) -> ControllerEnvironment:
    env = ControllerEnvironment().run(status_checks.controller, instance_status=status)
    manifest = manifests.claim("claim", finalizers=["test/held"], provider_id=PROVIDER_ID)
    manifest["metadata"].update(claim)
    env.add(NODE_CLAIMS, manifest)
    env.add(NODES, manifests.node("node", provider_id=PROVIDER_ID))
    return env


def fail_check(
    env: ControllerEnvironment, status: FakeStatusProvider, kind: InterruptionKind, *, seconds: float
) -> ControllerEnvironment:
    """Fail a check for some seconds, and wait until it is polled."""
    since = env.now + timedelta(seconds=60 - seconds)
    status.unhealthy = [UnhealthyInstance(instance_id="i-1", kind=kind, since=since)]
    return env.wait(60)


@pytest.mark.parametrize("kind", CHECKS)
def test_instance_unhealthy_for_two_minutes_is_deleted_without_drain(kind: InterruptionKind) -> None:
    status = FakeStatusProvider()

    env = fail_check(an_environment(status), status, kind, seconds=120)

    claim = env.claim()
    assert claim.deleting
    assert claim.annotations[label_keys.TERMINATION_TIMESTAMP] == f"{env.now:%Y-%m-%dT%H:%M:%SZ}"
    assert env.events.reasons("node") == ["InstanceUnhealthy", "TerminatingOnInterruption"]


@pytest.mark.parametrize("kind", CHECKS)
def test_short_failure_is_ignored(kind: InterruptionKind) -> None:
    status = FakeStatusProvider()

    env = fail_check(an_environment(status), status, kind, seconds=119)

    assert env.writes == []
    assert env.metrics.total(UNHEALTHY) == 0


def test_instance_with_a_scheduled_event_is_drained_at_once() -> None:
    status = FakeStatusProvider()

    env = fail_check(an_environment(status), status, InterruptionKind.EVENT_STATUS, seconds=0)

    claim = env.claim()
    assert claim.deleting
    assert label_keys.TERMINATION_TIMESTAMP not in claim.annotations


def test_existing_termination_deadline_is_kept() -> None:
    status = FakeStatusProvider()
    annotations = {label_keys.TERMINATION_TIMESTAMP: "2026-01-01T00:00:00Z"}
    env = an_environment(status, annotations=annotations)

    fail_check(env, status, InterruptionKind.SYSTEM_STATUS, seconds=200)

    assert dict(env.claim().annotations) == annotations
    assert env.claim().deleting


def test_failure_is_counted_once_until_the_instance_recovers() -> None:
    status = FakeStatusProvider()
    env = fail_check(an_environment(status), status, InterruptionKind.SYSTEM_STATUS, seconds=200)
    env.wait(180)
    first_count = env.metrics.total(UNHEALTHY, category="system_status")

    status.unhealthy = []
    env.wait(60)
    fail_check(env, status, InterruptionKind.SYSTEM_STATUS, seconds=200)

    assert first_count == 1
    assert env.metrics.total(UNHEALTHY, category="system_status") == 2


def test_unmanaged_instance_is_ignored() -> None:
    status = FakeStatusProvider()
    env = an_environment(status)
    status.unhealthy = [UnhealthyInstance(instance_id="i-2", kind=InterruptionKind.EVENT_STATUS)]

    env.wait(60)

    assert env.writes == []
    assert env.metrics.total(UNHEALTHY) == 0


def test_second_reconcile_changes_nothing() -> None:
    status = FakeStatusProvider()
    env = fail_check(an_environment(status), status, InterruptionKind.SYSTEM_STATUS, seconds=200)
    before = env.versions()

    env.wait(300)

    assert env.versions() == before
