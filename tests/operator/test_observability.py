"""What a process shows of itself while it works: numbers, readiness, health."""

import asyncio

import aiohttp
import pytest

from dovetail.host.clock import RealClock
from dovetail.observability.http_server import Endpoints, serving
from dovetail.operator.observability import Instruments
from dovetail.operator.operator import Operation, Settings
from tests.kube.serving import until
from tests.observability.test_health import free_ports
from tests.operator.cluster import a_real_time_cluster

pytestmark = pytest.mark.slow


def test_a_process_is_ready_once_it_works_and_counts_what_it_does() -> None:
    async def story() -> None:
        metrics_port, probe_port = free_ports()
        shown = Instruments(RealClock())
        endpoints = Endpoints(metrics_port=metrics_port, probe_port=probe_port)
        async with (
            a_real_time_cluster() as (cluster, server),
            serving(endpoints, scrape=shown.scraping.text, health=shown.health),
            aiohttp.ClientSession() as http,
        ):

            async def get(port: int, path: str) -> tuple[int, str]:
                async with http.get(f"http://127.0.0.1:{port}{path}") as answer:
                    return answer.status, await answer.text()

            before = await get(probe_port, "/readyz")
            stop = asyncio.Event()
            operation = Operation(
                server.access,
                hire=cluster.hire,
                settings=Settings(),
                log=cluster.log,
                instruments=shown,
            )
            life = asyncio.ensure_future(operation.run(stop))
            await until(lambda: shown.health.unready() == "", lambda: shown.health.stage)
            cluster.scale(10)
            await cluster.until(running=10)
            ready, healthy = await get(probe_port, "/readyz"), await get(probe_port, "/healthz")
            _, numbers = await get(metrics_port, "/metrics")
            bought = len(cluster.claims())
            stop.set()
            await life
            after = await get(probe_port, "/readyz")

        assert before == (500, "starting\n")
        assert ready == healthy == (200, "ok\n")
        assert after == (500, "stopping\n")
        lines = numbers.splitlines()
        created = 'karpenter_nodeclaims_created_total{min_values_relaxed="false",nodepool="default"'
        assert [line for line in lines if line.startswith(created)] == [
            f'{created},reason="provisioned"}} {float(bought)}'
        ]
        launched = 'karpenter_cloudprovider_duration_seconds_count{method="Create",provider="aws"}'
        assert f"{launched} {float(bought)}" in lines
        assert any(line.startswith("karpenter_nodes_allocatable{") for line in lines)

    asyncio.run(story())
