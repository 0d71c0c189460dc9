"""``dovetail sandbox``: a simulated cluster in one process, for kubectl."""

import asyncio
import os
import re
import secrets
import socket
import stat
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from dovetail.cli.dashboard.serving import serving, simulation_source
from dovetail.cli.files import attempt, read_bytes
from dovetail.cli.options.burstable import burstable_option
from dovetail.cli.options.catalog import prices_in
from dovetail.cli.options.dashboard_port import PORT
from dovetail.cli.options.discounts import DISCOUNTS_HELP, discounts_in
from dovetail.cli.options.feature_gates import GATES_HELP, strict_gates
from dovetail.cli.options.node_cost import node_cost_options
from dovetail.cli.output.console import progress, write, write_note
from dovetail.cli.signals import stop_event
from dovetail.data.bundled import bundled_catalog, bundled_sandbox_scenario
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.host.clock import SystemClock
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.cloud.discounts import DiscountBook
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.settings import FeatureGates, SchedulingSettings
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.rest.sandbox import CONTROLLER_NAMESPACE, Sandbox, SandboxEndpoint
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import Scenario

KUBECONFIG = "dovetail-sandbox.kubeconfig"
_FILE_HEADER = "# Written by `dovetail sandbox`, and removed when it ends.\n"
"""First line of the kubeconfig: a file with it may be overwritten."""


class SandboxOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Command-line options."""

    port: int
    speed: float
    file: str
    prices: str | None
    discounts: str | None
    scenario: str | None
    burstable: str
    node_cost: float | None
    fewer_nodes_tolerance: float
    feature_gates: FeatureGates
    dashboard: bool
    dashboard_port: int


@click.command(epilog="Exit codes: 0 stopped by Ctrl-C or SIGTERM; 1 bad input.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. Default: a free one."
)
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 1000),
    default=1.0,
    show_default=True,
    metavar="N",
    help="Virtual seconds per real second.",
)
@click.option(
    "--kubeconfig",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    default=KUBECONFIG,
    show_default=True,
    help="Kubeconfig to write; removed at the end.",
)
@click.option("--prices", metavar="FILE", type=click.Path(), help="A price book in CSV.")
@click.option("--discounts", metavar="FILE", type=click.Path(), help=DISCOUNTS_HELP)
@click.option(
    "--scenario",
    metavar="FILE",
    type=click.Path(),
    help="Scenario of the cluster to start with; its phases, if any, are run.",
)
@burstable_option
@node_cost_options
@click.option("--feature-gates", default="", callback=strict_gates, metavar="GATE=BOOL,...", help=GATES_HELP)
@click.option("--dashboard", is_flag=True, help="Serve a live view to the browser, too.")
@click.option("--dashboard-port", type=PORT, default=0, help="Port of --dashboard. Default: a free one.")
def sandbox(**arguments: Any) -> None:
    """Run a simulated cluster with Dovetail in this process, for kubectl.

    It needs neither a cloud nor Docker. The API server, kube-scheduler, kubelets, workload
    controllers and EC2 are simulated. The controllers that launch and terminate nodes are the
    production ones.
    """
    options = SandboxOptions(**arguments)
    kubeconfig_file = Path(options.file)
    _check_overwritable(kubeconfig_file)
    scenario, prices, discounts = _read_inputs(options)
    clock = SystemClock()
    with progress("Building the cluster"):
        # Begins before the real time, as the node group takes time to join, but never
        # runs ahead of it: kubectl computes some ages by its own clock.
        start = clock.now() - 2 * scenario.kubelet.node_ready
        cluster = SimulatedCluster(
            scenario,
            catalog=bundled_catalog(),
            prices=prices,
            start=start,
            discounts=discounts,
            burstable=BurstablePolicy(options.burstable),
            gates=options.feature_gates,
            namespace=CONTROLLER_NAMESPACE,
            settings=SchedulingSettings(
                reserved_capacity=options.feature_gates.ReservedCapacity,
                node_cost=options.node_cost,
                fewer_nodes_tolerance=options.fewer_nodes_tolerance,
            ),
        )
    # A new token in each run: it is the only protection of the cluster.
    token = secrets.token_urlsafe(32)
    served = Sandbox(cluster, token=token, clock=clock.seconds, scenario=scenario, speed=options.speed)
    try:
        asyncio.run(_serve(served, cluster, options, prices.describe(scenario.region)))
    finally:
        _remove_kubeconfig(kubeconfig_file, token)
    write_note("stopped; nothing is left behind")


def _read_inputs(options: SandboxOptions) -> tuple[Scenario, PriceBook, DiscountBook]:
    """Read all files; raises InvalidInputError with the errors of all."""
    errors: list[ValidationError] = []
    scenario = attempt(errors, lambda: _read_scenario(options.scenario))
    prices = attempt(errors, lambda: prices_in(options.prices, bundled_catalog()))
    discounts = attempt(errors, lambda: discounts_in(options.discounts))
    if scenario is None or prices is None or discounts is None:
        raise InvalidInputError(errors)
    return scenario, prices, discounts


def _read_scenario(file: str | None) -> Scenario:
    if file is None:
        return read_scenario("bundled sandbox.yaml", bundled_sandbox_scenario())
    return read_scenario(file, read_bytes(file), catalog=bundled_catalog())


def _check_overwritable(file: Path) -> None:
    """Raise if the file exists and is not a sandbox's, such as the user's kubeconfig."""
    if not file.exists():
        return
    try:
        is_overwritable = file.read_text(errors="replace").startswith(_FILE_HEADER)
    except OSError as error:
        raise _kubeconfig_error(file, f"cannot be read: {error.strerror}") from None
    if not is_overwritable:
        raise _kubeconfig_error(file, "exists and was not written by `dovetail sandbox`; name another file")
    if _is_served(file):
        raise _kubeconfig_error(file, "belongs to a sandbox that is running; stop it, or name another file")


def _is_served(file: Path) -> bool:
    """Return if the server of a sandbox's kubeconfig is still there; killed ones leave the file."""
    server = re.search(r"server: https://127\.0\.0\.1:(\d+)", file.read_text(errors="replace"))
    if server is None:
        return False
    try:
        socket.create_connection(("127.0.0.1", int(server[1])), timeout=1).close()
    except OSError:
        return False
    return True


def _remove_kubeconfig(file: Path, token: str) -> None:
    """Remove the file unless another sandbox has written its own since."""
    with suppress(OSError):
        if token in file.read_text(errors="replace"):
            file.unlink()


def _kubeconfig_error(file: Path, message: str) -> InvalidInputError:
    return InvalidInputError([ValidationError(f"--kubeconfig: {file}", 0, "", message)])


async def _serve(served: Sandbox, cluster: SimulatedCluster, options: SandboxOptions, prices: str) -> None:
    async with AsyncExitStack() as stack:
        dashboard_url = ""
        if options.dashboard:
            source = await stack.enter_async_context(
                simulation_source(cluster, name="sandbox", prices=prices)
            )
            served_dashboard = await stack.enter_async_context(serving(source, options.dashboard_port))
            dashboard_url = served_dashboard.url

        def ready(endpoint: SandboxEndpoint) -> None:
            kubeconfig_file = Path(options.file)
            _write_kubeconfig(kubeconfig_file, endpoint)
            write(_usage(endpoint, kubeconfig_file, options.speed, dashboard_url))

        try:
            await served.run(port=options.port, ready=ready, stop=stop_event())
        except OSError as error:
            raise DovetailError(f"port {options.port} cannot be used: {error.strerror or error}") from error


def _write_kubeconfig(target: Path, endpoint: SandboxEndpoint) -> None:
    """Write the kubeconfig atomically, readable only by its owner.

    It has the token. Scripts wait for the file and then use it at once.
    """
    part = target.with_name(f"{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
        with os.fdopen(descriptor, "w") as file:
            file.write(_FILE_HEADER + yaml.safe_dump(endpoint.kubeconfig, sort_keys=False))
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise _kubeconfig_error(target, f"cannot be written: {error.strerror}") from None


def _usage(endpoint: SandboxEndpoint, kubeconfig_file: Path, speed: float, dashboard_url: str) -> str:
    speed_note = "" if speed == 1 else f", at {speed:g} virtual seconds per second"
    dashboard_note = f"The dashboard is at {dashboard_url}\n\n" if dashboard_url else ""
    return f"""\
{dashboard_note}A cluster runs at {endpoint.url}{speed_note}. In another terminal:

  export KUBECONFIG={kubeconfig_file.resolve()}
  kubectl get nodes,nodepools
  kubectl create deployment inflate --image=pause --replicas=0
  kubectl set resources deployment inflate --requests=cpu=1
  kubectl scale deployment inflate --replicas=10
  kubectl get nodeclaims,nodes,pods -o wide
  kubectl logs -n karpenter -l karpenter=controller
  kubectl scale deployment inflate --replicas=0     # 30 s later the nodes are terminated

Ctrl-C ends it and leaves nothing behind."""
