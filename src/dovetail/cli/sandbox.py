"""``dovetail sandbox``: a whole cluster in one process, for kubectl."""

import asyncio
import os
import secrets
import signal
import stat
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from dovetail.cli.files import attempt, read_bytes
from dovetail.cli.options.catalog import prices_in
from dovetail.cli.options.discounts import DISCOUNTS_HELP, discounts_in
from dovetail.cli.options.feature_gates import GATES_HELP, strict_gates
from dovetail.cli.output.console import progress, say, write
from dovetail.data.bundled import bundled_catalog
from dovetail.data.bundled import sandbox as usual_sandbox
from dovetail.errors import BadInput, DovetailError, Mistake
from dovetail.host.clock import RealClock
from dovetail.model.cloud.discounts import DiscountBook
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.settings import Gates, SchedulingSettings
from dovetail.simulator.cluster import Box
from dovetail.simulator.rest.sandbox import Sandbox, Served
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import Scenario

KUBECONFIG = "dovetail-sandbox.kubeconfig"
_OURS = "# Written by `dovetail sandbox`, and removed when it ends.\n"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The command line, option by option."""

    port: int
    speed: float
    file: str
    prices: str | None
    discounts: str | None
    scenario: str | None
    feature_gates: Gates


@click.command(epilog="Exit codes: 0 stopped by Ctrl-C or SIGTERM; 1 bad input.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="On 127.0.0.1. Default: a free one."
)
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 1000),
    default=1.0,
    show_default=True,
    metavar="N",
    help="Virtual seconds that pass in a real one.",
)
@click.option(
    "--kubeconfig",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    default=KUBECONFIG,
    show_default=True,
    help="Where to write how kubectl gets in; removed at the end.",
)
@click.option("--prices", metavar="FILE", type=click.Path(), help="A price book in CSV.")
@click.option("--discounts", metavar="FILE", type=click.Path(), help=DISCOUNTS_HELP)
@click.option(
    "--scenario",
    metavar="FILE",
    type=click.Path(),
    help="Another cluster to start with; its phases are played if it has any.",
)
@click.option(
    "--feature-gates",
    default="",
    callback=strict_gates,
    metavar="GATE=BOOL,...",
    help=GATES_HELP,
)
def sandbox(**given: Any) -> None:
    """Run a cluster with Dovetail in this process: no cloud, no Docker, real kubectl.

    The API server, kube-scheduler, kubelets, workload controllers and EC2 are simulated; the
    controllers that buy nodes and give them back are the production ones.
    """
    asked = Asked(**given)
    target = Path(asked.file)
    _check_free(target)
    chosen, book, agreed = _read(asked)
    clock = RealClock()
    with progress("Building the cluster"):
        # From the real time on: kubectl counts some ages by its own clock.
        box = Box(
            chosen,
            catalog=bundled_catalog(),
            prices=book,
            start=clock.now(),
            discounts=agreed,
            gates=asked.feature_gates,
            settings=SchedulingSettings(reserved_capacity=asked.feature_gates.ReservedCapacity),
        )
    # A token of its own each time; whoever can read the file may use the cluster.
    served = Sandbox(
        box,
        token=secrets.token_urlsafe(32),
        clock=clock.seconds,
        scenario=chosen,
        speed=asked.speed,
    )
    try:
        asyncio.run(_serve(served, asked.port, target, asked.speed))
    finally:
        target.unlink(missing_ok=True)
    say("stopped; nothing is left behind")


def _read(asked: Asked) -> tuple[Scenario, PriceBook, DiscountBook]:
    """Read all files; raises with the mistakes of all."""
    mistakes: list[Mistake] = []
    chosen = attempt(mistakes, lambda: _scenario(asked.scenario))
    book = attempt(mistakes, lambda: prices_in(asked.prices, bundled_catalog()))
    agreed = attempt(mistakes, lambda: discounts_in(asked.discounts))
    if chosen is None or book is None or agreed is None:
        raise BadInput(mistakes)
    return chosen, book, agreed


def _scenario(file: str | None) -> Scenario:
    if file is None:
        return read_scenario("bundled sandbox.yaml", usual_sandbox())
    return read_scenario(file, read_bytes(file), catalog=bundled_catalog())


def _check_free(target: Path) -> None:
    """Refuse to overwrite a file that is not ours, such as somebody's kubeconfig."""
    if not target.exists():
        return
    try:
        ours = target.read_text(errors="replace").startswith(_OURS)
    except OSError as error:
        raise _bad_target(target, f"cannot be read: {error.strerror}") from None
    if not ours:
        raise _bad_target(target, "is there and is not ours; name another file")


def _bad_target(target: Path, why: str) -> BadInput:
    return BadInput([Mistake(f"--kubeconfig: {target}", 0, "", why)])


async def _serve(served: Sandbox, port: int, target: Path, speed: float) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def ready(where: Served) -> None:
        _write_config(target, where)
        write(_welcome(where, target, speed))

    try:
        await served.run(port=port, ready=ready, stop=stop)
    except OSError as error:
        raise DovetailError(f"port {port} cannot be used: {error.strerror or error}") from error


def _write_config(target: Path, where: Served) -> None:
    """Write the kubeconfig so that nobody else can read the token in it.

    It is there whole or not at all: scripts wait for it, and then use it.
    """
    part = target.with_name(f"{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
        with os.fdopen(number, "w") as file:
            file.write(_OURS + yaml.safe_dump(where.kubeconfig, sort_keys=False))
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise _bad_target(target, f"cannot be written: {error.strerror}") from None


def _welcome(where: Served, target: Path, speed: float) -> str:
    pace = "" if speed == 1 else f", {speed:g} virtual seconds a second"
    return f"""\
A cluster runs at {where.url}{pace}. In another terminal:

  export KUBECONFIG={target.resolve()}
  kubectl get nodes,nodepools
  kubectl create deployment inflate --image=pause --replicas=0
  kubectl set resources deployment inflate --requests=cpu=1
  kubectl scale deployment inflate --replicas=10
  kubectl get nodeclaims,nodes,pods -o wide
  kubectl logs -n karpenter -l karpenter=controller
  kubectl scale deployment inflate --replicas=0     # and 30 s later the nodes go

Ctrl-C ends it and leaves nothing behind."""
