"""AWS session: runs boto3 calls in a thread pool, with retries and backoff."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeVar

import boto3
import msgspec
from botocore import xform_name
from botocore.config import Config

from dovetail.aws.errors import SDK_ERRORS, AwsError, ErrorKind, translate_error
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.executor import Executor
from dovetail.ports.metrics import (
    AWS_REQUEST_DURATION,
    AWS_REQUEST_ERRORS,
    OperationErrorLabels,
    OperationLabels,
)
from dovetail.ports.randomness import RandomSource
from dovetail.ports.telemetry import NO_METRICS, Metrics

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

T = TypeVar("T")
SdkSession = boto3.Session
"""Credentials and clients of the SDK."""
MAX_THREADS: Final = 32
"""Calls in flight at once; more calls wait for a thread."""
READ_TIMEOUT: Final = timedelta(seconds=60)
"""Longest wait for a response, unless a client has its own."""
_READ_PREFIXES: Final = ("Describe", "Get", "List", "Receive")
"""Prefixes of operations that do not mutate anything."""
_PAGE_TOKENS: Final = ("NextToken", "Marker")
"""Fields of a page that the request of the next one repeats: of most services, of IAM."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential backoff with jitter for throttled and transient errors."""

    max_throttle_retries: int = 8
    max_transient_retries: int = 3
    max_transient_time: timedelta = timedelta(minutes=4)
    """Time after the first attempt in which a transient error is retried."""
    initial_delay: timedelta = timedelta(milliseconds=250)
    max_delay: timedelta = timedelta(seconds=20)

    def delay(self, attempts: int, random: RandomSource) -> timedelta:
        """Return the delay after so many failed attempts.

        It doubles with each attempt. Jitter takes off up to a half, so that
        callers that were throttled together do not retry together.
        """
        longest = min(self.max_delay, self.initial_delay * 2.0 ** (attempts - 1))
        return longest * (0.5 + random.random() / 2)


DEFAULT_RETRY_POLICY: Final = RetryPolicy()


class AwsSession:
    """boto3 clients of one region, and the way to call them.

    Retries of the SDK are off: they would block a thread during the backoff.
    """

    def __init__(
        self,
        *,
        loop: EventLoop,
        executor: Executor,
        random: RandomSource,
        region: str | None = None,
        endpoint_url: str | None = None,
        retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY,
        read_timeout: timedelta = READ_TIMEOUT,
        session: boto3.Session | None = None,
        metrics: Metrics = NO_METRICS,
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        """``fence`` runs right before every mutating call, and raises to prevent it."""
        self._fence = fence
        self._loop = loop
        self._executor = executor
        self._random = random
        self._retry_policy = retry_policy
        self._endpoint_url = endpoint_url
        self._region = region
        self._session = session or _default_session()
        self.metrics = metrics
        self._read_timeout = read_timeout
        self._clients: dict[tuple[str, str | None, timedelta], Any] = {}
        self._config = Config(
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=5,
            max_pool_connections=MAX_THREADS,
            user_agent_extra=f"dovetail/{version('dovetail')}",
        )

    @property
    def region(self) -> str:
        """Return the region; empty if none is configured."""
        return self._region or self._session.region_name or ""

    @property
    def partition(self) -> str:
        """Return the partition of the region, such as ``aws-us-gov``."""
        try:
            return str(self._session.get_partition_for_region(self.region))
        except SDK_ERRORS:
            return "aws"  # A region newer than the SDK.

    def regions_with(self, service: Any) -> list[str]:
        """Return the regions of this partition that have a service, as far as the SDK knows."""
        return sorted(self._session.get_available_regions(service, self.partition))

    def credentials(self) -> Any:
        """Return the credentials that sign calls; None if there are none."""
        return self._session.get_credentials()

    def client(
        self, service: Any, *, region: str | None = None, read_timeout: timedelta | None = None
    ) -> Any:
        """Return the cached client of a service; raise ``AwsError`` without a region.

        The timeout belongs to a client: botocore has none for single calls.
        """
        timeout = read_timeout or self._read_timeout
        cached = self._clients.get((service, region, timeout))
        if cached is not None:
            return cached
        try:
            client = self._session.client(
                service,
                region_name=region or self._region,
                endpoint_url=self._endpoint_url,
                config=self._config.merge(Config(read_timeout=timeout.total_seconds())),
            )
        except SDK_ERRORS as error:
            raise translate_error(error, f"client of {service}") from error
        self._clients[service, region, timeout] = client
        return client

    def ec2(self, *, read_timeout: timedelta | None = None) -> "EC2Client":
        """Return the client of EC2."""
        client: EC2Client = self.client("ec2", read_timeout=read_timeout)
        return client

    async def list_pages(
        self,
        operation: str,
        client: Any,
        field: str,
        *,
        page_size: int | None = None,
        decode: Callable[[list[Any]], list[Any]] = list,
        **query: Any,
    ) -> list[Any]:
        """Return the entries of ``field`` on all pages of a Describe or List operation.

        Each page is a call of its own: one that is throttled does not repeat the others.
        ``decode`` runs in the thread of the call, with the entries of one page.
        """
        method = getattr(client, xform_name(operation))
        if page_size is not None:
            query["MaxResults"] = page_size

        def read(query: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
            page = method(**query)
            token = {name: page[name] for name in _PAGE_TOKENS if page.get(name)}
            return decode(page[field]), token

        entries: list[Any] = []
        while True:
            page_entries, token = await self.call(operation, partial(read, query))
            entries += page_entries
            if not token:
                return entries
            query = {**query, **token}

    async def call_or_none(self, operation: str, work: Callable[[], T]) -> T | None:
        """Do as ``call`` does, but return None if the resource does not exist."""
        try:
            return await self.call(operation, work)
        except AwsError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return None
            raise

    async def call(self, operation: str, work: Callable[[], T], *, executor: Executor | None = None) -> T:
        """Run ``work`` in a thread and retry it by the policy; raise ``AwsError``.

        ``work`` must be idempotent: if a response is lost, it runs again.
        ``executor`` has the threads; by default those of the session.
        """
        executor = executor or self._executor
        throttled = transient = 0
        deadline = self._loop.now() + self._retry_policy.max_transient_time

        def fenced() -> T:
            # In the thread, because the wait for a thread may have been long.
            self._fence()
            return work()

        attempt = work if operation.startswith(_READ_PREFIXES) else fenced
        while True:
            started = self._loop.now()
            try:
                return await executor.run(attempt)
            except SDK_ERRORS as sdk_error:
                error = translate_error(sdk_error, operation)
                self.metrics.inc(
                    AWS_REQUEST_ERRORS, OperationErrorLabels(operation=operation, code=error.code)
                )
                throttled += error.kind is ErrorKind.THROTTLED
                transient += error.kind is ErrorKind.TRANSIENT
                is_late = self._loop.now() >= deadline
                if not self._should_retry(error, throttled, transient, is_late=is_late):
                    raise error from sdk_error
            finally:
                duration = (self._loop.now() - started).total_seconds()
                self.metrics.observe(AWS_REQUEST_DURATION, duration, OperationLabels(operation=operation))
            await self._loop.sleep(self._retry_policy.delay(throttled + transient, self._random))

    def _should_retry(self, error: AwsError, throttled: int, transient: int, *, is_late: bool) -> bool:
        if error.kind is ErrorKind.THROTTLED:
            return throttled <= self._retry_policy.max_throttle_retries
        is_transient = error.kind is ErrorKind.TRANSIENT
        return is_transient and not is_late and transient <= self._retry_policy.max_transient_retries


def _default_session() -> boto3.Session:
    """Return a session from environment and AWS config files."""
    try:
        return boto3.Session()
    except SDK_ERRORS as error:
        raise translate_error(error, "reading the AWS configuration") from error
