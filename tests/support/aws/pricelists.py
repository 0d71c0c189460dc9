"""A fake Pricing API and spot price history, over HTTP on loopback."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from dovetail.aws.instancetype.pricing import LivePrices
from dovetail.aws.session import AwsSession, RetryPolicy
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from dovetail.model.cloud.prices import PriceBook
from tests.support.telemetry import RecordedLog

T = TypeVar("T")
SHARED, METAL = "Compute Instance", "Compute Instance (bare metal)"
HASTY = RetryPolicy(
    max_throttle_retries=1,
    max_transient_retries=0,
    initial_delay=timedelta(milliseconds=1),
    max_delay=timedelta(milliseconds=2),
)


def product(name: str, price: str, currency: str = "USD") -> str:
    """Return one entry of a PriceList, with relevant and other fields."""
    dimension = {"unit": "Hrs", "pricePerUnit": {currency: price}, "appliesTo": []}
    term = {"priceDimensions": {"a.b.c": dimension}, "sku": "a"}
    entry = {
        "product": {"productFamily": SHARED, "attributes": {"instanceType": name, "vcpu": "2"}},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {"a.b": term}},
    }
    return msgspec.json.encode(entry).decode()


class PriceLists:
    """Prices of the fake API, and the requests it received."""

    def __init__(self) -> None:
        self.products: dict[str, list[list[str]]] = {
            SHARED: [[product("m5.large", "0.096")]],
            METAL: [[product("m5.metal", "4.608")]],
        }
        """Product family → pages."""
        self.spot: list[list[tuple[str, str, str, str]]] = [
            [("m5.large", "us-east-1a", "0.035", "2026-11-01T00:00:00.000Z")]
        ]
        """Pages of (type, zone, price, time)."""
        self.broken: set[str] = set()
        """Operations that fail."""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.url = ""

    @property
    def calls(self) -> Counter[str]:
        return Counter(operation for operation, _ in self.requests)

    def respond(self, target: str, body: bytes) -> tuple[int, str, bytes]:
        request = msgspec.json.decode(body) if target else dict(parse_qsl(body.decode()))
        operation = target.rpartition(".")[2] or request["Action"]
        self.requests.append((operation, request))
        if operation in self.broken:
            wrong = '{"__type": "AccessDeniedException", "message": "no"}'
            return 400, "application/x-amz-json-1.1", wrong.encode()
        page = int(request.get("NextToken") or 0)
        if target:
            return 200, "application/x-amz-json-1.1", self._products(request, page)
        return 200, "text/xml", self._history(page)

    def _products(self, request: dict[str, Any], page: int) -> bytes:
        filters = {entry["Field"]: entry["Value"] for entry in request["Filters"]}
        pages = self.products[filters["productFamily"]]
        response: dict[str, Any] = {"PriceList": pages[page] if pages else []}
        if page + 1 < len(pages):
            response["NextToken"] = str(page + 1)
        return msgspec.json.encode(response)

    def _history(self, page: int) -> bytes:
        items = "".join(
            f"<item><instanceType>{kind}</instanceType><availabilityZone>{zone}</availabilityZone>"
            f"<spotPrice>{price}</spotPrice><timestamp>{time}</timestamp></item>"
            for kind, zone, price, time in (self.spot[page] if self.spot else ())
        )
        more = str(page + 1) if page + 1 < len(self.spot) else ""
        return (
            "<DescribeSpotPriceHistoryResponse>"
            f"<spotPriceHistorySet>{items}</spotPriceHistorySet><nextToken>{more}</nextToken>"
            "</DescribeSpotPriceHistoryResponse>"
        ).encode()


@contextmanager
def price_lists() -> Iterator[PriceLists]:
    """Serve prices on a free port."""
    lists = PriceLists()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, kind, text = lists.respond(self.headers.get("X-Amz-Target", ""), body)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    lists.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield lists
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Process:
    """A process that reads prices from an endpoint."""

    def __init__(self, url: str, *, region: str = "us-east-1") -> None:
        self._runner = asyncio.Runner()
        self.log = RecordedLog()
        self._offload = ThreadExecutor(4)
        self.loop = self.do(self._make_loop())
        self.aws = AwsSession(
            loop=self.loop,
            executor=self._offload,
            random=SystemRandomSource(),
            region=region,
            endpoint_url=url,
            retry_policy=HASTY,
        )

    def prices(self, fallback: PriceBook, *, isolated: bool = False) -> LivePrices:
        return LivePrices(aws=self.aws, loop=self.loop, log=self.log, fallback=fallback, isolated=isolated)

    def do(self, work: Awaitable[T]) -> T:
        async def whole() -> T:
            return await work

        return self._runner.run(whole())

    def end(self) -> None:
        self._offload.close()
        self._runner.close()

    async def _make_loop(self) -> AsyncioEventLoop:
        return AsyncioEventLoop()
