"""Controllers that crash after a given step, and are restarted."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from typing import TypeVar

from dovetail.data.bundled import bundled_prices
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.ports.api_resources import EVENTS
from dovetail.ports.kube_client import KubeClient
from dovetail.simulator.checks.invariants import CheckedKubeClient
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.ec2.billing import LaunchRecord
from dovetail.simulator.event_loop import VirtualFuture
from dovetail.simulator.scenario.model import Scenario
from tests.support.kube.forwarding_client import READS, ForwardingKubeClient, Request
from tests.support.simulator.clusters import wait

T = TypeVar("T")
DOWN_TIME = timedelta(seconds=7)
MAX_STEPS = 400


class CrashPoint:
    """Decides after which step the controllers crash; they restart a little later."""

    def __init__(self, steps: int) -> None:
        self._left = steps
        self.cluster: SimulatedCluster | None = None
        self.crashed_after = ""

    def step(self, what: str) -> bool:
        """Count a step; return True if the controllers crash after it."""
        if self.cluster is None or self.crashed_after:
            return False
        self._left -= 1
        if self._left:
            return False
        self.crashed_after = what
        self.cluster.operator.kill()
        self.cluster.clock.call_later(DOWN_TIME, self.cluster.restart)
        return True


class CrashingKubeClient(ForwardingKubeClient):
    """KubeClient of a process that may crash after any write."""

    def __init__(self, kube: KubeClient, crash_point: CrashPoint) -> None:
        super().__init__(kube)
        self._crash_point = crash_point

    async def forward(self, request: Request, response: Awaitable[T]) -> T:
        result = await response
        if request.verb in READS or request.resource is EVENTS:
            return result
        if self._crash_point.step(f"{request.verb} {request.resource.kind} {request.subresource}"):
            await VirtualFuture()  # Never done: the process is killed.
        return result


def build_mortal_cluster(scenario: Scenario, catalog: Catalog, crash_point: CrashPoint) -> SimulatedCluster:
    """A cluster whose controllers crash after a given step."""
    cluster = SimulatedCluster(
        scenario,
        catalog=catalog,
        prices=bundled_prices(),
        kube=lambda api, invariants: CrashingKubeClient(CheckedKubeClient(api, invariants), crash_point),
    )

    def on_billing_change(launch: LaunchRecord) -> None:
        crash_point.step("terminate" if launch.shutting_down else "launch")

    cluster.ec2.billing.listeners.append(on_billing_change)
    return cluster


def crash_at_every_step(
    build_cluster: Callable[[CrashPoint], SimulatedCluster],
    prepare: Callable[[SimulatedCluster], None],
    check: Callable[[SimulatedCluster, str], None],
) -> int:
    """Crash after the first step, the second, and so on, until all are tested."""
    for steps in count(1):
        assert steps < MAX_STEPS, "the steps do not end"
        crash_point = CrashPoint(steps)
        cluster = build_cluster(crash_point)
        wait(cluster, 3)
        prepare(cluster)
        crash_point.cluster = cluster
        check(cluster, f"killed after step {steps}")
        assert cluster.invariants.violations == [], f"{steps}: {crash_point.crashed_after}"
        if not crash_point.crashed_after:
            return steps - 1
    raise AssertionError("count() never ends")
