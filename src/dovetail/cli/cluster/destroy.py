"""``dovetail cluster destroy``: back to nothing, and proof of it."""

import json
from collections.abc import Sequence
from pathlib import Path

import click
from rich.text import Text

from dovetail.cli.cluster.options import FILE, KUBECONFIG, OUTPUT, YES, asked, spec_of
from dovetail.cli.cluster.plan_output import plan_lines
from dovetail.cli.cluster.progress import stoppable, told
from dovetail.cli.output.console import progress, say, write, write_lines
from dovetail.eks.apply.executor import Run, StepFailed
from dovetail.eks.command_session import visit
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.destroy.destroy import destroy as take_away
from dovetail.eks.destroy.destroy import proof, removal
from dovetail.eks.destroy.leftovers import Left
from dovetail.eks.kubernetes.kubeconfig import take_out_of
from dovetail.eks.session import Site
from dovetail.errors import DovetailError

_NOTHING = (
    "nothing is left: no instance, network interface, volume, launch template, instance "
    "profile, queue, rule, log group or finalizer"
)
EXIT_LEFT = 2
EXIT_STOPPED = 130


@click.command(
    epilog="Exit codes: 0 nothing is left; 1 bad input, or a step failed; 2 something is left; "
    "130 stopped by Ctrl-C. After 1 and 130 the same command goes on where this one ended."
)
@FILE
@YES
@OUTPUT
@KUBECONFIG
@click.pass_context
def destroy(ctx: click.Context, file: str, yes: bool, output: str, kubeconfig: Path) -> None:
    """Take a cluster away, with everything that was made for it, and show that nothing is left.

    NodePools go first, and with them their claims and instances; then charts; then everything
    below, last made first. What was there before (a VPC, a cluster, a role) stays.
    """
    spec = spec_of(file)

    async def work(site: Site) -> int:
        code = await _destroyed(site, file, yes, output)
        # A cluster that was there before is still there, and whoever uses it needs its context.
        if code == 0 and spec.home.kind != "existing":
            _forget_context(spec, kubeconfig)
        return code

    ctx.exit(visit(spec, work, may_write=True))


async def _destroyed(site: Site, file: str, yes: bool, output: str) -> int:
    spec = site.spec
    found, observed = await removal(site)
    if output == "text":
        write_lines(plan_lines(found, name=spec.name, where=spec.region))
    if found.steps and not yes:
        _confirm(spec)
    again = f"dovetail cluster destroy -f {file}"
    async with stoppable() as stop:
        with told(found.steps) as teller:
            try:
                run = await take_away(site, found, observed, stop=stop, teller=teller, tell=say)
            except StepFailed as error:
                raise DovetailError(f"{error}; go on with {again}") from error
    if run.left:
        say(f"stopped after {len(run.done)} of {len(found.steps)} steps; go on with: {again}")
        _tell(spec, run, [], output)
        return EXIT_STOPPED
    with progress("looking for what is left"):
        left = await proof(site)
    _tell(spec, run, left, output)
    return EXIT_LEFT if left else 0


def _forget_context(spec: ClusterSpec, kubeconfig: Path) -> None:
    try:
        if take_out_of(kubeconfig, spec.name, region=spec.region):
            say(f"removed context {spec.name} from {kubeconfig}")
    except DovetailError as error:
        say(f"context {spec.name} stays: {error}")


def _tell(spec: ClusterSpec, run: Run, left: Sequence[Left], output: str) -> None:
    if output == "json":
        whole = {
            "cluster": spec.name,
            "region": spec.region,
            "removed": [one.address for one in run.done],
            "notYet": [one.address for one in run.left],
            "leftBehind": [{"what": one.what, "name": one.name, "why": one.why} for one in left],
        }
        write(json.dumps(whole, indent=2, ensure_ascii=False))
    elif left:
        write_lines([Text("left behind:", style="bold red"), *(Text(f"  {one}") for one in left)])
    elif not run.left:
        write_lines([Text(_NOTHING, style="bold green")])


def _confirm(spec: ClusterSpec) -> None:
    name = asked(f"This cannot be taken back. Type the cluster's name ({spec.name}) to go on")
    if name != spec.name:
        raise DovetailError(f"{name!r} is not the cluster's name; nothing is changed")
