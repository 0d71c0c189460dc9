"""Network between a process and AWS or the API server, in virtual time.

A request takes effect some time after it was sent, and its response arrives later
still. A process may be killed in between: requests that left it take effect.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import boto3
import botocore.session
import msgspec
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from dovetail.simulator.clock import VirtualClock
from tests.support.chaos.virtual_asyncio import VirtualAsyncioLoop

KUBE, FLEET = "kube", "create-fleet"
_DELAYS = {KUBE: (0.002, 0.015), FLEET: (0.4, 4.0)}
"""Thread pool → seconds before a request takes effect, from and to."""
_AWS_DELAY = (0.01, 0.12)
_SLOW_FLEETS, _SLOW_FLEET_DELAY = 0.2, (4.0, 20.0)
"""Share of CreateFleet requests that take longer, and how long."""
_RESPONSE_DELAY = (0.002, 0.03)
_THROTTLING_CODES = {"ec2": "RequestLimitExceeded", "sqs": "RequestThrottled", "iam": "Throttling"}


class AwsApiError(Exception):
    """An error response of AWS."""

    def __init__(self, code: str, message: str = "", *, status: int = 400) -> None:
        super().__init__(code, message)
        self.code, self.message, self.status = code, message, status


class NotYet(Exception):
    """A long poll has nothing to return yet."""


class ErrorRates(msgspec.Struct, kw_only=True):
    """Probability of faults, per call of AWS; they can be changed at any time."""

    throttled: float = 0.0
    lost: float = 0.0
    """The request takes effect, its response does not arrive."""
    timed_out: float = 0.2
    """Share of lost responses that the client waits for until its timeout."""
    no_capacity: float = 0.0
    """Share of offerings, and of whole fleets, that have no capacity."""


class _HttpResponse:
    def __init__(self, status: int) -> None:
        self.status_code = status


class Network:
    """Delivers requests and responses; loses and rejects some of those to AWS."""

    def __init__(self, clock: VirtualClock, random: Random, rates: ErrorRates) -> None:
        self._clock = clock
        self._random = random
        self.rates = rates
        self.calls: Counter[str] = Counter()
        self.injected: Counter[str] = Counter()
        self.on_launch_call: Callable[[], None] = lambda: None
        """Called when a CreateFleet request took effect and its response is under way."""
        self._response_delay = 0.0
        self._is_polling = False
        """The request is a long poll, which was received before."""

    def send(self, loop: VirtualAsyncioLoop, pool: str, request: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Send a request of a process; return the future of its response."""
        response: asyncio.Future[Any] = loop.create_future()
        if loop.killed:
            return response
        # A request of a process that is killed meanwhile has left it, or has not.
        has_left = self._random.random() < 0.5
        polls_until = self._clock.now() + timedelta(seconds=20)

        polled = False

        def deliver() -> None:
            nonlocal polled
            if loop.killed and not has_left:
                return
            self._response_delay = self._uniform(_RESPONSE_DELAY)
            self._is_polling = polled
            result: Any = None
            error: Exception | None = None
            try:
                result = request()
            except NotYet:
                polled = True
                if self._clock.now() < polls_until and not loop.killed:
                    self._clock.call_later(timedelta(seconds=1), deliver)
                    return
                result = {}
            except Exception as raised:  # noqa: BLE001 - the caller gets it
                error = raised
            if pool == FLEET:
                self.on_launch_call()
            self._clock.call_later(
                timedelta(seconds=self._response_delay), lambda: _respond(loop, response, result, error)
            )

        bounds = _DELAYS.get(pool, _AWS_DELAY)
        if pool == FLEET and self._random.random() < _SLOW_FLEETS:
            bounds = _SLOW_FLEET_DELAY
        self._clock.call_later(timedelta(seconds=self._uniform(bounds)), deliver)
        return response

    def call_aws(self, service: str, operation: str, read_timeout: float, work: Callable[[], Any]) -> Any:
        """Return status and response of a call to AWS, or the fault that is injected."""
        if self._is_polling:
            return _HttpResponse(200), work()
        self.calls[operation] += 1
        if self._random.random() < self.rates.throttled:
            self.injected["throttled"] += 1
            code = _THROTTLING_CODES.get(service, "ThrottlingException")
            return _HttpResponse(503), _error(code, "Rate exceeded", 503)
        is_lost = self._random.random() < self.rates.lost
        try:
            status, response = 200, work()
        except AwsApiError as error:
            status, response = error.status, _error(error.code, error.message, error.status)
        if not is_lost:
            return _HttpResponse(status), response
        self.injected["lost"] += 1
        url = f"https://{service}.eu-west-1.amazonaws.com"
        if self._random.random() < self.rates.timed_out:
            self._response_delay = read_timeout
            raise ReadTimeoutError(endpoint_url=url)
        raise ConnectionClosedError(endpoint_url=url)

    def _uniform(self, bounds: tuple[float, float]) -> float:
        return self._random.uniform(*bounds)


class VirtualSession(boto3.Session):
    """boto3 session whose clients call an account in memory.

    botocore validates and serialises the parameters. Signature, HTTP and the parser
    of responses are left out; clients are shared by all processes, as they keep no state.
    """

    def __init__(self, network: Network, call: Callable[[str, str, Any], Any], *, region: str) -> None:
        super().__init__(
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - of no account
            region_name=region,
            botocore_session=botocore.session.get_session(),
        )
        self._network = network
        self._call = call
        self._cached: dict[tuple[Any, ...], Any] = {}

    def client(self, service_name: Any, *args: Any, **named: Any) -> Any:
        timeout = named["config"].read_timeout
        key = (service_name, named.get("region_name"), timeout)
        if key not in self._cached:
            client = self._cached[key] = super().client(service_name, *args, **named)

            def remember(params: Any, context: dict[str, Any], **_: Any) -> None:
                context["parameters"] = dict(params)

            def answer(model: Any, context: dict[str, Any], **_: Any) -> Any:
                return self._network.call_aws(
                    service_name,
                    model.name,
                    timeout,
                    lambda: self._call(service_name, model.name, context["parameters"]),
                )

            client.meta.events.register(f"provide-client-params.{service_name}.*", remember)
            client.meta.events.register(f"before-call.{service_name}.*", answer)
        return self._cached[key]


def _respond(
    loop: VirtualAsyncioLoop, response: "asyncio.Future[Any]", result: Any, error: Exception | None
) -> None:
    if loop.killed or response.done():
        return
    if error is None:
        response.set_result(result)
    else:
        response.set_exception(error)


def _error(code: str, message: str, status: int) -> dict[str, Any]:
    return {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
