"""When a process is ready, when it is ill, and where it says so."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from dovetail.observability.health import Health, Stage
from dovetail.observability.http_server import CannotListen, Endpoints, serving


def test_ready_is_who_works_or_stands_by() -> None:
    health = Health()

    answers = {}
    for stage in Stage:
        health.stage = stage
        answers[stage] = health.unready()

    assert answers == {
        Stage.STARTING: "starting",
        Stage.STANDING_BY: "",
        Stage.WORKING: "",
        Stage.STOPPING: "stopping",
    }


def test_a_watch_that_is_stuck_is_neither_well_nor_ready() -> None:
    health = Health()
    health.stage = Stage.WORKING

    health.watch_over(lambda: ["pods", "nodes"])

    assert health.unwell() == "stuck: pods, nodes"
    assert health.unready() == "stuck: pods, nodes"


def test_starting_and_stopping_are_no_illness() -> None:
    health = Health()

    answers = []
    for health.stage in Stage:
        answers.append(health.unwell())

    assert answers == [""] * len(Stage)


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


async def numbers() -> bytes:
    return b"karpenter_build_info 1\n"


async def many_numbers() -> bytes:
    return await numbers() * 100_000


class Served:
    def __init__(self, http: aiohttp.ClientSession, health: Health, ports: tuple[int, int]) -> None:
        self.http = http
        self.health = health
        self.metrics_port, self.probe_port = ports

    async def get(self, path: str, *, timeout: float = 5) -> tuple[int, str]:
        port = self.metrics_port if path == "/metrics" else self.probe_port
        limit = aiohttp.ClientTimeout(timeout)
        async with self.http.get(f"http://127.0.0.1:{port}{path}", timeout=limit) as answer:
            return answer.status, (await answer.text()).strip()


@asynccontextmanager
async def a_process() -> AsyncIterator[Served]:
    health, ports = Health(), free_ports()
    endpoints = Endpoints(metrics_port=ports[0], probe_port=ports[1])
    async with (
        serving(endpoints, scrape=numbers, health=health),
        aiohttp.ClientSession() as http,
    ):
        yield Served(http, health, ports)


def test_the_numbers_and_the_answers_are_on_ports_of_their_own() -> None:
    async def story() -> None:
        async with a_process() as process:
            process.health.stage = Stage.WORKING

            assert await process.get("/metrics") == (200, "karpenter_build_info 1")
            assert await process.get("/healthz") == (200, "ok")
            assert await process.get("/readyz") == (200, "ok")

    asyncio.run(story())


def test_numbers_are_packed_for_those_who_say_that_they_can_unpack_them() -> None:
    async def story() -> list[str | None]:
        async with a_process() as process:
            url = f"http://127.0.0.1:{process.metrics_port}/metrics"
            answers = []
            for wanted in ("gzip", "identity"):
                async with process.http.get(url, headers={"Accept-Encoding": wanted}) as answer:
                    assert await answer.text() == "karpenter_build_info 1\n"
                    answers.append(answer.headers.get("Content-Encoding"))
            return answers

    assert asyncio.run(story()) == ["gzip", None]


def test_megabytes_of_numbers_are_packed_too() -> None:
    async def story() -> int:
        port = free_ports()[0]
        endpoints = Endpoints(metrics_port=port, probe_port=0)
        async with (
            serving(endpoints, scrape=many_numbers, health=Health()),
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            return len(await answer.read())

    assert asyncio.run(story()) == 100_000 * len("karpenter_build_info 1\n")


def test_a_process_that_starts_is_alive_but_not_ready() -> None:
    async def story() -> None:
        async with a_process() as process:
            assert await process.get("/healthz") == (200, "ok")
            assert await process.get("/readyz") == (500, "starting")

    asyncio.run(story())


def test_a_loop_that_is_stuck_gives_no_answer() -> None:
    released = threading.Event()

    async def ask(port: int) -> tuple[bytes, bytes]:
        """From another loop, as a kubelet would."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
        answer = asyncio.ensure_future(reader.read(1))
        done, _ = await asyncio.wait([answer], timeout=0.3)
        while_stuck = answer.result() if done else b""
        released.set()
        later = await answer
        writer.close()
        return while_stuck, later

    async def story() -> tuple[bytes, bytes]:
        async with a_process() as process:
            port, loop = process.probe_port, asyncio.get_running_loop()
            probe = loop.run_in_executor(None, lambda: asyncio.run(ask(port)))
            released.wait(10)  # The loop stands still here.
            return await probe

    assert asyncio.run(story()) == (b"", b"H")


def test_a_port_that_is_taken_is_said_in_one_sentence() -> None:
    async def story(port: int) -> None:
        endpoints = Endpoints(metrics_port=port, probe_port=0)
        async with serving(endpoints, scrape=numbers, health=Health()):
            pass

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(CannotListen) as told:
            asyncio.run(story(port))

    assert str(told.value).startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert "--metrics-port" in str(told.value)


def test_ports_are_free_again_afterwards() -> None:
    async def story(endpoints: Endpoints) -> None:
        for _ in range(2):
            async with serving(endpoints, scrape=numbers, health=Health()):
                pass

    metrics, probes = free_ports()
    asyncio.run(story(Endpoints(metrics_port=metrics, probe_port=probes)))


def test_in_a_pod_every_address_is_listened_on() -> None:
    async def story() -> str:
        port = free_ports()[0]
        everywhere = Endpoints(address="all", metrics_port=port, probe_port=0)
        async with (
            serving(everywhere, scrape=numbers, health=Health()),
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.2:{port}/metrics") as answer,
        ):
            return await answer.text()

    assert asyncio.run(story()) == "karpenter_build_info 1\n"
