"""An account in a region of two zones that sells four machines, and a process that calls it."""

from collections.abc import Awaitable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from dovetail.data.bundled import bundled_catalog
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.simulator.clock import Engine
from dovetail.simulator.ec2.account import VirtualEc2
from dovetail.simulator.ec2.cloudprovider import SimCloud
from dovetail.simulator.ec2.interruption_queue import SimInterruptions
from dovetail.simulator.ec2.latencies import INSTANT_API, Latencies
from dovetail.simulator.ec2.nodeclass_resolver import Network
from dovetail.simulator.event_loop import VirtualLoop
from dovetail.simulator.instance import Machine
from tests.support.cluster import START

T = TypeVar("T")
A, B = "eu-west-1a", "eu-west-1b"
SPOT, ON_DEMAND = label_keys.SPOT, label_keys.ON_DEMAND
SOLD = {"m5.large": 0.1, "c5.xlarge": 0.17, "m5.xlarge": 0.2, "m5.metal": 4.6}
REGION = Region(
    name="eu-west-1",
    zones=FrozenDict({A: "euw1-az1", B: "euw1-az2"}),
    offered=FrozenDict(dict.fromkeys(SOLD, frozenset({A, B}))),
)
CATALOG = Catalog(
    recorded="2026-01-01",
    source="test",
    machines=tuple(one for one in bundled_catalog().machines if one.name in SOLD),
    regions=FrozenDict({REGION.name: REGION}),
)
PRICES = PriceBook(
    source="test",
    list_prices=FrozenDict(SOLD),
    region_factors=FrozenDict({REGION.name: 1.0}),
    spot_share=0.5,
)
POOL = NodePool(name="default")


class Steady:
    """Dice that always fall the same way."""

    def fraction(self) -> float:
        return 0.5

    def letters(self, count: int) -> str:
        return "x" * count


class Place:
    """An account, the process that uses it, and what happened to its machines."""

    def __init__(self, *, latencies: Latencies = INSTANT_API, **account: Any) -> None:
        self.engine = Engine(start=START)
        self.ec2 = VirtualEc2(
            self.engine, region=REGION, chance=Steady(), latencies=latencies, **account
        )
        self.network = Network.of(REGION)
        self.classes = {"default": NodeClass()}
        self.booted: list[Machine] = []
        self.halted: list[str] = []
        self.ec2.on_boot = self.booted.append
        self.ec2.on_halt = self.halted.append
        self.start_process()

    def start_process(self) -> None:
        """Start the controllers' side, with nothing in its memory."""
        self.loop = VirtualLoop(self.engine)
        self.cloud = SimCloud(
            self.ec2,
            loop=self.loop,
            catalog=CATALOG,
            prices=PRICES,
            node_class=lambda name: self.classes.get(name),
            network=self.network,
        )
        self.interruptions = SimInterruptions(self.ec2.queue, loop=self.loop)

    def begin(self, work: Awaitable[T]) -> list[T | Exception]:
        """Start a call; its outcome appears in the list once there is one."""
        outcome: list[T | Exception] = []

        async def watch() -> None:
            outcome.extend(await self.loop.together([work]))

        self.loop.spawn(watch())
        return outcome

    def do(self, work: Awaitable[T]) -> T:
        """Make a call and let time pass until it returns."""
        outcome = self.begin(work)
        while not outcome:
            assert self.engine.step(), "the call never returns"
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    def wait(self, seconds: float) -> None:
        self.engine.run(until=self.now + timedelta(seconds=seconds))

    @property
    def now(self) -> datetime:
        return self.engine.now()

    def available(self) -> set[tuple[str, str, str]]:
        """Type, zone and capacity type of all that can be had, as far as the process knows."""
        return {
            (one.name, offering.zone, offering.capacity_type)
            for one in self.cloud.instance_types(POOL)
            for offering in one.offerings
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
    wanted = {
        label_keys.INSTANCE_TYPE: types,
        label_keys.ZONE: zones,
        label_keys.CAPACITY_TYPE: kinds,
    }
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
