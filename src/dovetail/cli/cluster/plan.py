"""``dovetail cluster plan`` and ``status``: compare a file with the account."""

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click
from rich.text import Text

from dovetail.cli.cluster.options import FILE, OUTPUT, read_config, read_source
from dovetail.cli.cluster.plan_output import missing_lines, plan_json, plan_lines
from dovetail.cli.output.console import columns, progress, write, write_lines, write_note
from dovetail.eks.offline import offline_plan
from dovetail.eks.plan.planner import Action, Plan
from dovetail.eks.plan.resource import ObservedState
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.eks.plan.saved_plan import is_plan, save_plan
from dovetail.eks.session import ClusterSession, run_in_session
from dovetail.errors import DovetailError
from dovetail.host.clock import SystemClock

EXIT_DIFFERENT = 2
_STATES: Final = {Action.CREATE: "missing", Action.UPDATE: "different", Action.DELETE: "no longer desired"}
"""State of a resource that a plan would act on."""


@click.command(epilog="Exit codes: 0 no changes; 1 invalid input, or an AWS error; 2 there are changes.")
@FILE
@OUTPUT
@click.option(
    "--offline",
    is_flag=True,
    help="Do not call AWS: assume an account without this cluster, and say what is assumed.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PLAN",
    help="Save the plan for `dovetail cluster apply PLAN`.",
)
@click.pass_context
def plan(ctx: click.Context, file: str, output: str, offline: bool, out: Path | None) -> None:
    """Show what `apply` would create, update, replace and delete, and the cost.

    Read-only: makes only AWS calls that describe and list.
    """
    if offline and out is not None:
        raise click.UsageError("--out needs the account: a plan that was made --offline cannot be applied")
    config, content = read_source(file)
    if out is not None:
        _check_target(out)
    if offline:
        changes, account = offline_plan(config, today=SystemClock().now().date()), None
    else:
        with progress("reading the account"):
            changes, observed = run_in_session(config, _plan)
        account = observed.account
    if output == "json":
        write(plan_json(changes, name=config.name, region=config.region))
    else:
        write_lines(plan_lines(changes, name=config.name, region=config.region))
    if out is not None and account is not None:
        problems = [*missing_lines(changes.missing)]
        problems += [f"{resource.address} is in transition" for resource in changes.unsettled]
        if problems:
            raise DovetailError(f"{out} is not written: {'; '.join(problems)}")
        text = save_plan(
            changes,
            cluster=config.name,
            account=account,
            file=file,
            content=content,
            dovetail=version("dovetail"),
        )
        _write_atomically(out, text)
        write_note(f"wrote {out}; next: dovetail cluster apply {out}")
    ctx.exit(_exit_code(changes))


def _check_target(out: Path) -> None:
    """Raise an error rather than overwrite a file that is not a saved plan."""
    try:
        content = out.read_bytes() if out.exists() else b""
    except OSError as error:
        raise DovetailError(f"{out} cannot be read: {error.strerror}") from error
    if content and not is_plan(content):
        raise DovetailError(f"{out} exists and is not a saved plan: choose another file")


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DovetailError(f"{path} cannot be written: {error.strerror}") from error


@click.command(
    epilog="Exit codes: 0 the cluster matches the file; 1 invalid input, or an AWS error; 2 it differs."
)
@FILE
@OUTPUT
@click.pass_context
def status(ctx: click.Context, file: str, output: str) -> None:
    """Show the resources of a cluster, and which are missing or different.

    Read-only: makes only AWS calls that describe and list.
    """
    config = read_config(file)
    with progress("reading the account"):
        changes, observed = run_in_session(config, _plan)
    rows = _rows(changes, observed)
    if output == "json":
        write(json.dumps(rows, indent=2))
    else:
        table = [["KIND", "NAME", "STATE", "ID"], *([*row.values()] for row in rows)]
        write_lines([Text(line) for line in columns(table)])
    ctx.exit(_exit_code(changes))


async def _plan(session: ClusterSession) -> tuple[Plan, ObservedState]:
    return await session.plan()


def _exit_code(changes: Plan) -> int:
    return EXIT_DIFFERENT if changes.steps or changes.missing else 0


def _rows(changes: Plan, observed: ObservedState) -> list[dict[str, Any]]:
    states = {step.address: _STATES[step.action] for step in changes.steps}
    rows = []
    for address in dict.fromkeys([*observed.resources, *states]):
        resource = observed.resources.get(address)
        state = states.get(address, "up to date")
        if resource is not None and not resource.settled:
            state = "in transition"
        attributes = resource.attributes if resource else {}
        kind, _, name = address.partition("/")
        rows.append(
            {
                "kind": KINDS[kind].display_name,
                "name": name,
                "state": state,
                "id": str(attributes.get("id") or attributes.get("arn") or ""),
            }
        )
    return rows
