"""``dovetail cluster plan`` and ``status``: compare a file with the account."""

import json
from typing import Any, Final

import click
from rich.text import Text

from dovetail.cli.cluster.options import FILE, OUTPUT, read_config
from dovetail.cli.cluster.plan_output import plan_json, plan_lines
from dovetail.cli.output.console import columns, progress, write, write_lines
from dovetail.eks.plan.planner import Action, Plan
from dovetail.eks.plan.resource import ObservedState
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.eks.session import ClusterSession, run_in_session

EXIT_DIFFERENT = 2
_STATES: Final = {Action.CREATE: "missing", Action.UPDATE: "different", Action.DELETE: "no longer desired"}
"""State of a resource that a plan would act on."""


@click.command(epilog="Exit codes: 0 no changes; 1 invalid input, or an AWS error; 2 there are changes.")
@FILE
@OUTPUT
@click.pass_context
def plan(ctx: click.Context, file: str, output: str) -> None:
    """Show what `apply` would create, update, replace and delete, and the cost.

    Read-only: makes only AWS calls that describe and list.
    """
    config = read_config(file)
    with progress("reading the account"):
        changes, _ = run_in_session(config, _plan)
    if output == "json":
        write(plan_json(changes, name=config.name, region=config.region))
    else:
        write_lines(plan_lines(changes, name=config.name, region=config.region))
    ctx.exit(_exit_code(changes))


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
