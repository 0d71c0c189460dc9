"""Readiness, liveness, and the HTTP endpoints for probes and metrics."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from dovetail.observability.health import Health, ProcessPhase
from dovetail.observability.http_server import Endpoints, ListenError, serving


def test_the_leader_and_standbys_are_ready() -> None:
    health = Health()

    results = {}
    for phase in ProcessPhase:
        health.phase = phase
        results[phase] = health.get_readiness_error()

    assert results == {
        ProcessPhase.STARTING: "starting",
        ProcessPhase.STANDBY: "",
        ProcessPhase.LEADING: "",
        ProcessPhase.STOPPING: "stopping",
    }


def test_with_a_stuck_watch_a_process_is_neither_live_nor_ready() -> None:
    health = Health()
    health.phase = ProcessPhase.LEADING

    health.set_stuck_check(lambda: ["pods", "nodes"])

    assert health.get_liveness_error() == "stuck: pods, nodes"
    assert health.get_readiness_error() == "stuck: pods, nodes"


def test_a_process_is_live_in_all_phases() -> None:
    health = Health()

    results = []
    for health.phase in ProcessPhase:
        results.append(health.get_liveness_error())

    assert results == [""] * len(ProcessPhase)


def free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


async def metrics() -> bytes:
    return b"karpenter_build_info 1\n"


async def many_metrics() -> bytes:
    return await metrics() * 100_000


class Served:
    def __init__(self, http: aiohttp.ClientSession, health: Health, ports: tuple[int, int]) -> None:
        self.http = http
        self.health = health
        self.metrics_port, self.probe_port = ports

    async def get(self, path: str, *, timeout: float = 5) -> tuple[int, str]:
        port = self.metrics_port if path == "/metrics" else self.probe_port
        limit = aiohttp.ClientTimeout(timeout)
        async with self.http.get(f"http://127.0.0.1:{port}{path}", timeout=limit) as response:
            return response.status, (await response.text()).strip()


@asynccontextmanager
async def a_process() -> AsyncIterator[Served]:
    health, ports = Health(), free_ports()
    endpoints = Endpoints(metrics_port=ports[0], probe_port=ports[1])
    async with serving(endpoints, scrape=metrics, health=health), aiohttp.ClientSession() as http:
        yield Served(http, health, ports)


def test_metrics_and_probes_have_separate_ports() -> None:
    async def run() -> None:
        async with a_process() as process:
            process.health.phase = ProcessPhase.LEADING

            assert await process.get("/metrics") == (200, "karpenter_build_info 1")
            assert await process.get("/healthz") == (200, "ok")
            assert await process.get("/readyz") == (200, "ok")

    asyncio.run(run())


def test_metrics_are_compressed_if_the_client_accepts_it() -> None:
    async def run() -> list[str | None]:
        async with a_process() as process:
            url = f"http://127.0.0.1:{process.metrics_port}/metrics"
            results = []
            for encoding in ("gzip", "identity"):
                async with process.http.get(url, headers={"Accept-Encoding": encoding}) as response:
                    assert await response.text() == "karpenter_build_info 1\n"
                    results.append(response.headers.get("Content-Encoding"))
            return results

    assert asyncio.run(run()) == ["gzip", None]


def test_megabytes_of_metrics_are_compressed() -> None:
    async def run() -> int:
        port = free_ports()[0]
        endpoints = Endpoints(metrics_port=port, probe_port=0)
        async with (
            serving(endpoints, scrape=many_metrics, health=Health()),
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{port}/metrics") as response,
        ):
            return len(await response.read())

    assert asyncio.run(run()) == 100_000 * len("karpenter_build_info 1\n")


def test_a_starting_process_is_live_but_not_ready() -> None:
    async def run() -> None:
        async with a_process() as process:
            assert await process.get("/healthz") == (200, "ok")
            assert await process.get("/readyz") == (500, "starting")

    asyncio.run(run())


def test_a_blocked_event_loop_does_not_respond() -> None:
    released = threading.Event()

    async def probe(port: int) -> tuple[bytes, bytes]:
        """Send a request from another loop, as a kubelet does."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
        reply = asyncio.ensure_future(reader.read(1))
        done, _ = await asyncio.wait([reply], timeout=0.3)
        while_stuck = reply.result() if done else b""
        released.set()
        later = await reply
        writer.close()
        return while_stuck, later

    async def run() -> tuple[bytes, bytes]:
        async with a_process() as process:
            port, loop = process.probe_port, asyncio.get_running_loop()
            responses = loop.run_in_executor(None, lambda: asyncio.run(probe(port)))
            released.wait(10)  # Blocks the loop.
            return await responses

    assert asyncio.run(run()) == (b"", b"H")


def test_a_used_port_is_an_error() -> None:
    async def run(port: int) -> None:
        endpoints = Endpoints(metrics_port=port, probe_port=0)
        async with serving(endpoints, scrape=metrics, health=Health()):
            pass

    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = occupied.getsockname()[1]

        with pytest.raises(ListenError) as error:
            asyncio.run(run(port))

    assert str(error.value).startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert "--metrics-port" in str(error.value)


def test_ports_are_released_on_shutdown() -> None:
    async def run(endpoints: Endpoints) -> None:
        for _ in range(2):
            async with serving(endpoints, scrape=metrics, health=Health()):
                pass

    metrics_port, probe_port = free_ports()
    asyncio.run(run(Endpoints(metrics_port=metrics_port, probe_port=probe_port)))


def test_in_a_pod_all_addresses_are_bound() -> None:
    async def run() -> str:
        port = free_ports()[0]
        everywhere = Endpoints(address="all", metrics_port=port, probe_port=0)
        async with (
            serving(everywhere, scrape=metrics, health=Health()),
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.2:{port}/metrics") as response,
        ):
            return await response.text()

    assert asyncio.run(run()) == "karpenter_build_info 1\n"
