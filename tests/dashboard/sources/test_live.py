"""Live source: a watched cluster becomes documents, also when something may not be read."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from dovetail.cli.options.cluster_source import ClusterSource
from dovetail.cli.options.view_source import open_source
from dovetail.dashboard.sources.source import SourceStatus, ViewSource, ViewUpdate
from dovetail.errors import DovetailError
from dovetail.host.clock import SystemClock
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.ports.api_resources import DEPLOYMENTS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.rest.sandbox import Sandbox, SandboxEndpoint
from dovetail.view.document import NodeState
from tests.cli.clusters import a_live_node
from tests.dashboard.sources.list_server import ListServer, list_server
from tests.simulator.rest.rest_server import TOKEN
from tests.support.simulator.clusters import build_cluster, build_scenario
from tests.support.telemetry import RecordedLog

SPEED = 60.0


def options(kubeconfig: str | None, **changes: object) -> ClusterSource:
    return ClusterSource(
        **{  # type: ignore[arg-type]
            "cluster": (),
            "kubeconfig": kubeconfig,
            "context": "",
            "catalog": None,
            "prices": None,
            "discounts": None,
            "region": None,
            "burstable": BurstablePolicy.BASELINE,
            "node_cost": None,
            "fewer_nodes_tolerance": 0.0,
            **changes,
        }
    )


def watch(
    cluster: SimulatedCluster, folder: Path, reader: Callable[[ViewSource, asyncio.Event], Awaitable[None]]
) -> None:
    """Serve a cluster, and read it with a live source; the event stops the API server."""
    sandbox = Sandbox(
        cluster, token=TOKEN, clock=SystemClock().seconds, scenario=build_scenario(), speed=SPEED
    )

    async def run() -> None:
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(sandbox.run(port=0, ready=ready.set_result, stop=stop))
        endpoint: SandboxEndpoint = await ready
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(endpoint.kubeconfig))
        source = open_source(options(str(file)), RecordedLog())
        try:
            await source.start()
            await reader(source, stop)
        finally:
            await source.close()
            stop.set()
            await serving

    asyncio.run(asyncio.wait_for(run(), 60))


async def read_until(source: ViewSource, is_met: Callable[[ViewUpdate], bool]) -> ViewUpdate:
    async for update in source.updates():
        if is_met(update):
            return update
    raise AssertionError("the source ended")


@pytest.mark.slow
def test_node_appears_while_the_source_watches(tmp_path: Path) -> None:
    cluster = build_cluster(build_scenario())

    async def reader(source: ViewSource, _: asyncio.Event) -> None:
        assert not source.current().view.node_claims
        scale(cluster, 3)

        update = await read_until(
            source,
            lambda update: any(
                node.node_pool and node.state is NodeState.READY and node.workloads
                for node in update.view.nodes.values()
            ),
        )

        assert not update.status.stale
        assert update.view.totals.price_per_hour > 0
        assert any(decision.kind == "launched" for decision in update.view.decisions.values())

    watch(cluster, tmp_path, reader)


@pytest.mark.slow
def test_documents_follow_the_clock_of_a_cluster_that_runs_faster_than_this_computer(tmp_path: Path) -> None:
    cluster = build_cluster(build_scenario())

    async def reader(source: ViewSource, _: asyncio.Event) -> None:
        began = source.current().view.at
        # An hour of the cluster is a minute here; ten of its minutes pass in ten seconds.
        later = await read_until(source, lambda update: update.view.at >= began + timedelta(minutes=10))

        # The clock is read every second, which is a minute of the cluster.
        assert abs(cluster.clock.now() - later.view.at) < timedelta(minutes=5)

    watch(cluster, tmp_path, reader)


@pytest.mark.slow
def test_source_is_stale_while_the_api_server_is_gone(tmp_path: Path) -> None:
    cluster = build_cluster(build_scenario())

    async def reader(source: ViewSource, stop: asyncio.Event) -> None:
        stop.set()

        update = await read_until(source, lambda update: update.status.stale)

        assert "does not answer" in update.status.reason
        assert update.view.nodes, "the last document is still shown"

    watch(cluster, tmp_path, reader)


@pytest.mark.slow
def test_source_is_connected_again_once_the_api_server_is_back_and_shows_what_it_missed(
    tmp_path: Path,
) -> None:
    nodes = [a_live_node(number, managed=False) for number in range(3)]

    async def run(server: ListServer) -> tuple[ViewUpdate, ViewUpdate]:
        source = open_source(options(str(server.kubeconfig)), RecordedLog())
        try:
            await source.start()
            await asyncio.to_thread(server.stop)
            stale = await read_until(source, lambda update: update.status.stale)
            server.objects["nodes"] = nodes
            await asyncio.to_thread(server.start)
            return stale, await read_until(
                source, lambda update: not update.status.stale and len(update.view.nodes) == 3
            )
        finally:
            await source.close()

    with list_server(tmp_path, {"nodes": nodes[:1]}) as server:
        stale, connected = asyncio.run(asyncio.wait_for(run(server), 90))

    assert len(stale.view.nodes) == 1
    assert stale.status.since is not None
    assert connected.status == SourceStatus()


def test_cluster_that_does_not_answer_is_an_error_with_its_address(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    cluster = {"server": "https://127.0.0.1:9"}
    file.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "c", "user": {"token": "t"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                "current-context": "c",
            }
        )
    )

    async def run() -> None:
        source = open_source(options(str(file)), RecordedLog())
        await source.start()

    with pytest.raises(DovetailError, match=r"127\.0\.0\.1:9"):
        asyncio.run(run())


def scale(cluster: SimulatedCluster, replicas: int) -> None:
    (deployment,) = [obj["metadata"] for obj in cluster.api.list(DEPLOYMENTS).items]
    patch = {"spec": {"replicas": replicas}}
    cluster.api.patch(DEPLOYMENTS, deployment["name"], patch, PatchType.MERGE, deployment["namespace"])
