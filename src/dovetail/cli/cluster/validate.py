"""``dovetail cluster validate``: see nodes come and go in a running cluster."""

import asyncio
import os
from datetime import timedelta

import click
import msgspec
from rich.text import Text

from dovetail.cli.cluster.options import lock_directory, read_config
from dovetail.cli.options.durations import Duration
from dovetail.cli.output.console import columns, write, write_lines, write_note
from dovetail.cli.signals import stop_on_signal
from dovetail.doctor.sources.kubernetes import open_connection
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.kubernetes.api import ApiAccess
from dovetail.eks.kubernetes.scale_validation import ScaleValidation, ValidationReport, ValidationSettings
from dovetail.eks.session import ClusterSession, run_in_session
from dovetail.errors import DovetailError
from dovetail.host.clock import SystemClock
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.kube.auth.kubeconfig import load_rest_config
from dovetail.kube.client import HttpKubeClient
from dovetail.model.kube.quantity import parse_amount
from dovetail.ports.kube_client import KubeClient

EXIT_FAILED = 2
EXIT_STOPPED = 130
_DEFAULTS = ValidationSettings()


class _CpuQuantity(click.ParamType[str]):
    """A CPU request: ``500m``, ``2``."""

    name = "quantity"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            amount = parse_amount("cpu", value)
        except ValueError:
            amount = 0
        if amount <= 0:
            self.fail(f"{value!r} is not a CPU quantity above 0; examples: 500m, 2.", param, ctx)
        return value


@click.command(
    epilog="Exit codes: 0 nodes came and went; 1 invalid input, or the cluster cannot be reached; 2 a step "
    "failed; 130 stopped by Ctrl-C."
)
@click.option("-f", "--filename", "file", metavar="PATH", help="The cluster.yaml; - for stdin.")
@click.option("--kubeconfig", metavar="FILE", help="Without -f: the kubeconfig. Default as for kubectl.")
@click.option("--context", default="", help="Without -f: context of the kubeconfig.")
@click.option("--namespace", "-n", default=_DEFAULTS.namespace, show_default=True)
@click.option("--replicas", type=click.IntRange(1, 1000), default=_DEFAULTS.replicas, show_default=True)
@click.option(
    "--cpu", type=_CpuQuantity(), default=_DEFAULTS.cpu, show_default=True, help="CPU request of each pod."
)
@click.option("--nodepool", default="", help="NodePool that must launch the nodes. Default: any.")
@click.option("--image", default=_DEFAULTS.image, show_default=True, help="Image of the pods.")
@click.option(
    "--timeout",
    type=Duration(),
    default="10m",
    show_default=True,
    help="Limit of each wait: for nodes to come, and to go.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def validate(
    ctx: click.Context,
    file: str | None,
    kubeconfig: str | None,
    context: str,
    namespace: str,
    replicas: int,
    cpu: str,
    nodepool: str,
    image: str,
    timeout: timedelta,
    output: str,
) -> None:
    """Create pods, see nodes come, delete the pods, and see the nodes go.

    Creates a Deployment inflate-validate and deletes it in any case. The nodes cost money while
    they run. Progress goes to stderr.
    """
    if file is not None and (kubeconfig is not None or context):
        raise click.UsageError("-f uses the cluster of the file; leave out --kubeconfig and --context")
    settings = ValidationSettings(
        namespace=namespace, replicas=replicas, cpu=cpu, image=image, node_pool=nodepool, timeout=timeout
    )
    if file is not None:
        report = _validate_file(file, settings)
    else:
        report = asyncio.run(_validate_context(kubeconfig, context, settings))
    if output == "json":
        write(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        write_lines(report_lines(report))
    ctx.exit(get_exit_code(report))


def _validate_file(file: str, settings: ValidationSettings) -> ValidationReport:
    config = read_config(file)

    async def work(session: ClusterSession) -> ValidationReport:
        return await _run(await connect(session.api_access, config, file), settings)

    return run_in_session(config, work, lock_directory=lock_directory())


async def connect(access: ApiAccess, config: ClusterConfig, file: str) -> KubeClient:
    """Return a client of the file's cluster; raises ``DovetailError`` if there is none."""
    connected = await access.connect()
    if connected is None:
        raise DovetailError(
            f"cluster {config.name} does not exist in {config.region}, or is not active yet; create it "
            f"with: dovetail cluster apply -f {file}"
        )
    return connected.client


async def _validate_context(
    kubeconfig: str | None, context: str, settings: ValidationSettings
) -> ValidationReport:
    access = load_rest_config(kubeconfig, environ=os.environ, clock=SystemClock(), context=context)
    connection = open_connection(access)
    try:
        return await _run(HttpKubeClient(connection), settings)
    finally:
        await connection.close()


async def _run(kube: KubeClient, settings: ValidationSettings) -> ValidationReport:
    async with stop_on_signal() as stop:
        validation = ScaleValidation(
            kube, AsyncioEventLoop(), settings, report=write_note, is_stopped=stop.is_set
        )
        return await validation.run()


def get_exit_code(report: ValidationReport) -> int:
    """Return the exit code of the command."""
    if report.interrupted:
        return EXIT_STOPPED
    return 0 if report.ok else EXIT_FAILED


def report_lines(report: ValidationReport) -> list[Text]:
    """Return the table of nodes, and the result as the last line."""
    lines: list[Text] = []
    if report.nodes:
        rows = [["NODE", "TYPE", "CAPACITY", "ZONE", "READY", "GONE"]]
        for node in report.nodes:
            gone = f"{node.removed_seconds:g}s" if node.removed_seconds is not None else "-"
            ready = f"{node.ready_seconds:g}s"
            rows.append([node.name, node.instance_type, node.capacity_type, node.zone, ready, gone])
        lines += [Text(line) for line in columns(rows, right=frozenset({4, 5}))]
        lines.append(Text(""))
    failed = [step for step in report.steps if not step.ok]
    if report.ok:
        seconds = sum(step.seconds for step in report.steps)
        lines.append(Text(f"valid: nodes came and went in {seconds:.0f} s", style="bold green"))
    elif report.interrupted:
        lines.append(Text("interrupted", style="bold yellow"))
    for step in failed if not report.interrupted else ():
        lines.append(Text(f"failed: {step.name}: {step.message}", style="bold red"))
    return lines
