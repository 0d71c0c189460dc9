"""Metrics, readiness and health of a running operator."""

import asyncio

import aiohttp
import pytest

from dovetail.host.clock import SystemClock
from dovetail.observability.exposition import ProcessObservability
from dovetail.observability.http_server import Endpoints, serving
from dovetail.operator.operator import Operator, OperatorSettings
from tests.kube.api_server import until
from tests.observability.test_health import free_ports
from tests.operator.cluster import a_real_time_cluster

pytestmark = pytest.mark.slow


def test_a_running_process_is_ready_and_counts_launches() -> None:
    async def run() -> None:
        metrics_port, probe_port = free_ports()
        observability = ProcessObservability(SystemClock())
        endpoints = Endpoints(metrics_port=metrics_port, probe_port=probe_port)
        async with (
            a_real_time_cluster() as (cluster, server),
            serving(endpoints, scrape=observability.exposition.text, health=observability.health),
            aiohttp.ClientSession() as http,
        ):

            async def get(port: int, path: str) -> tuple[int, str]:
                async with http.get(f"http://127.0.0.1:{port}{path}") as response:
                    return response.status, await response.text()

            before = await get(probe_port, "/readyz")
            stop = asyncio.Event()
            operator = Operator(
                server.access,
                cloud_factory=cluster.create_cloud,
                settings=OperatorSettings(),
                log=cluster.log,
                observability=observability,
            )
            running = asyncio.ensure_future(operator.run(stop))
            await until(
                lambda: observability.health.get_readiness_error() == "", lambda: observability.health.phase
            )
            cluster.scale(10)
            await cluster.until(running=10)
            ready, healthy = await get(probe_port, "/readyz"), await get(probe_port, "/healthz")
            _, metrics = await get(metrics_port, "/metrics")
            claim_count = len(cluster.claims())
            stop.set()
            await running
            after = await get(probe_port, "/readyz")

        assert before == (500, "starting\n")
        assert ready == healthy == (200, "ok\n")
        assert after == (500, "stopping\n")
        lines = metrics.splitlines()
        created = 'karpenter_nodeclaims_created_total{min_values_relaxed="false",nodepool="default"'
        assert [line for line in lines if line.startswith(created)] == [
            f'{created},reason="provisioned"}} {float(claim_count)}'
        ]
        launched = 'karpenter_cloudprovider_duration_seconds_count{method="Create",provider="aws"}'
        assert f"{launched} {float(claim_count)}" in lines
        assert any(line.startswith("karpenter_nodes_allocatable{") for line in lines)

    asyncio.run(run())
