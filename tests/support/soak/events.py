"""Events of a soak: load that follows the day, and random faults."""

import math
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, TypeVar

from dovetail.model.labels import SPOT
from dovetail.ports.api_resources import DEPLOYMENTS, NODE_CLAIMS, NODE_POOLS, NODES, PODS, Resource
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import ListOptions, PatchType
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.ec2.account import LaunchFailure
from dovetail.simulator.ec2.instances import InstanceState
from dovetail.simulator.ec2.throttling import InjectedError, Operation
from dovetail.simulator.environment import SeededRandomSource
from dovetail.simulator.scenario.model import CapacityOutage, Interrupt, Release, Scale
from dovetail.simulator.scenario_actions import perform
from tests.support.soak.disturbances import BACKGROUND, ApiErrorInjector, UndisturbedTime
from tests.support.soak.objects import BATCH_POOL, NAMESPACE, SERVICES, burst_job

T = TypeVar("T")
MEAN_INTERVAL = timedelta(minutes=10)
_KILL_DAYS = (0, 1)
"""Days of every five on which controllers are killed; on the others they live on."""
_LIVENESS = timedelta(minutes=16)
"""Until a NodeClaim that never registers is deleted, and its pods are planned again."""


class SoakEvents:
    """Chooses and performs events; everything follows from the seed."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        injector: ApiErrorInjector,
        time: UndisturbedTime,
        *,
        seed: int,
        load: float = 1.0,
    ) -> None:
        self._cluster = cluster
        self._api_errors = injector
        self._time = time
        self._random = SeededRandomSource(seed)
        self._load = load
        self._began = cluster.clock.now()
        self._jobs = 0
        self._is_down = False
        self.counts: Counter[str] = Counter()
        """Event → how often it took place."""
        self._weighted: list[tuple[str, int, Callable[[], None]]] = [
            ("scale a service", 30, self._scale_service),
            ("scale batch work", 12, self._scale_batch),
            ("create a job", 6, self._create_job),
            ("restart a service", 4, self._restart_service),
            ("delete pods", 4, self._delete_pods),
            ("delete a node", 2, lambda: self._delete_one(NODES)),
            ("delete a nodeclaim", 2, lambda: self._delete_one(NODE_CLAIMS)),
            ("interrupt spot", 8, self._interrupt),
            ("recommend rebalance", 2, self._recommend_rebalance),
            ("no capacity", 8, self._exhaust_capacity),
            ("fail EC2 calls", 8, self._fail_ec2_calls),
            ("fail API calls", 6, self._fail_api_calls),
            ("fail a launch", 2, self._fail_launch),
            ("stop a kubelet", 1, self._stop_kubelet),
            ("release an AMI", 1, self._release_ami),
            ("change a nodepool", 2, self._change_nodepool),
            ("kill the controllers", 16, self._kill),
        ]

    def next_pause(self) -> timedelta:
        """Return the time until the next event, exponentially distributed."""
        return MEAN_INTERVAL * -math.log(1 - self._random.random())

    def perform(self) -> str:
        """Perform a random event and return its name."""
        weights = list(accumulate(weight for _, weight, _ in self._weighted))
        name, _, perform_event = self._weighted[bisect(weights, self._random.random() * weights[-1])]
        try:
            perform_event()
        except NotFound:
            return name  # There is no such object now.
        self.counts[name] += 1
        return name

    def end(self) -> None:
        """End all faults: the controllers run, and every call succeeds."""
        self._api_errors.share = 0.0
        if self._is_down:
            self._restart()

    def _choose(self, things: Sequence[T]) -> T:
        return things[int(self._random.random() * len(things))]

    def _scale(self, name: str, replicas: int) -> None:
        perform(Scale(kind="Deployment", name=name, namespace=NAMESPACE, replicas=replicas), self._cluster)

    def _scale_service(self) -> None:
        service = self._choose(SERVICES)
        share = self._load * (0.8 + 0.4 * self._random.random())
        self._scale(service.name, service.replicas(daily_load(self._time.now()), share))

    def _scale_batch(self) -> None:
        # Sixteen pods exceed the limits of their NodePool.
        self._scale(BATCH_POOL, self._choose((0, 0, 2, 4, 8, 16)))

    def _create_job(self) -> None:
        self._jobs += 1
        self._cluster.apply([burst_job(self._jobs, pods=self._choose((1, 5, 20)))])

    def _restart_service(self) -> None:
        annotations = {"restarted": self._time.now().isoformat()}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        name = self._choose(SERVICES).name
        self._cluster.api.patch(DEPLOYMENTS, name, patch, PatchType.MERGE, NAMESPACE)

    def _delete_pods(self) -> None:
        pods = self._cluster.api.list(PODS, ListOptions(namespace=NAMESPACE)).items
        for _ in range(self._choose((1, 3, 10))):
            name = self._choose(pods)["metadata"]["name"]
            self._cluster.api.delete(PODS, name, NAMESPACE)

    def _delete_one(self, resource: Resource) -> None:
        names = [claim["metadata"]["name"] for claim in self._cluster.api.list(NODE_CLAIMS).items]
        if resource is NODES:
            labelled = ListOptions(label_selector="karpenter.sh/nodepool")
            names = [node["metadata"]["name"] for node in self._cluster.api.list(NODES, labelled).items]
        if not names:
            raise NotFound(f"no {resource.kind}")
        self._cluster.api.delete(resource, self._choose(names))

    def _interrupt(self) -> None:
        perform(Interrupt(self._choose((0.01, 0.05, 0.1, 0.4))), self._cluster)

    def _recommend_rebalance(self) -> None:
        instances = self._running(SPOT)
        if instances:
            self._cluster.ec2.recommend_rebalance(self._choose(instances))

    def _exhaust_capacity(self) -> None:
        duration = timedelta(minutes=self._choose((5, 20, 60)))
        kind = self._choose(("family", "family", "size", "spot", "zone"))
        if kind == "family":
            outage = CapacityOutage(
                types=self._choose(("c*", "m*", "r*", "m7i.*", "c6i.*")), duration=duration
            )
        elif kind == "size":
            outage = CapacityOutage(types=self._choose(("*.large", "*.xlarge")), duration=duration)
        elif kind == "spot":
            outage = CapacityOutage(capacity_types=SPOT, duration=duration)
        else:
            # Pods that must run in the zone have to wait, and four minutes for the cache.
            outage = CapacityOutage(zones=f"us-east-1{self._choose('abc')}", duration=duration)
            self._time.disturb(duration + timedelta(minutes=4))
        perform(outage, self._cluster)

    def _fail_ec2_calls(self) -> None:
        for _ in range(self._choose((1, 3, 10))):
            self._cluster.ec2.error_injector.inject(
                InjectedError(
                    operation=self._choose(tuple(Operation)),
                    nth=self._choose((1, 2, 5)),
                    code=self._choose(("InternalError", "RequestLimitExceeded")),
                    after_effect=self._random.random() < 0.5,
                )
            )

    def _fail_api_calls(self) -> None:
        duration = timedelta(minutes=self._choose((1, 3, 10)))
        self._api_errors.share = self._choose((0.1, 0.5, 1.0))
        self._time.disturb(duration)
        self._cluster.clock.call_later(duration, self._end_api_errors)

    def _end_api_errors(self) -> None:
        self._api_errors.share = min(self._api_errors.share, BACKGROUND)

    def _fail_launch(self) -> None:
        self._cluster.ec2.fail_next_launches(self._choose(tuple(LaunchFailure)))

    def disturb_failed_launches(self) -> None:
        """Stop the time from failed launches on; they may be long after the event."""
        for instance in self._cluster.ec2.instances():
            if not instance.registers:
                self._time.disturb(instance.launched + _LIVENESS - self._time.now())

    def _stop_kubelet(self) -> None:
        instances = [instance for instance in self._cluster.ec2.instances() if instance.registers]
        registered = [node["spec"].get("providerID") for node in self._cluster.api.list(NODES).items]
        ids = [instance.provider_id for instance in instances if instance.provider_id in registered]
        if not ids:
            raise NotFound("no kubelet")
        self._cluster.kubelets.make_unresponsive(self._choose(ids))

    def _release_ami(self) -> None:
        perform(Release("al2023"), self._cluster)

    def _change_nodepool(self) -> None:
        """Change labels of new nodes, so that all nodes of the pool drift."""
        name = self._choose(("general", "database", BATCH_POOL, "static"))
        labels = {"generation": f"g{self._jobs}-{int(self._random.random() * 1e6)}"}
        patch: dict[str, Any] = {"spec": {"template": {"metadata": {"labels": labels}}}}
        self._cluster.api.patch(NODE_POOLS, name, patch, PatchType.MERGE)

    def _kill(self) -> None:
        if (self._time.now() - self._began).days % 5 not in _KILL_DAYS or self._is_down:
            raise NotFound("not today")
        down = timedelta(seconds=self._choose((0, 0, 1, 10, 60, 300)))
        self._cluster.operator.kill()
        self._is_down = True
        self._time.disturb(down)
        self._cluster.clock.call_later(down, self._restart)

    def _restart(self) -> None:
        if self._is_down:
            self._is_down = False
            self._cluster.restart()

    def _running(self, capacity_type: str) -> list[str]:
        return [
            instance.id
            for instance in self._cluster.ec2.instances()
            if instance.state is InstanceState.RUNNING
            and instance.choice.offering.capacity_type == capacity_type
        ]


def daily_load(now: datetime) -> float:
    """Return the load at a time of day: 0 at midnight, 1 at noon."""
    hours = now.hour + now.minute / 60
    return (1 - math.cos(2 * math.pi * hours / 24)) / 2
