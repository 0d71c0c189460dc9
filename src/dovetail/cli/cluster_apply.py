"""``dovetail cluster apply``: from what is there to what a file says."""

import os
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from dovetail.cli.cluster_lines import missing_lines, plan_lines
from dovetail.cli.cluster_options import FILE, YES, asked, spec_of
from dovetail.cli.cluster_progress import stoppable, told
from dovetail.cli.output import say, write_lines
from dovetail.errors import DovetailError
from dovetail.infra.desired import outputs
from dovetail.infra.executing import DryExecutor, Run, StepFailed, carry_out
from dovetail.infra.helm import lacking
from dovetail.infra.kubefile import kubeconfig_with_aws, merge_into
from dovetail.infra.planning import Plan
from dovetail.infra.references import resolved
from dovetail.infra.resources import Observed
from dovetail.infra.site import Site
from dovetail.infra.spec.cluster import ClusterSpec
from dovetail.infra.visiting import visit

EXIT_STOPPED = 130


@click.command(
    epilog="Exit codes: 0 done; 1 bad input, or a step failed; 130 stopped by Ctrl-C. "
    "After 1 and 130 the same command goes on where this one ended."
)
@FILE
@YES
@click.option("--dry-run", is_flag=True, help="Say each step, in order, and do none.")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file that gets a context for the cluster.  [default: $KUBECONFIG, ~/.kube/config]",
)
@click.pass_context
def apply(ctx: click.Context, file: str, yes: bool, dry_run: bool, kubeconfig: Path | None) -> None:
    """Make a cluster what its file says: in one run, and in as few writes as it takes.

    There is no state file. Every run looks at what is there first, so a run that was stopped, or
    that failed, is simply repeated.
    """
    spec = spec_of(file)
    where = kubeconfig or _usual_kubeconfig()

    async def work(site: Site) -> int:
        found, observed = await site.settled_plan(say)
        write_lines(plan_lines(found, name=spec.name, where=spec.region))
        problems = [*missing_lines(found.missing), *_lacking_charts(found)]
        if problems:
            raise DovetailError("; ".join(problems))
        if dry_run:
            await carry_out(found, DryExecutor(say), at_once=1)
            return 0
        if found.steps and not yes:
            _confirm(found)
        return await _applied(site, found, observed, file, where)

    ctx.exit(visit(spec, work, may_write=not dry_run))


async def _applied(site: Site, found: Plan, observed: Observed, file: str, kubeconfig: Path) -> int:
    executor = site.executor(observed)
    again = f"dovetail cluster apply -f {file}"
    async with stoppable() as stop:
        with told(found.steps) as teller:
            try:
                run = await carry_out(found, executor, stop=stop, teller=teller)
            except StepFailed as error:
                raise DovetailError(f"{error}; what is done stays: go on with {again}") from error
    if run.left:
        _say_stopped(run, again)
        return EXIT_STOPPED
    api = await site.door.where()
    if api is not None:
        spec = site.spec
        context = kubeconfig_with_aws(
            spec.name, region=spec.region, endpoint=api.endpoint, authority=api.authority
        )
        merge_into(kubeconfig, context)
        say(f"wrote context {spec.name} to {kubeconfig}")
    known = {name: resolved(one, executor.look_up) for name, one in outputs(site.spec).items()}
    write_lines(_ending(site.spec, known))
    return 0


def _lacking_charts(found: Plan) -> list[str]:
    releases = [one.wanted for one in found.steps if one.kind == "helm-release" and one.wanted]
    return lacking(str(one.properties["chart"]) for one in releases) if releases else []


def _confirm(found: Plan) -> None:
    replaced = found.replaced()
    if replaced:
        say(f"replaced, and with it what it holds: {', '.join(replaced)}")
    if asked("Apply? Only 'yes' is taken") != "yes":
        raise click.Abort


def _say_stopped(run: Run, again: str) -> None:
    whole = len(run.done) + len(run.left)
    say(f"stopped after {len(run.done)} of {whole} steps; go on with: {again}")


def _ending(spec: ClusterSpec, known: dict[str, Any]) -> list[Text]:
    lines = [Text(f"{spec.name} is as its file says", style="bold green"), Text("")]
    width = max(map(len, known))
    lines += [Text(f"{name.ljust(width)}  {value}") for name, value in known.items()]
    lines += [
        Text(""),
        Text("next:", style="bold"),
        Text("  kubectl get nodepools,nodeclaims"),
        Text("  kubectl get nodes --watch"),
    ]
    return lines


def _usual_kubeconfig() -> Path:
    named = [one for one in os.environ.get("KUBECONFIG", "").split(":") if one]
    return Path(named[0]) if named else Path.home() / ".kube" / "config"
