"""The sandbox: its endpoint, its scenario and the logs of its controllers."""

import asyncio
import base64
import json
import ssl
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import aiohttp

from dovetail.data.bundled import bundled_prices
from dovetail.host.clock import SystemClock
from dovetail.logs import LogLine
from dovetail.ports.api_resources import REPLICA_SETS
from dovetail.simulator.apiserver.write import freeze_object
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.rest.sandbox import CONTROLLER_NAMESPACE, Sandbox, SandboxEndpoint
from dovetail.simulator.scenario.model import Phase, Until, Wait
from tests.simulator.rest.rest_server import TOKEN
from tests.support.simulator.api_server import a_pod, a_replica_set, run_pod
from tests.support.simulator.clusters import build_cluster, build_scenario, scaled, small_catalog

SCENARIO = build_scenario(
    Phase(name="wait", actions=(Wait(timedelta(seconds=5)),)),
    Phase(name="up", actions=(scaled(1),), until=Until(running=1)),
)
Get = Callable[[str], Awaitable[Any]]


def serve(
    cluster: SimulatedCluster, client: Callable[[Get], Awaitable[None]], *, speed: float = 1.0
) -> SandboxEndpoint:
    """Serve a cluster until the client is done, and return its endpoint."""
    sandbox = Sandbox(cluster, token=TOKEN, clock=SystemClock().seconds, scenario=SCENARIO, speed=speed)

    async def run() -> SandboxEndpoint:
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(sandbox.run(port=0, ready=ready.set_result, stop=stop))
        endpoint: SandboxEndpoint = await ready
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:

            async def get(path: str) -> Any:
                async with session.get(endpoint.url + path, ssl=trust(endpoint)) as response:
                    assert response.status == 200, await response.text()
                    return await response.text()

            await client(get)
        stop.set()
        await serving
        return endpoint

    return asyncio.run(asyncio.wait_for(run(), 60))


def trust(endpoint: SandboxEndpoint) -> ssl.SSLContext:
    [cluster] = endpoint.kubeconfig["clusters"]
    certificate = base64.b64decode(cluster["cluster"]["certificate-authority-data"])
    return ssl.create_default_context(cadata=certificate.decode())


def test_it_listens_on_loopback_and_its_kubeconfig_has_the_url() -> None:
    async def client(get: Get) -> None:
        assert "t3.small" in await get("/api/v1/nodes")

    endpoint = serve(build_cluster(SCENARIO), client)

    [cluster] = endpoint.kubeconfig["clusters"]
    assert cluster["cluster"]["server"] == endpoint.url
    assert endpoint.url.startswith("https://127.0.0.1:")


def test_helm_finds_nothing_that_hinders_the_documented_installation() -> None:
    async def client(get: Get) -> None:
        assert '"items":[]' in await get("/api/v1/namespaces/kube-system/configmaps")
        crds = json.loads(await get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"))["items"]
        for meta in (crd["metadata"] for crd in crds):
            assert meta["labels"] == {"app.kubernetes.io/managed-by": "Helm"}
            assert meta["annotations"]["meta.helm.sh/release-name"] == "dovetail-crd"
            assert meta["annotations"]["meta.helm.sh/release-namespace"] == "kube-system"

    prices, namespace = bundled_prices(), CONTROLLER_NAMESPACE
    serve(SimulatedCluster(SCENARIO, catalog=small_catalog(), prices=prices, namespace=namespace), client)


def test_the_scenario_runs_while_requests_are_served() -> None:
    cluster = build_cluster(SCENARIO)

    async def client(get: Get) -> None:
        while cluster.recorder.running < 1:
            await asyncio.sleep(0.01)
            await get("/api/v1/pods")

    serve(cluster, client, speed=100)

    assert cluster.ec2.billing.instance_count == 2


def test_only_the_controller_pod_has_the_log_of_the_controllers() -> None:
    cluster = build_cluster(SCENARIO)
    labels = {"karpenter": "controller"}
    node_name = next(iter(cluster.recorder.node_ready))
    for name, its in (("ours", labels), ("other", {})):
        run_pod(cluster.api, a_pod(name, labels=its), node=node_name)
    logs = {"ours": "", "other": ""}

    async def client(get: Get) -> None:
        while "created nodeclaim" not in logs["ours"]:
            await asyncio.sleep(0.01)
            for name in logs:
                logs[name] = await get(f"/api/v1/namespaces/default/pods/{name}/log")

    serve(cluster, client, speed=100)

    assert '"message":"created nodeclaim"' in logs["ours"]
    assert '"level":"DEBUG"' not in logs["ours"]
    assert "nodeclaim" not in logs["other"]


def test_a_component_that_fails_on_an_object_is_logged_and_the_cluster_goes_on() -> None:
    cluster, lines = build_cluster(), list[LogLine]()
    cluster.log.listeners.append(lines.append)
    meta = {"name": "broken", "namespace": "default", "uid": "uid-of-broken"}

    async def client(get: Get) -> None:
        cluster.api.restore(REPLICA_SETS, freeze_object({"kind": "ReplicaSet", "metadata": meta}))
        cluster.api.create(REPLICA_SETS, a_replica_set("after"))
        while "after-" not in await get("/api/v1/pods"):
            await asyncio.sleep(0.05)

    serve(cluster, client, speed=10)

    failures = [line.fields for line in lines if line.message == "a simulated component failed"]
    assert {fields["object"] for fields in failures} == {"default/broken"}
    assert all(fields["error"] == "KeyError: 'spec'" and ".py:" in fields["at"] for fields in failures)
