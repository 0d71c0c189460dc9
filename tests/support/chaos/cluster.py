"""Cluster and account that survive the processes, and the load on them."""

from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import DEPLOYMENTS, Resource, find_resource
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.controllermanager.manager import start_controller_manager
from dovetail.simulator.environment import SimulatedLog
from dovetail.simulator.instance import BootedInstance
from dovetail.simulator.kubelet.kubelets import Kubelets
from dovetail.simulator.scheduler.scheduler import KubeScheduler
from tests.support.aws.booted_nodes import read_user_data
from tests.support.chaos.account import AwsAccount
from tests.support.chaos.checks import Checks
from tests.support.chaos.ec2 import REGION, Ec2Instance
from tests.support.chaos.network import ErrorRates, Network, VirtualSession
from tests.support.chaos.process import OperatorProcess

START = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
KILL_INTERVAL = timedelta(seconds=30)
"""Mean; the lifetime of a process is random."""


class ChaosCluster:
    """A cluster whose controller is killed all the time, on an account with faults."""

    def __init__(self, seed: int, rates: ErrorRates) -> None:
        self.random = Random(seed)
        self.rates = rates
        self.clock = VirtualClock(start=START)
        self.api = ApiServer(now=self.clock.now)
        self.account = AwsAccount(self.clock, Random(self.random.random()), rates)
        self.network = Network(self.clock, Random(self.random.random()), rates)
        self._session = VirtualSession(self.network, self.account.call, region=REGION)
        self.log = SimulatedLog(self.clock.now, keep=3000)
        self.checks = Checks(self.clock, self.api, self.account)
        self._kubelets = Kubelets(self.api, self.clock)
        self._booted: set[str] = set()
        self.account.ec2.on_state = self._handle_instance_state
        start_controller_manager(self.api, self.clock, instance_exists=self._instance_exists)
        KubeScheduler(self.api, self.clock)
        self.is_killing = False
        self.kills = 0
        self.start_failures: list[str] = []
        self.unhandled_errors: list[str] = []
        self._start_process()

    def run(self, duration: timedelta) -> None:
        self.clock.run(until=self.clock.now() + duration)

    # The process.

    def _start_process(self) -> None:
        self._process = process = OperatorProcess(
            clock=self.clock,
            api=self.api,
            network=self.network,
            session=self._session,
            log=self.log,
            seed=self.random.getrandbits(60),
            on_start_failure=self._handle_start_failure,
        )
        # With the restart and the wait for a launch, 30 s on average from kill to kill.
        lifetime = self.random.uniform(0.3, 1.3) * KILL_INTERVAL
        self.clock.call_later(lifetime, lambda: self._kill_soon(process))

    def _kill_soon(self, process: OperatorProcess) -> None:
        """Kill a process now, between two steps of its tasks, or during a launch."""
        if not self.is_killing:
            self.clock.call_later(KILL_INTERVAL, lambda: self._kill_soon(process))
            return

        def kill() -> None:
            if not process.loop.killed:
                self.kills += 1
                self._end(process)

        moment = self.random.choice(("now", "step", "launch"))
        if moment == "step":
            process.loop.call_after_steps(self.random.randint(1, 100), kill)
        elif moment == "launch":
            self.network.on_launch_call = kill
        latest = {"now": 0, "step": 1, "launch": 15}[moment]
        self.clock.call_later(timedelta(seconds=latest), kill)

    def _handle_start_failure(self, error: DovetailError) -> None:
        self.start_failures.append(str(error))
        self._restart_later()

    def _end(self, process: OperatorProcess) -> None:
        process.kill()
        self.unhandled_errors += [repr(error) for error in process.loop.errors]
        self._restart_later()

    def _restart_later(self) -> None:
        self.clock.call_later(timedelta(seconds=self.random.uniform(0.5, 4)), self._start_process)

    # Instances.

    def _handle_instance_state(self, instance: Ec2Instance) -> None:
        if instance.states[-1][1] == "running":
            delay = timedelta(seconds=self.random.uniform(15, 30))
            self.clock.call_later(delay, lambda: self._boot(instance))
        elif instance.id in self._booted:
            self._booted.discard(instance.id)
            self._kubelets.stop(instance.provider_id)

    def _boot(self, instance: Ec2Instance) -> None:
        if not instance.is_alive:
            return
        self._booted.add(instance.id)
        built = self.account.instance_types[instance.instance_type]
        labels, taints = read_user_data(b64decode(instance.user_data).decode())
        arch = next(iter(built.requirements[label_keys.ARCH].values))
        self._kubelets.start(
            BootedInstance(
                name=instance.dns_name,
                provider_id=instance.provider_id,
                labels=FrozenDict(
                    {
                        **labels,
                        label_keys.ARCH: arch,
                        label_keys.OS: "linux",
                        label_keys.INSTANCE_TYPE: instance.instance_type,
                        label_keys.ZONE: instance.zone,
                        label_keys.REGION: REGION,
                        label_keys.HOSTNAME: instance.dns_name,
                    }
                ),
                taints=taints,
                capacity=built.capacity.without_zeros(),
                allocatable=built.allocatable.without_zeros(),
            )
        )

    def _instance_exists(self, provider_id: str) -> bool:
        instance = self.account.ec2.instances.get(provider_id.rpartition("/")[2])
        return instance is not None and instance.states[-1][1] != "terminated"

    # Users.

    def apply(self, *objects: Mapping[str, Any]) -> None:
        for obj in objects:
            resource = find_resource(obj["apiVersion"], obj["kind"])
            assert resource is not None
            namespace = "default" if resource.namespaced else ""
            self.api.apply(resource, obj, namespace, manager="user", force=True)

    def scale(self, name: str, replicas: int) -> None:
        self.api.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}}, PatchType.MERGE, "default")

    def delete(self, resource: Resource, name: str) -> None:
        self.api.delete(resource, name, "default" if resource.namespaced else "")

    def names(self, resource: Resource) -> list[str]:
        return [obj["metadata"]["name"] for obj in self.api.list(resource).items]
