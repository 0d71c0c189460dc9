"""An AWS account in memory, without HTTP: for thousands of applies.

Clients look like boto3's. botocore validates the parameters of the first calls of
every method; ``tests/contract/aws/test_memory_account.py`` compares the account
with moto. Time is virtual: a sleep takes none.
"""

import asyncio
import pickle
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import botocore.session
from botocore.validate import ParamValidator

from dovetail.aws.session import AwsSession
from dovetail.eks.apply.executor import MAX_CONCURRENT_STEPS, ExecutionResult, execute_plan
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.session import ClusterSession, open_session, refuse_writes
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.connection import no_fence
from tests.support.eks.cluster_commands import ClusterCommands
from tests.support.memory_aws.clusters import CREATOR
from tests.support.memory_aws.ec2 import MemoryEc2
from tests.support.memory_aws.eks import MemoryEks
from tests.support.memory_aws.iam import ACCOUNT, MemoryIam
from tests.support.memory_aws.kubernetes import MemoryApiAccess, MemoryHelm, MemoryKube
from tests.support.memory_aws.messaging import MemoryEvents, MemoryKms, MemoryLogs, MemorySqs
from tests.support.memory_aws.refusals import KilledError

T = TypeVar("T")
_READS: Final = ("describe", "get", "list")
_VALIDATED_CALLS: Final = 5
"""Calls of each method whose parameters botocore validates; that is slow."""
_calls: Counter[str] = Counter()


class MemorySts:
    """STS with one identity."""

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": ACCOUNT, "Arn": CREATOR, "UserId": "operator"}


class MemoryAccount(ClusterCommands):
    """An account with one region."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.ec2 = MemoryEc2(self)
        self.iam = MemoryIam(self)
        self.eks = MemoryEks(self)
        self.sqs = MemorySqs(self)
        self.events = MemoryEvents()
        self.logs = MemoryLogs()
        self.kms = MemoryKms()
        self.kube = MemoryKube(self)
        self.sts = MemorySts()
        self.writes = 0
        """Calls that changed something, since the account was created."""
        self.kill_at: float | None = None
        """Number of the write at which the process dies; with a fraction, after its effect."""

    def copy(self) -> "MemoryAccount":
        copied: MemoryAccount = pickle.loads(pickle.dumps(self))  # noqa: S301 - our own
        return copied

    def client(self, service: str) -> "MemoryClient":
        return MemoryClient(self, service)

    @contextmanager
    def write(self) -> Iterator[None]:
        """Count a write; die before or after its effect, if it is time."""
        self.check_alive()
        self.writes += 1
        self.check_alive()
        yield
        if self.kill_at is not None and self.writes + 0.5 >= self.kill_at:
            raise KilledError

    def check_alive(self) -> None:
        if self.kill_at is not None and self.writes >= self.kill_at:
            raise KilledError

    @asynccontextmanager
    async def open_session(
        self, config: ClusterConfig, *, may_write: bool = True
    ) -> AsyncIterator[ClusterSession]:
        loop = VirtualLoop(self)
        aws_session = MemorySession(self, loop, may_write=may_write)
        opening = open_session(
            config,
            aws_session=aws_session,
            loop=loop,
            may_write=may_write,
            helm=lambda _: MemoryHelm(self, config.name),
            api_access=MemoryApiAccess,
        )
        async with opening as session:
            yield session

    def apply(self, config: ClusterConfig, *, kill_after: float | None = None) -> ExecutionResult:
        """Apply a file; with ``kill_after``, raise ``KilledError`` at such a write."""

        async def work(session: ClusterSession) -> ExecutionResult:
            plan, observed = await session.plan_when_settled(lambda _: None)
            return await execute_plan(plan, session.executor(observed), max_concurrent=MAX_CONCURRENT_STEPS)

        self.kill_at = None if kill_after is None else self.writes + kill_after
        try:
            return self.run(config, work)
        finally:
            self.kill_at = None


class VirtualLoop(AsyncioEventLoop):
    """Event loop whose time is the account's."""

    def __init__(self, account: MemoryAccount) -> None:
        super().__init__()
        self._account = account

    def now(self) -> datetime:
        return self._account.now

    async def sleep(self, delay: timedelta) -> None:
        self._account.now += delay
        await asyncio.sleep(0)

    async def gather(self, awaitables: Sequence[Awaitable[T]]) -> list[T | Exception]:
        results: list[T | Exception] = []
        for awaitable in awaitables:
            try:
                results.append(await awaitable)
            except Exception as error:  # noqa: BLE001 - as the port says
                results.append(error)
        return results


class _Inline:
    """Executor that runs work at once."""

    async def run(self, function: Callable[[], T]) -> T:
        return function()


class _Boto3:
    """Stands in for ``boto3.Session``."""

    region_name = "us-east-1"

    def __init__(self, account: MemoryAccount) -> None:
        self._account = account

    def client(self, service: str, **_: Any) -> "MemoryClient":
        return self._account.client(service)

    def get_credentials(self) -> None:
        return None


class MemorySession(AwsSession):
    """Session of a process whose account is in memory."""

    def __init__(self, account: MemoryAccount, loop: VirtualLoop, *, may_write: bool) -> None:
        super().__init__(
            loop=loop,
            executor=_Inline(),
            random=SystemRandomSource(),
            region="us-east-1",
            session=_Boto3(account),
            fence=no_fence if may_write else refuse_writes,
        )
        self.account = account


class _OperationNames(dict[str, str]):
    def __missing__(self, method: str) -> str:
        return "".join(part.capitalize() for part in method.split("_"))


class MemoryClient:
    """Client of one service, with the methods that ``dovetail cluster`` calls."""

    def __init__(self, account: MemoryAccount, service: str) -> None:
        self._account, self._service = account, service
        self._backend = getattr(account, service)
        self.meta = SimpleNamespace(method_to_api_mapping=_OperationNames(), endpoint_url="https://sts")

    def can_paginate(self, method: str) -> bool:
        return False

    def __getattr__(self, method: str) -> Callable[..., Any]:
        function = getattr(self._backend, method)
        account = self._account
        is_read = method.startswith(_READS)

        def call(**params: Any) -> Any:
            _validate(self._service, method, params)
            if is_read:
                account.check_alive()
                return function(**params)
            with account.write():
                return function(**params)

        return call


def _validate(service: str, method: str, params: dict[str, Any]) -> None:
    """Validate parameters as botocore does before it sends a request."""
    _calls[f"{service} {method}"] += 1
    if _calls[f"{service} {method}"] <= _VALIDATED_CALLS:
        model, names = _service_model(service)
        if method == "describe_nat_gateways" and "Filters" in params:
            params = {**params, "Filter": params["Filters"]}  # The SDK has this alias.
            del params["Filters"]
        report = ParamValidator().validate(params, model.operation_model(names[method]).input_shape)
        assert not report.has_errors(), f"{service} {method}: {report.generate_report()}"


@cache
def _service_model(service: str) -> tuple[Any, dict[str, str]]:
    model = botocore.session.get_session().get_service_model(service)
    return model, {botocore.xform_name(name): name for name in model.operation_names}
