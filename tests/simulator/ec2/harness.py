"""Harness: an EC2 account with two zones and four types, and its client process."""

from collections.abc import Awaitable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from dovetail.data.bundled import bundled_catalog
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import LaunchSpec, NetworkInterface
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.ec2.account import Ec2Account
from dovetail.simulator.ec2.cloudprovider import SimulatedCloudProvider
from dovetail.simulator.ec2.interruption_queue import SimulatedInterruptionQueue
from dovetail.simulator.ec2.nodeclass_resolver import AccountNetwork
from dovetail.simulator.event_loop import VirtualEventLoop
from dovetail.simulator.instance import BootedInstance
from dovetail.simulator.latencies import INSTANT_API, CloudLatencies
from tests.support.simulator.api_server import START

T = TypeVar("T")
A, B = "eu-west-1a", "eu-west-1b"
SPOT, ON_DEMAND = label_keys.SPOT, label_keys.ON_DEMAND
SOLD = {"m5.large": 0.1, "c5.xlarge": 0.17, "m5.xlarge": 0.2, "m5.metal": 4.6}
REGION = Region(
    name="eu-west-1",
    zones=FrozenDict({A: "euw1-az1", B: "euw1-az2"}),
    offered_zones=FrozenDict(dict.fromkeys(SOLD, frozenset({A, B}))),
)
CATALOG = Catalog(
    recorded="2026-01-01",
    source="test",
    instance_types=tuple(
        instance_type for instance_type in bundled_catalog().instance_types if instance_type.name in SOLD
    ),
    regions=FrozenDict({REGION.name: REGION}),
)
PRICES = PriceBook(
    source="test", list_prices=FrozenDict(SOLD), region_factors=FrozenDict({REGION.name: 1.0}), spot_ratio=0.5
)
POOL = NodePool(name="default")
EFA_CATALOG = msgspec.structs.replace(
    CATALOG,
    instance_types=tuple(
        msgspec.structs.replace(instance_type, efas=1) for instance_type in CATALOG.instance_types
    ),
)
"""The same types, as if each had an EFA."""
EFA_CLASS = EC2NodeClass(
    launch=LaunchSpec(network_interfaces=(NetworkInterface(), NetworkInterface(device=1, kind="efa-only")))
)
"""A node class that lists an EFA-only interface."""


class Steady:
    """Random source that always returns the same number."""

    def random(self) -> float:
        return 0.5

    def alphanumeric(self, count: int) -> str:
        return "x" * count


class Ec2Harness:
    """An account, the process that uses it, and the kubelets it started and stopped."""

    def __init__(
        self,
        *,
        latencies: CloudLatencies = INSTANT_API,
        catalog: Catalog = CATALOG,
        kubelet_expressions: bool = False,
        **account: Any,
    ) -> None:
        self.kubelet_expressions = kubelet_expressions
        self.catalog = catalog
        self.clock = VirtualClock(start=START)
        self.ec2 = Ec2Account(self.clock, region=REGION, random=Steady(), latencies=latencies, **account)
        self.network = AccountNetwork.from_region(REGION)
        self.classes = {"default": EC2NodeClass()}
        self.booted: list[BootedInstance] = []
        self.terminated: list[str] = []
        self.ec2.on_booted = self.booted.append
        self.ec2.on_terminated = self.terminated.append
        self.start_process()

    def start_process(self) -> None:
        """Start a process with nothing in memory."""
        self.loop = VirtualEventLoop(self.clock)
        self.cloud = SimulatedCloudProvider(
            self.ec2,
            loop=self.loop,
            catalog=self.catalog,
            prices=PRICES,
            node_class=lambda name: self.classes.get(name),
            network=self.network,
            kubelet_expressions=self.kubelet_expressions,
        )
        self.interruptions = SimulatedInterruptionQueue(self.ec2.queue, loop=self.loop)

    def begin(self, work: Awaitable[T]) -> list[T | Exception]:
        """Start a call; its outcome is appended to the list."""
        outcome: list[T | Exception] = []

        async def watch() -> None:
            outcome.extend(await self.loop.gather([work]))

        self.loop.spawn(watch())
        return outcome

    def do(self, work: Awaitable[T]) -> T:
        """Make a call and advance the clock until it returns."""
        outcome = self.begin(work)
        while not outcome:
            assert self.clock.step(), "the call never returns"
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    def wait(self, seconds: float) -> None:
        self.clock.run(until=self.now + timedelta(seconds=seconds))

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def available(self) -> set[tuple[str, str, str]]:
        """Type, zone and capacity type of the offerings that the process sees."""
        return {
            (instance_type.name, offering.zone, offering.capacity_type)
            for instance_type in self.cloud.instance_types(POOL)
            for offering in instance_type.offerings
            if offering.available
        }


def a_claim(
    name: str = "claim",
    *,
    types: Iterable[str] = (),
    zones: Iterable[str] = (),
    kinds: Iterable[str] = (SPOT, ON_DEMAND),
    cpu: str = "1",
    **more: Any,
) -> NodeClaim:
    wanted = {label_keys.INSTANCE_TYPE: types, label_keys.ZONE: zones, label_keys.CAPACITY_TYPE: kinds}
    return NodeClaim(
        name=name,
        uid=f"uid-of-{name}",
        labels=FrozenDict({label_keys.NODEPOOL: "default"}),
        requests=Resources.parse({"cpu": cpu}),
        requirements=tuple(
            RequirementSpec(key, Operator.IN, tuple(values))
            for key, values in wanted.items()
            if tuple(values)
        ),
        **more,
    )
