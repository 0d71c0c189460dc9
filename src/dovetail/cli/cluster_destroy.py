"""``dovetail cluster destroy``: back to nothing, and proof of it."""

import click
from rich.text import Text

from dovetail.cli.cluster_lines import plan_lines
from dovetail.cli.cluster_options import FILE, YES, asked, spec_of
from dovetail.cli.cluster_progress import stoppable, told
from dovetail.cli.output import progress, say, write_lines
from dovetail.errors import DovetailError
from dovetail.infra.destroying import destroy as take_away
from dovetail.infra.destroying import proof, removal
from dovetail.infra.executing import StepFailed
from dovetail.infra.site import Site
from dovetail.infra.spec.cluster import ClusterSpec
from dovetail.infra.visiting import visit

EXIT_LEFT = 2
EXIT_STOPPED = 130


@click.command(
    epilog="Exit codes: 0 nothing is left; 1 bad input, or a step failed; 2 something is left; "
    "130 stopped by Ctrl-C. After 1 and 130 the same command goes on where this one ended."
)
@FILE
@YES
@click.pass_context
def destroy(ctx: click.Context, file: str, yes: bool) -> None:
    """Take a cluster away, with everything that was made for it, and show that nothing is left.

    NodePools go first, and with them their claims and instances; then charts; then everything
    below, last made first. What was there before (a VPC, a cluster, a role) stays.
    """
    spec = spec_of(file)

    async def work(site: Site) -> int:
        return await _destroyed(site, file, yes)

    ctx.exit(visit(spec, work, may_write=True))


async def _destroyed(site: Site, file: str, yes: bool) -> int:
    spec = site.spec
    found, observed = await removal(site)
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
        whole = len(run.done) + len(run.left)
        say(f"stopped after {len(run.done)} of {whole} steps; go on with: {again}")
        return EXIT_STOPPED
    with progress("looking for what is left"):
        left = await proof(site)
    if left:
        lines = [Text("left behind:", style="bold red"), *(Text(f"  {one}") for one in left)]
        write_lines(lines)
        return EXIT_LEFT
    told_all = (
        "nothing is left: no instance, network interface, volume, launch template, instance "
        "profile, queue, rule, log group or finalizer"
    )
    write_lines([Text(told_all, style="bold green")])
    return 0


def _confirm(spec: ClusterSpec) -> None:
    name = asked(f"This cannot be taken back. Type the cluster's name ({spec.name}) to go on")
    if name != spec.name:
        raise DovetailError(f"{name!r} is not the cluster's name; nothing is changed")
