"""Measure `dovetail run` against an API server that is full: start, memory, one decision.

One JSON line. ``python -m bench.kube --nodes 5000 --pods 50000`` has our own API server in
another process; with ``--live`` a real one, filled by way of its etcd; with
``--kubeconfig`` the cluster named there, which ``--fill`` fills.
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

from bench.kubetown import a_waiting_pod, copies, everything
from bench.memory import peak_kib
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.errors import DovetailError
from dovetail.host.clock import RealClock
from dovetail.host.randomness import RealChance
from dovetail.kube.auth.kubeconfig import Access, find_access
from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimit
from dovetail.operator.cloud import Hired, NoWarnings, Surroundings
from dovetail.operator.operator import Operation, Settings
from dovetail.ports.api_resources import PODS
from dovetail.ports.kube_errors import AlreadyExists
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.clock import Engine
from dovetail.simulator.ec2.account import VirtualEc2
from dovetail.simulator.ec2.cloudprovider import SimCloud
from dovetail.simulator.rest.kubeconfig import kubeconfig
from dovetail.simulator.rest.server import Server
from tests.live.building import controlplane_binary
from tests.live.cluster import wait_for
from tests.live.crds import install_crds
from tests.live.fixtures import running_control_plane

TOKEN = "bench"  # noqa: S105 - of a server on loopback
WINDOW = 1.0
"""Seconds that pods wait for others."""
DECISIONS = 5
SETTLING = 5.0
"""Seconds for the node class to become ready."""


class TimedLog:
    """Remembers when what was said."""

    def __init__(self) -> None:
        self.said: list[tuple[float, str, dict[str, Any]]] = []

    def debug(self, message: str, **fields: Any) -> None:
        """Leave it."""

    def info(self, message: str, **fields: Any) -> None:
        self.said.append((time.perf_counter(), message, fields))

    def error(self, message: str, **fields: Any) -> None:
        self.info(message, **fields)
        print(message, fields, file=sys.stderr)

    def times(self, message: str) -> list[float]:
        return [moment for moment, one, _ in self.said if one == message]


async def hire(around: Surroundings) -> Hired:
    """Make a cloud of which nothing will be bought in earnest."""
    catalog, clock = bundled_catalog(), RealClock()
    region = catalog.regions["us-east-1"]
    ec2 = VirtualEc2(Engine(start=clock.now()), region=region, chance=RealChance())
    cloud = SimCloud(
        ec2,
        loop=around.loop,
        catalog=catalog,
        prices=bundled_prices(),
        node_class=around.mirror.node_class,
        scarcity=around.scarcity,
    )
    return Hired(cloud=cloud, interruptions=NoWarnings(around.loop), close=lambda: None)


async def until(holds: Any, seconds: float) -> None:
    """Wait until something holds."""
    end = time.perf_counter() + seconds
    while not holds():
        if time.perf_counter() > end:
            raise DovetailError("it never came to that")
        await asyncio.sleep(0.002)


async def measure(access: Access) -> dict[str, Any]:
    """Start, look at the memory, and have single pods decided on."""
    log, stop = TimedLog(), asyncio.Event()
    before, worked, began = peak_kib(), time.process_time(), time.perf_counter()
    operation = Operation(access, hire=hire, settings=Settings(election=None), log=log)
    running = asyncio.ensure_future(operation.run(stop))
    await until(lambda: log.times("started") or running.done(), 300)
    if running.done():
        running.result()
    synced, working = log.times("started")[0] - began, time.process_time()
    memory = peak_kib()
    connection = _connection(access)
    kube = HttpKube(connection)
    waits: list[float] = []
    await asyncio.sleep(SETTLING)
    for number in range(DECISIONS):
        name = f"bench-waits-{os.getpid()}-{number}"
        pod, status = a_waiting_pod(name)
        await kube.create(PODS, pod, "default")
        known = len(log.times("created nodeclaim"))
        await kube.patch(PODS, name, {"status": status}, "default", subresource="status")
        marked = time.perf_counter()
        await until(lambda known=known: len(log.times("created nodeclaim")) > known, 60)
        waits.append(log.times("created nodeclaim")[-1] - marked - WINDOW)
    stop.set()
    await running
    await connection.close()
    return {
        "synced_seconds": round(synced, 2),
        "synced_cpu_seconds": round(working - worked, 2),
        "peak_mib": memory >> 10,
        "peak_mib_before": before >> 10,
        "peak_mib_at_the_end": peak_kib() >> 10,
        "decision_seconds_beyond_the_window": [round(one, 3) for one in waits],
    }


def _connection(access: Access) -> Connection:
    limit = RateLimit(clock=asyncio.get_running_loop().time, qps=5000, burst=5000)
    return Connection(access, limit=limit, agent="dovetail-bench")


async def fill(access: Access, nodes: int, pods: int) -> None:
    """Create everything in a cluster, some at a time."""
    connection = _connection(access)
    kube, gate = HttpKube(connection), asyncio.Semaphore(40)

    async def create(resource: Any, obj: Any, status: Any) -> None:
        async with gate:
            meta, namespace = obj["metadata"], obj["metadata"].get("namespace", "")
            try:
                await kube.create(resource, {**obj, "status": status}, namespace)
            except AlreadyExists:
                return
            if status and resource is PODS:
                patch = {"status": status}
                await kube.patch(resource, meta["name"], patch, namespace, subresource="status")

    group: list[Any] = []
    for one in everything(nodes, pods):
        group.append(create(*one))
        if len(group) == 2000:
            await asyncio.gather(*group)
            group.clear()
    await asyncio.gather(*group)
    await connection.close()


async def serve(nodes: int, pods: int, file: Path) -> None:
    """Be an API server that has all that, for as long as somebody lets us."""
    clock = RealClock()
    api = ApiServer(now=clock.now)
    for resource, obj, status in everything(nodes, pods):
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
        api.create(resource, obj, namespace)
        if status:
            patch = {"status": status}
            api.patch(resource, name, patch, PatchType.MERGE, namespace, subresource="status")
    server = Server(api, token=TOKEN, now=clock.now)
    url = f"https://127.0.0.1:{await server.start()}"
    written = file.with_suffix(".new")
    written.write_text(yaml.safe_dump(kubeconfig(url, TOKEN, server.certificate)))
    written.rename(file)
    await asyncio.Event().wait()


def _access(file: str) -> Access:
    return find_access(file, environ=os.environ, clock=RealClock())


def measured_alone(nodes: int, pods: int) -> dict[str, Any]:
    """Measure with our own API server in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kubeconfig")
        command = [sys.executable, "-m", "bench.kube", "--serve", str(file)]
        command += ["--nodes", str(nodes), "--pods", str(pods)]
        child = subprocess.Popen(command)  # noqa: S603 - ourselves
        try:
            while not file.exists():
                if child.poll() is not None:
                    raise DovetailError("the API server ended by itself")
                time.sleep(0.1)
            return asyncio.run(measure(_access(str(file))))
        finally:
            child.kill()
            child.wait()


def measured_live(nodes: int, pods: int) -> dict[str, Any]:
    """Measure with a real etcd and kube-apiserver, who have nothing else to do."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_control_plane(controlplane_binary(), Path(folder)) as plane,
    ):
        install_crds(plane)
        # They would find that the kubelets of these nodes never report.
        plane.controller_manager.stop()
        plane.scheduler.stop()
        # One of each through the API server, which completes them; the others after those.
        asyncio.run(fill(plane.access(), 1, 1))
        (node,), (pod,) = plane.read("nodes"), plane.read("pods", "-n", "default")
        plane.store(copies(node, pod, nodes=nodes, pods=pods))
        shown = "/api/v1/pods?limit=1"
        wait_for(
            "the API server has seen it all",
            lambda: plane.try_kubectl("get", "--raw", shown).returncode == 0,
            seconds=900,
        )
        if len(plane.read("nodes")) != nodes:
            raise DovetailError("the API server does not show what is in etcd")
        load = os.getloadavg()[0]
        # Whoever filled it has needed memory of its own.
        command = [sys.executable, "-m", "bench.kube", "--kubeconfig", str(plane.kubeconfig)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
        found: dict[str, Any] = json.loads(done.stdout)
        return {**found, "load": round(load, 1)}


def main(arguments: list[str] | None = None) -> int:
    """Do what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.kube", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--live", action="store_true", help="with a control plane of our own")
    parser.add_argument("--kubeconfig", help="measure against this cluster")
    parser.add_argument("--fill", action="store_true", help="create nodes and pods there first")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.serve:
        asyncio.run(serve(chosen.nodes, chosen.pods, Path(chosen.serve)))
        return 0
    if chosen.kubeconfig:
        access = _access(chosen.kubeconfig)
        if chosen.fill:
            asyncio.run(fill(access, chosen.nodes, chosen.pods))
        found = asyncio.run(measure(access))
    elif chosen.live:
        found = measured_live(chosen.nodes, chosen.pods)
    else:
        found = measured_alone(chosen.nodes, chosen.pods)
    print(json.dumps({**found, "nodes": chosen.nodes, "pods": chosen.pods}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
