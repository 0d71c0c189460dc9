"""A cloud with two ways to reach it: the virtual one, and the real adapter on moto."""

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar

from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.ports.cloudprovider import Cloud
from dovetail.simulator.ec2.capacity import Shortage
from dovetail.simulator.ec2.throttling import Fault as SimFault
from dovetail.simulator.ec2.throttling import Operation
from tests.simulator.ec2.place import CATALOG, PRICES, REGION, Place
from tests.support.moto.door import Fault
from tests.support.moto.process import AwsProcess, Site
from tests.support.moto.server import MotoAws

T = TypeVar("T")


class World(Protocol):
    """What a contract needs beside the port itself."""

    classes: dict[str, NodeClass]

    @property
    def cloud(self) -> Cloud: ...

    def do(self, work: Awaitable[T]) -> T:
        """Make a call; raise what it raises."""

    def together(self, works: Sequence[Awaitable[T]]) -> list[T | Exception]:
        """Make calls at the same moment."""

    def restart(self) -> None:
        """Have the process die and another one start, with nothing in its memory."""

    def run_short(self, shortage: Shortage) -> None:
        """Limit what can be had."""

    def fail(self, operation: str, *, times: int, after_effect: bool = False) -> None:
        """Have calls end with an internal error."""

    def settle(self) -> None:
        """Wait until all that terminates has terminated."""

    def machines(self) -> list[str]:
        """Return the provider ids of all machines that cost something, whoever bought them."""

    def end(self) -> None: ...


class VirtualWorld:
    """SimCloud on virtual EC2."""

    def __init__(self) -> None:
        self._place = Place()
        self.classes = self._place.classes

    @property
    def cloud(self) -> Cloud:
        return self._place.cloud

    def do(self, work: Awaitable[T]) -> T:
        return self._place.do(work)

    def together(self, works: Sequence[Awaitable[T]]) -> list[T | Exception]:
        return self._place.do(self._place.loop.together(works))

    def restart(self) -> None:
        self._place.loop.stop()
        self._place.start_process()

    def run_short(self, shortage: Shortage) -> None:
        self._place.ec2.stock.run_short(shortage)

    def fail(self, operation: str, *, times: int, after_effect: bool = False) -> None:
        self._place.ec2.faults.script(
            SimFault(operation=Operation(operation), times=times, after_effect=after_effect)
        )

    def settle(self) -> None:
        self._place.wait(10)

    def machines(self) -> list[str]:
        return [one.provider_id for one in self._place.ec2.instances() if not one.is_ending]

    def end(self) -> None:
        self._place.loop.stop()


class MotoWorld:
    """The real adapter, over HTTP."""

    def __init__(self, moto: MotoAws) -> None:
        moto.reset()
        self._moto = moto
        self._site = Site(moto, REGION, CATALOG, PRICES)
        self.classes = self._site.classes
        self.process = AwsProcess(self._site)

    @property
    def cloud(self) -> Cloud:
        return self.process.cloud

    def do(self, work: Awaitable[T]) -> T:
        return self.process.do(work)

    def together(self, works: Sequence[Awaitable[T]]) -> list[T | Exception]:
        return self.process.together(list(works))

    def restart(self) -> None:
        self.process.stop()
        self.process = AwsProcess(self._site)

    def run_short(self, shortage: Shortage) -> None:
        self._moto.shop.stock.run_short(shortage)

    def fail(self, operation: str, *, times: int, after_effect: bool = False) -> None:
        # Once for each of the tries that the adapter makes by itself.
        self._moto.door.script(
            Fault(
                operation=operation,
                code="InternalError",
                times=4 * times,
                after_effect=after_effect,
            )
        )

    def settle(self) -> None:
        """Moto's machines end at once."""

    def machines(self) -> list[str]:
        pages = self.process.ec2.get_paginator("describe_instances").paginate(
            Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        )
        return [
            f"aws:///{one['Placement']['AvailabilityZone']}/{one['InstanceId']}"
            for page in pages
            for reservation in page["Reservations"]
            for one in reservation["Instances"]
        ]

    def end(self) -> None:
        self.process.stop()
