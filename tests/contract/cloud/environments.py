"""CloudProviders under test: the simulated one, and the AWS adapter on moto."""

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar

from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.ports.cloudprovider import CloudProvider
from dovetail.simulator.ec2.capacity import CapacityLimit
from dovetail.simulator.ec2.throttling import InjectedError, Operation
from tests.simulator.ec2.harness import CATALOG, PRICES, REGION, Ec2Harness
from tests.support.aws.provider_process import AwsAccount, AwsProcess
from tests.support.moto.middleware import ScriptedError
from tests.support.moto.server import MotoAws

T = TypeVar("T")


class CloudEnvironment(Protocol):
    """A CloudProvider and the control of its cloud."""

    classes: dict[str, EC2NodeClass]

    @property
    def cloud(self) -> CloudProvider: ...

    def run(self, call: Awaitable[T]) -> T:
        """Run a call and return its result."""

    def run_concurrently(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
        """Run calls at the same time; errors are returned."""

    def restart(self) -> None:
        """Replace the process by a new one without any cached state."""

    def limit_capacity(self, limit: CapacityLimit) -> None:
        """Limit the capacity of the cloud."""

    def fail(self, operation: str, *, times: int, after_effect: bool = False) -> None:
        """Make calls of an operation fail with an internal error."""

    def wait_for_termination(self) -> None:
        """Wait until terminating instances are terminated."""

    def billed_instances(self) -> list[str]:
        """Return the provider ids of all instances that cost something."""

    def close(self) -> None: ...


class SimulatedEnvironment:
    """The simulated CloudProvider on simulated EC2."""

    def __init__(self) -> None:
        self._harness = Ec2Harness()
        self.classes = self._harness.classes

    @property
    def cloud(self) -> CloudProvider:
        return self._harness.cloud

    def run(self, call: Awaitable[T]) -> T:
        return self._harness.do(call)

    def run_concurrently(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
        return self._harness.do(self._harness.loop.gather(calls))

    def restart(self) -> None:
        self._harness.loop.stop()
        self._harness.start_process()

    def limit_capacity(self, limit: CapacityLimit) -> None:
        self._harness.ec2.capacity.add_limit(limit)

    def fail(self, operation: str, *, times: int, after_effect: bool = False) -> None:
        self._harness.ec2.error_injector.inject(
            InjectedError(operation=Operation(operation), times=times, after_effect=after_effect)
        )

    def wait_for_termination(self) -> None:
        self._harness.wait(10)

    def billed_instances(self) -> list[str]:
        return [
            instance.provider_id for instance in self._harness.ec2.instances() if not instance.is_terminating
        ]

    def close(self) -> None:
        self._harness.loop.stop()


class MotoEnvironment:
    """The AWS CloudProvider, over HTTP."""

    def __init__(self, moto: MotoAws) -> None:
        moto.reset()
        self._moto = moto
        self._account = AwsAccount(moto, REGION, CATALOG, PRICES)
        self.classes = self._account.classes
        self.process = AwsProcess(self._account)

    @property
    def cloud(self) -> CloudProvider:
        return self.process.cloud

    def run(self, call: Awaitable[T]) -> T:
        return self.process.do(call)

    def run_concurrently(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
        return self.process.together(list(calls))

    def restart(self) -> None:
        self.process.stop()
        self.process = AwsProcess(self._account)

    def limit_capacity(self, limit: CapacityLimit) -> None:
        self._moto.capacity.pools.add_limit(limit)

    def fail(self, operation: str, *, times: int, after_effect: bool = False) -> None:
        # Once for each attempt of the adapter's own retries.
        self._moto.middleware.add_error(
            ScriptedError(
                operation=operation, code="InternalError", times=4 * times, after_effect=after_effect
            )
        )

    def wait_for_termination(self) -> None:
        """Do nothing: moto terminates instances at once."""

    def billed_instances(self) -> list[str]:
        pages = self.process.ec2.get_paginator("describe_instances").paginate(
            Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        )
        return [
            f"aws:///{instance['Placement']['AvailabilityZone']}/{instance['InstanceId']}"
            for page in pages
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
        ]

    def close(self) -> None:
        self.process.stop()
