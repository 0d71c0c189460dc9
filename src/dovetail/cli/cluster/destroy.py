"""``dovetail cluster destroy``: delete a cluster, and verify that nothing is left."""

import json
from collections.abc import Sequence
from pathlib import Path

import click
from rich.text import Text

from dovetail.cli.cluster.options import FILE, KUBECONFIG, OUTPUT, YES, lock_directory, prompt, read_config
from dovetail.cli.cluster.plan_output import plan_lines
from dovetail.cli.cluster.progress import show_progress
from dovetail.cli.output.console import progress, write, write_lines, write_note
from dovetail.cli.signals import stop_on_signal
from dovetail.eks.apply.executor import ExecutionResult, StepError
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.destroy.destroy import destroy_cluster, find_leftovers, plan_destroy
from dovetail.eks.destroy.leftovers import Leftover
from dovetail.eks.kubernetes.kubeconfig import ClusterArn, remove_context
from dovetail.eks.session import ClusterSession, run_in_session
from dovetail.errors import DovetailError

_NOTHING_LEFT = (
    "nothing is left: no instance, network interface, volume, launch template, instance "
    "profile, queue, rule, log group or finalizer"
)
EXIT_LEFTOVERS = 2
EXIT_STOPPED = 130


@click.command(
    epilog="Exit codes: 0 nothing is left; 1 invalid input, or a step failed; 2 something is left; "
    "130 stopped by Ctrl-C. After 1 and 130, run the same command again to continue."
)
@FILE
@YES
@OUTPUT
@KUBECONFIG
@click.pass_context
def destroy(ctx: click.Context, file: str, yes: bool, output: str, kubeconfig: Path) -> None:
    """Delete a cluster with all its resources, and verify that nothing is left.

    NodePools are deleted first, with their NodeClaims and instances; then charts; then AWS
    resources, dependents first. Existing resources (a VPC, a cluster, a role) are kept.
    """
    config = read_config(file)

    async def work(session: ClusterSession) -> int:
        code = await _destroy(session, file, yes, output)
        # An existing cluster is kept, and so is its context.
        if code == 0 and config.home.kind != "existing":
            _remove_context(ClusterArn.of(session.aws.account, config.name), kubeconfig)
        return code

    ctx.exit(run_in_session(config, work, lock_directory=lock_directory()))


async def _destroy(session: ClusterSession, file: str, yes: bool, output: str) -> int:
    config = session.config
    plan, observed = await plan_destroy(session)
    if output == "text":
        write_lines(plan_lines(plan, name=config.name, region=config.region))
    if plan.steps and not yes:
        _confirm(config)
    command = f"dovetail cluster destroy -f {file}"
    async with stop_on_signal() as stop:
        with show_progress(plan.steps) as listener:
            try:
                result = await destroy_cluster(
                    session, plan, observed, stop=stop, listener=listener, report=write_note
                )
            except StepError as error:
                raise DovetailError(f"{error}; continue with {command}") from error
    if result.remaining:
        done, total = len(result.done), len(plan.steps)
        write_note(f"stopped after {done} of {total} steps; continue with: {command}")
        _print_result(config, result, [], output)
        return EXIT_STOPPED
    with progress("looking for leftovers"):
        leftovers = await find_leftovers(session)
    _print_result(config, result, leftovers, output)
    return EXIT_LEFTOVERS if leftovers else 0


def _remove_context(cluster: ClusterArn, kubeconfig: Path) -> None:
    try:
        for name in remove_context(kubeconfig, cluster):
            write_note(f"removed context {name} from {kubeconfig}")
    except DovetailError as error:
        write_note(f"context {cluster.arn} is kept: {error}")


def _print_result(
    config: ClusterConfig, result: ExecutionResult, leftovers: Sequence[Leftover], output: str
) -> None:
    if output == "json":
        document = {
            "cluster": config.name,
            "region": config.region,
            "removed": [step.address for step in result.done],
            "notYet": [step.address for step in result.remaining],
            "leftBehind": [
                {"what": leftover.kind, "name": leftover.name, "why": leftover.reason}
                for leftover in leftovers
            ],
        }
        write(json.dumps(document, indent=2, ensure_ascii=False))
    elif leftovers:
        lines = [Text(f"  {leftover}") for leftover in leftovers]
        write_lines([Text("left behind:", style="bold red"), *lines])
    elif not result.remaining:
        write_lines([Text(_NOTHING_LEFT, style="bold green")])


def _confirm(config: ClusterConfig) -> None:
    name = prompt(f"This cannot be undone. Type the cluster's name ({config.name}) to continue")
    if name != config.name:
        raise DovetailError(f"{name!r} is not the cluster's name; nothing was changed")
