"""``dovetail cluster apply``: create or update a cluster."""

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from dovetail.cli.cluster.options import (
    FILE_OR_PLAN,
    KUBECONFIG,
    OUTPUT,
    YES,
    lock_directory,
    prompt,
    read_source,
)
from dovetail.cli.cluster.plan_output import missing_lines, plan_json, plan_lines
from dovetail.cli.cluster.progress import show_progress
from dovetail.cli.files import STDIN, read_bytes
from dovetail.cli.output.console import write, write_lines, write_note
from dovetail.cli.signals import stop_on_signal
from dovetail.eks.apply.executor import (
    DryRunExecutor,
    ExecutionResult,
    HandlerExecutor,
    StepError,
    execute_plan,
)
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.desired.desired_state import outputs
from dovetail.eks.kubernetes.helm import missing_prerequisites
from dovetail.eks.kubernetes.kubeconfig import ClusterArn, kubeconfig_with_aws_cli, merge_context
from dovetail.eks.plan.planner import Plan
from dovetail.eks.plan.references import resolve_references
from dovetail.eks.plan.resource import ObservedState
from dovetail.eks.plan.saved_plan import SavedPlan, check_account, check_file, check_steps, read_plan
from dovetail.eks.session import ClusterSession, run_in_session
from dovetail.errors import DovetailError

EXIT_STOPPED = 130


@click.command(
    epilog="Exit codes: 0 done; 1 invalid input, or a step failed; 130 stopped by Ctrl-C. "
    "After 1 and 130, run the same command again to continue."
)
@click.argument("saved", metavar="[PLAN]", required=False)
@FILE_OR_PLAN
@YES
@OUTPUT
@click.option("--dry-run", is_flag=True, help="Print the steps in order, and execute none.")
@KUBECONFIG
@click.pass_context
def apply(
    ctx: click.Context,
    saved: str | None,
    file: str | None,
    yes: bool,
    output: str,
    dry_run: bool,
    kubeconfig: Path,
) -> None:
    """Create or update a cluster so that it matches its file.

    There is no state file. Every run reads the account first, so a run that was stopped or that
    failed can be repeated.

    With PLAN, a file of `plan --out`, only its steps are executed. If something changed since, so
    that other steps were necessary, nothing is done.
    """
    saved_plan = read_plan(saved, read_bytes(saved)) if saved is not None else None
    file = _config_file(file, saved_plan)
    config, content = read_source(file)
    if saved_plan is not None:
        check_file(saved_plan, file=file, content=content)
    command = f"dovetail cluster apply {saved or f'-f {file}'}"

    async def work(session: ClusterSession) -> int:
        plan, observed = await _plan(session, saved_plan, content)
        if output == "text":
            write_lines(plan_lines(plan, name=config.name, region=config.region))
        problems = [*missing_lines(plan.missing), *_missing_chart_prerequisites(plan)]
        if problems:
            raise DovetailError("; ".join(problems))
        if dry_run:
            await execute_plan(plan, DryRunExecutor(write_note), max_concurrent=1)
            if output == "json":
                write(plan_json(plan, name=config.name, region=config.region))
            return 0
        if plan.steps and not yes:
            _confirm(plan)
        executor = session.executor(observed)
        result = await _execute(plan, executor, command)
        values: dict[str, Any] = {}
        if not result.remaining:
            await _write_kubeconfig(session, kubeconfig)
            values = {
                name: resolve_references(value, executor.lookup)
                for name, value in outputs(session.config).items()
            }
        _print_result(config, result, values, output)
        return EXIT_STOPPED if result.remaining else 0

    ctx.exit(run_in_session(config, work, lock_directory=None if dry_run else lock_directory()))


def _config_file(file: str | None, saved: SavedPlan | None) -> str:
    """Return the path of the cluster file: as given, or that of the saved plan."""
    if file is not None:
        return file
    if saved is None:
        raise click.UsageError(
            "Missing option '-f' / '--filename', or a PLAN that was saved with plan --out."
        )
    if saved.file == STDIN:
        raise DovetailError("the plan was made from stdin: pass the cluster file with -f")
    if not Path(saved.file).exists():
        raise DovetailError(f"{saved.file}, the file of the plan, is not here: pass it with -f")
    return saved.file


async def _plan(
    session: ClusterSession, saved: SavedPlan | None, content: bytes
) -> tuple[Plan, ObservedState]:
    """Return the plan; raises ``StalePlanError`` if it does more than the saved one."""
    if saved is None:
        return await session.plan_when_settled(write_note)
    check_account(saved, session.aws.account)
    plan, observed = await session.plan_when_settled(write_note)
    check_steps(saved, plan, content=content, dovetail=version("dovetail"))
    return plan, observed


async def _execute(plan: Plan, executor: HandlerExecutor, command: str) -> ExecutionResult:
    async with stop_on_signal() as stop:
        with show_progress(plan.steps) as listener:
            try:
                result = await execute_plan(plan, executor, stop=stop, listener=listener)
            except StepError as error:
                raise DovetailError(f"{error}; completed steps are kept: continue with {command}") from error
    if result.remaining:
        done, total = len(result.done), len(plan.steps)
        write_note(f"stopped after {done} of {total} steps; continue with: {command}")
    return result


async def _write_kubeconfig(session: ClusterSession, path: Path) -> None:
    endpoint, config = await session.api_access.endpoint(), session.config
    if endpoint is not None:
        cluster = ClusterArn.of(session.aws.account, config.name)
        profile = os.environ.get("AWS_PROFILE")
        merge_context(path, kubeconfig_with_aws_cli(cluster, endpoint, profile=profile))
        write_note(f"wrote context {cluster.arn} to {path}")


def _print_result(
    config: ClusterConfig, result: ExecutionResult, values: dict[str, Any], output: str
) -> None:
    if output == "json":
        document = {
            "cluster": config.name,
            "region": config.region,
            "done": [step.id for step in result.done],
            "left": [step.id for step in result.remaining],
            "outputs": values,
        }
        write(json.dumps(document, indent=2, ensure_ascii=False))
    elif not result.remaining:
        write_lines(_output_lines(config, values))


def _missing_chart_prerequisites(plan: Plan) -> list[str]:
    releases = [step.desired for step in plan.steps if step.kind == "helm-release" and step.desired]
    if not releases:
        return []
    return missing_prerequisites(str(release.properties["chart"]) for release in releases)


def _confirm(plan: Plan) -> None:
    replaced = plan.replaced_addresses()
    if replaced:
        write_note(f"these resources and their content are replaced: {', '.join(replaced)}")
    if prompt("Apply? Type 'yes' to continue") != "yes":
        raise click.Abort


def _output_lines(config: ClusterConfig, values: dict[str, Any]) -> list[Text]:
    lines = [Text(f"{config.name} matches its file", style="bold green"), Text("")]
    width = max(map(len, values))
    lines += [Text(f"{name.ljust(width)}  {value}") for name, value in values.items()]
    lines += [
        Text(""),
        Text("next:", style="bold"),
        Text("  kubectl get nodepools,nodeclaims"),
        Text("  kubectl get nodes --watch"),
        Text("  dovetail cluster validate"),
    ]
    return lines
