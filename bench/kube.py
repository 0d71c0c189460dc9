"""Measure `dovetail run` against a full API server: start, memory, decisions.

One JSON line. ``python -m bench.kube --nodes 5000 --pods 50000`` uses the simulated API
server in another process; ``--live`` a real one, filled through etcd; ``--kubeconfig``
the given cluster, which ``--fill`` fills.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from bench.kube_objects import copy_objects, generate_objects, unschedulable_pod
from bench.memory import peak_kib
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.errors import DovetailError
from dovetail.host.clock import SystemClock
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.auth.kubeconfig import RestConfig, load_rest_config
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimiter
from dovetail.operator.cloud import CloudContext, CloudServices, NoInterruptionQueue
from dovetail.operator.operator import Operator, OperatorSettings
from dovetail.ports.api_resources import PODS
from dovetail.ports.kube_errors import AlreadyExists
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.ec2.account import Ec2Account
from dovetail.simulator.ec2.cloudprovider import SimulatedCloudProvider
from dovetail.simulator.rest.sandbox import encode_kubeconfig
from dovetail.simulator.rest.server import Server
from tests.live.cluster import wait_for
from tests.live.controlplane_binary import controlplane_binary
from tests.live.crds import install_crds
from tests.live.fixtures import running_control_plane

TOKEN = "bench"  # noqa: S105 - of a server on loopback
WINDOW = 1.0
"""Seconds of the batch window."""
DECISIONS = 5
SETTLING = 5.0
"""Seconds for the node class to become ready."""


class TimedLog:
    """Log that records the time of each entry."""

    def __init__(self) -> None:
        self.entries: list[tuple[float, str, dict[str, Any]]] = []

    def debug(self, message: str, **fields: Any) -> None:
        """Ignore the entry."""

    def info(self, message: str, **fields: Any) -> None:
        self.entries.append((time.perf_counter(), message, fields))

    def error(self, message: str, **fields: Any) -> None:
        self.info(message, **fields)
        print(message, fields, file=sys.stderr)

    def times(self, message: str) -> list[float]:
        return [at for at, text, _ in self.entries if text == message]


async def create_cloud(context: CloudContext) -> CloudServices:
    """Return simulated cloud services; no instance is really launched."""
    catalog, clock = bundled_catalog(), SystemClock()
    region = catalog.regions["us-east-1"]
    ec2 = Ec2Account(VirtualClock(start=clock.now()), region=region, random=SystemRandomSource())
    cloud = SimulatedCloudProvider(
        ec2,
        loop=context.loop,
        catalog=catalog,
        prices=bundled_prices(),
        node_class=context.cache.node_class,
        unavailable=context.unavailable_offerings,
    )
    return CloudServices(
        cloud_provider=cloud, interruption_queue=NoInterruptionQueue(context.loop), close=lambda: None
    )


async def wait_until(condition: Any, seconds: float) -> None:
    """Wait until a condition is true."""
    end = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > end:
            raise DovetailError(f"the condition is not true after {seconds:g} s")
        await asyncio.sleep(0.002)


async def measure(config: RestConfig) -> dict[str, Any]:
    """Measure start-up, memory, and the decisions on single pods."""
    log, stop = TimedLog(), asyncio.Event()
    before, cpu_started, started = peak_kib(), time.process_time(), time.perf_counter()
    operator = Operator(
        config, cloud_factory=create_cloud, settings=OperatorSettings(leader_election=None), log=log
    )
    running = asyncio.ensure_future(operator.run(stop))
    await wait_until(lambda: log.times("started") or running.done(), 300)
    if running.done():
        running.result()
    synced, working = log.times("started")[0] - started, time.process_time()
    memory = peak_kib()
    connection = _connection(config)
    kube = HttpKubeClient(connection)
    waits: list[float] = []
    await asyncio.sleep(SETTLING)
    for number in range(DECISIONS):
        name = f"bench-waits-{os.getpid()}-{number}"
        pod, status = unschedulable_pod(name)
        await kube.create(PODS, pod, "default")
        earlier = len(log.times("created nodeclaim"))
        await kube.patch(PODS, name, {"status": status}, "default", subresource="status")
        marked = time.perf_counter()
        await wait_until(lambda earlier=earlier: len(log.times("created nodeclaim")) > earlier, 60)
        waits.append(log.times("created nodeclaim")[-1] - marked - WINDOW)
    stop.set()
    await running
    await connection.close()
    return {
        "synced_seconds": round(synced, 2),
        "synced_cpu_seconds": round(working - cpu_started, 2),
        "peak_mib": memory >> 10,
        "peak_mib_before": before >> 10,
        "peak_mib_at_the_end": peak_kib() >> 10,
        "decision_seconds_beyond_the_window": [round(wait, 3) for wait in waits],
    }


def _connection(config: RestConfig) -> Connection:
    limit = RateLimiter(clock=asyncio.get_running_loop().time, qps=5000, burst=5000)
    return Connection(config, rate_limiter=limit, user_agent="dovetail-bench")


async def fill(config: RestConfig, nodes: int, pods: int) -> None:
    """Create all objects in a cluster, 40 at a time."""
    connection = _connection(config)
    kube, semaphore = HttpKubeClient(connection), asyncio.Semaphore(40)

    async def create(resource: Any, obj: Any, status: Any) -> None:
        async with semaphore:
            meta, namespace = obj["metadata"], obj["metadata"].get("namespace", "")
            try:
                await kube.create(resource, {**obj, "status": status}, namespace)
            except AlreadyExists:
                return
            if status and resource is PODS:
                patch = {"status": status}
                await kube.patch(resource, meta["name"], patch, namespace, subresource="status")

    group: list[Any] = []
    for entry in generate_objects(nodes, pods):
        group.append(create(*entry))
        if len(group) == 2000:
            await asyncio.gather(*group)
            group.clear()
    await asyncio.gather(*group)
    await connection.close()


async def serve(nodes: int, pods: int, file: Path) -> None:
    """Serve a simulated API server with these objects until the process ends."""
    clock = SystemClock()
    api = ApiServer(now=clock.now)
    for resource, obj, status in generate_objects(nodes, pods):
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
        api.create(resource, obj, namespace)
        if status:
            patch = {"status": status}
            api.patch(resource, name, patch, PatchType.MERGE, namespace, subresource="status")
    server = Server(api, token=TOKEN, now=clock.now)
    url = f"https://127.0.0.1:{await server.start()}"
    new_file = file.with_suffix(".new")
    new_file.write_text(yaml.safe_dump(encode_kubeconfig(url, TOKEN, server.certificate)))
    new_file.rename(file)
    await asyncio.Event().wait()


def _load_config(file: str) -> RestConfig:
    return load_rest_config(file, environ=os.environ, clock=SystemClock())


def measure_sandbox(nodes: int, pods: int) -> dict[str, Any]:
    """Measure against the simulated API server in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kubeconfig")
        command = [sys.executable, "-m", "bench.kube", "--serve", str(file)]
        command += ["--nodes", str(nodes), "--pods", str(pods)]
        child = subprocess.Popen(command)  # noqa: S603 - ourselves
        try:
            while not file.exists():
                if child.poll() is not None:
                    raise DovetailError("the API server has stopped")
                time.sleep(0.1)
            return asyncio.run(measure(_load_config(str(file))))
        finally:
            child.kill()
            child.wait()


def measure_live(nodes: int, pods: int) -> dict[str, Any]:
    """Measure against a real etcd and kube-apiserver that have no other work."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_control_plane(controlplane_binary(), Path(folder)) as plane,
    ):
        install_crds(plane)
        # They would mark these nodes as unreachable: no kubelet reports.
        plane.controller_manager.stop()
        plane.scheduler.stop()
        # One of each through the API server, which sets defaults; the others are copies.
        asyncio.run(fill(plane.access(), 1, 1))
        (node,), (pod,) = plane.read("nodes"), plane.read("pods", "-n", "default")
        plane.store(copy_objects(node, pod, nodes=nodes, pods=pods))
        path = "/api/v1/pods?limit=1"
        wait_for(
            "the API server lists the objects",
            lambda: plane.try_kubectl("get", "--raw", path).returncode == 0,
            seconds=900,
        )
        if len(plane.read("nodes")) != nodes:
            raise DovetailError("the API server does not show what is in etcd")
        load = os.getloadavg()[0]
        # In a new process: filling the cluster has used memory.
        command = [sys.executable, "-m", "bench.kube", "--kubeconfig", str(plane.kubeconfig)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
        result: dict[str, Any] = json.loads(done.stdout)
        return {**result, "load": round(load, 1)}


def main(arguments: list[str] | None = None) -> int:
    """Run the selected measurement."""
    parser = argparse.ArgumentParser(prog="python -m bench.kube", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--live", action="store_true", help="start a real control plane")
    parser.add_argument("--kubeconfig", help="measure against this cluster")
    parser.add_argument("--fill", action="store_true", help="create nodes and pods there first")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        asyncio.run(serve(options.nodes, options.pods, Path(options.serve)))
        return 0
    if options.kubeconfig:
        config = _load_config(options.kubeconfig)
        if options.fill:
            asyncio.run(fill(config, options.nodes, options.pods))
        result = asyncio.run(measure(config))
    elif options.live:
        result = measure_live(options.nodes, options.pods)
    else:
        result = measure_sandbox(options.nodes, options.pods)
    print(json.dumps({**result, "nodes": options.nodes, "pods": options.pods}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
