"""``dovetail cluster apply``: from what is there to what a file says."""

import json
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from dovetail.cli.cluster.options import FILE, KUBECONFIG, OUTPUT, YES, asked, spec_of
from dovetail.cli.cluster.plan_output import missing_lines, plan_json, plan_lines
from dovetail.cli.cluster.progress import stoppable, told
from dovetail.cli.output.console import say, write, write_lines
from dovetail.eks.apply.executor import DryExecutor, RealExecutor, Run, StepFailed, carry_out
from dovetail.eks.command_session import visit
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.desired.desired_state import outputs
from dovetail.eks.kubernetes.helm import lacking
from dovetail.eks.kubernetes.kubeconfig import kubeconfig_with_aws, merge_into
from dovetail.eks.plan.planner import Plan
from dovetail.eks.plan.references import resolved
from dovetail.eks.session import Site
from dovetail.errors import DovetailError

EXIT_STOPPED = 130


@click.command(
    epilog="Exit codes: 0 done; 1 bad input, or a step failed; 130 stopped by Ctrl-C. "
    "After 1 and 130 the same command goes on where this one ended."
)
@FILE
@YES
@OUTPUT
@click.option("--dry-run", is_flag=True, help="Say each step, in order, and do none.")
@KUBECONFIG
@click.pass_context
def apply(
    ctx: click.Context,
    file: str,
    yes: bool,
    output: str,
    dry_run: bool,
    kubeconfig: Path,
) -> None:
    """Make a cluster what its file says: in one run, and in as few writes as it takes.

    There is no state file. Every run looks at what is there first, so a run that was stopped, or
    that failed, is simply repeated.
    """
    spec = spec_of(file)

    async def work(site: Site) -> int:
        found, observed = await site.settled_plan(say)
        if output == "text":
            write_lines(plan_lines(found, name=spec.name, where=spec.region))
        problems = [*missing_lines(found.missing), *_lacking_charts(found)]
        if problems:
            raise DovetailError("; ".join(problems))
        if dry_run:
            await carry_out(found, DryExecutor(say), at_once=1)
            if output == "json":
                write(plan_json(found, name=spec.name, where=spec.region))
            return 0
        if found.steps and not yes:
            _confirm(found)
        executor = site.executor(observed)
        run = await _carried_out(found, executor, f"dovetail cluster apply -f {file}")
        known: dict[str, Any] = {}
        if not run.left:
            await _write_kubeconfig(site, kubeconfig)
            known = {name: resolved(one, executor.look_up) for name, one in outputs(spec).items()}
        _tell(spec, run, known, output)
        return EXIT_STOPPED if run.left else 0

    ctx.exit(visit(spec, work, may_write=not dry_run))


async def _carried_out(found: Plan, executor: RealExecutor, again: str) -> Run:
    async with stoppable() as stop:
        with told(found.steps) as teller:
            try:
                run = await carry_out(found, executor, stop=stop, teller=teller)
            except StepFailed as error:
                raise DovetailError(f"{error}; what is done stays: go on with {again}") from error
    if run.left:
        say(f"stopped after {len(run.done)} of {len(found.steps)} steps; go on with: {again}")
    return run


async def _write_kubeconfig(site: Site, where: Path) -> None:
    api, spec = await site.door.where(), site.spec
    if api is not None:
        context = kubeconfig_with_aws(
            spec.name, region=spec.region, endpoint=api.endpoint, authority=api.authority
        )
        merge_into(where, context)
        say(f"wrote context {spec.name} to {where}")


def _tell(spec: ClusterSpec, run: Run, known: dict[str, Any], output: str) -> None:
    if output == "json":
        whole = {
            "cluster": spec.name,
            "region": spec.region,
            "done": [one.id for one in run.done],
            "left": [one.id for one in run.left],
            "outputs": known,
        }
        write(json.dumps(whole, indent=2, ensure_ascii=False))
    elif not run.left:
        write_lines(_ending(spec, known))


def _lacking_charts(found: Plan) -> list[str]:
    releases = [one.wanted for one in found.steps if one.kind == "helm-release" and one.wanted]
    return lacking(str(one.properties["chart"]) for one in releases) if releases else []


def _confirm(found: Plan) -> None:
    replaced = found.replaced()
    if replaced:
        say(f"replaced, and with it what it holds: {', '.join(replaced)}")
    if asked("Apply? Only 'yes' is taken") != "yes":
        raise click.Abort


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
