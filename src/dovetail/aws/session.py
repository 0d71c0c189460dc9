"""The one way to AWS: every call is made here, in a thread, and tried again with patience."""

from collections.abc import Callable
from datetime import timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeVar

import boto3
import msgspec
from botocore.config import Config

from dovetail.aws.errors import SDK_ERRORS, AwsError, Kind, translated
from dovetail.ports.event_loop import Loop
from dovetail.ports.executor import Offload
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import UNTOLD, Metrics

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

T = TypeVar("T")
THREADS: Final = 32
"""Calls in flight at once; more wait for a thread."""
_READING: Final = ("Describe", "Get", "List", "Receive")
"""How the names of operations begin that change nothing."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to bear errors that go by themselves."""

    throttled: int = 8
    """How often a throttled call is made again."""
    transient: int = 3
    first: timedelta = timedelta(milliseconds=250)
    most: timedelta = timedelta(seconds=20)

    def pause(self, tries: int, chance: Chance) -> timedelta:
        """Return how long to wait after so many tries: twice as long each time, at random.

        Between half and all of it: many who were refused at the same moment do
        not come back at the same moment.
        """
        whole = min(self.most, self.first * 2.0 ** (tries - 1))
        return whole * (0.5 + chance.fraction() / 2)


PATIENT: Final = Patience()


class Aws:
    """Clients of one region, and how they are called.

    The SDK's own retries are off: they would hold a thread while they wait.
    """

    def __init__(
        self,
        *,
        loop: Loop,
        offload: Offload,
        chance: Chance,
        region: str | None = None,
        endpoint_url: str | None = None,
        patience: Patience = PATIENT,
        session: boto3.Session | None = None,
        metrics: Metrics = UNTOLD,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        """``guard`` is asked right before every call that may change something."""
        self._guard = guard
        self._loop = loop
        self._offload = offload
        self._chance = chance
        self._patience = patience
        self._endpoint_url = endpoint_url
        self._region = region
        self._session = session or _found_session()
        self.metrics = metrics
        self._clients: dict[tuple[str, str | None], Any] = {}
        self._config = Config(
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=5,
            read_timeout=60,
            max_pool_connections=THREADS,
            user_agent_extra=f"dovetail/{version('dovetail')}",
        )

    @property
    def region(self) -> str:
        return self._region or self._session.region_name or ""

    def credentials(self) -> Any:
        """Return what calls are signed with; None when there is nothing."""
        return self._session.get_credentials()

    def client(self, service: Any, *, region: str | None = None) -> Any:
        """Return a client, always the same; raises ``AwsError`` when no region is known."""
        known = self._clients.get((service, region))
        if known is not None:
            return known
        try:
            made = self._session.client(
                service,
                region_name=region or self._region,
                endpoint_url=self._endpoint_url,
                config=self._config,
            )
        except SDK_ERRORS as error:
            raise translated(error, f"client of {service}") from error
        self._clients[service, region] = made
        return made

    def ec2(self) -> "EC2Client":
        made: EC2Client = self.client("ec2")
        return made

    async def call(self, operation: str, work: Callable[[], T]) -> T:
        """Make a call, again and again while that may help; raises ``AwsError``.

        ``work`` must do no harm when it is done twice: an answer can get lost.
        """
        throttled = transient = 0

        def guarded() -> T:
            # In the thread: waiting for one may have taken any time.
            self._guard()
            return work()

        wanted = work if operation.startswith(_READING) else guarded
        while True:
            since = self._loop.now()
            try:
                return await self._offload.run(wanted)
            except SDK_ERRORS as error:
                told = translated(error, operation)
                self.metrics.count(
                    "dovetail_aws_request_errors_total", operation=operation, code=told.code
                )
                throttled += told.kind is Kind.THROTTLED
                transient += told.kind is Kind.TRANSIENT
                if not self._is_worth_another_try(told, throttled, transient):
                    raise told from error
            finally:
                took = (self._loop.now() - since).total_seconds()
                self.metrics.observe(
                    "dovetail_aws_request_duration_seconds", took, operation=operation
                )
            await self._loop.sleep(self._patience.pause(throttled + transient, self._chance))

    def _is_worth_another_try(self, told: AwsError, throttled: int, transient: int) -> bool:
        if told.kind is Kind.THROTTLED:
            return throttled <= self._patience.throttled
        return told.kind is Kind.TRANSIENT and transient <= self._patience.transient


def _found_session() -> boto3.Session:
    """Return what environment and files say; raises ``AwsError`` where they are wrong."""
    try:
        return boto3.Session()
    except SDK_ERRORS as error:
        raise translated(error, "reading AWS's settings") from error
