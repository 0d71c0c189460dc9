"""``dovetail cluster plan`` and ``status``: what is there, and what a file would change."""

import json
from typing import Any

import click
from rich.text import Text

from dovetail.cli.cluster.options import FILE, OUTPUT, spec_of
from dovetail.cli.cluster.plan_output import plan_json, plan_lines
from dovetail.cli.output.console import columns, progress, write, write_lines
from dovetail.eks.command_session import visit
from dovetail.eks.plan.planner import Plan
from dovetail.eks.plan.resource import Observed
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.eks.session import Site

EXIT_DIFFERENT = 2


@click.command(
    epilog="Exit codes: 0 nothing to do; 1 bad input, or AWS refuses; 2 there is something to do."
)
@FILE
@OUTPUT
@click.pass_context
def plan(ctx: click.Context, file: str, output: str) -> None:
    """Show what `apply` would make, change, replace and remove, and what it costs.

    Nothing is changed: only calls are made that describe and list.
    """
    spec = spec_of(file)
    with progress("looking at what is there"):
        found, _ = visit(spec, _planned)
    if output == "json":
        write(plan_json(found, name=spec.name, where=spec.region))
    else:
        write_lines(plan_lines(found, name=spec.name, where=spec.region))
    ctx.exit(EXIT_DIFFERENT if found.steps or found.missing else 0)


@click.command(
    epilog="Exit codes: 0 all is as the file says; 1 bad input, or AWS refuses; 2 something is not."
)
@FILE
@OUTPUT
@click.pass_context
def status(ctx: click.Context, file: str, output: str) -> None:
    """Show what there is of a cluster, and what is missing or different.

    Nothing is changed: only calls are made that describe and list.
    """
    spec = spec_of(file)
    with progress("looking at what is there"):
        found, observed = visit(spec, _planned)
    rows = _rows(found, observed)
    if output == "json":
        write(json.dumps(rows, indent=2))
    else:
        table = [["KIND", "NAME", "STATE", "ID"], *([*row.values()] for row in rows)]
        write_lines([Text(line) for line in columns(table)])
    ctx.exit(EXIT_DIFFERENT if found.steps or found.missing else 0)


async def _planned(site: Site) -> tuple[Plan, Observed]:
    return await site.plan()


def _rows(found: Plan, observed: Observed) -> list[dict[str, Any]]:
    states = {one.address: one.verb.value for one in found.steps}
    words = {"create": "missing", "change": "different", "remove": "no longer wanted"}
    rows = []
    for address in dict.fromkeys([*observed.resources, *states]):
        existing = observed.resources.get(address)
        state = words.get(states.get(address, ""), "as wanted")
        if existing is not None and not existing.settled:
            state = "on its way"
        known = existing.attributes if existing else {}
        kind, _, name = address.partition("/")
        rows.append(
            {
                "kind": KINDS[kind].called,
                "name": name,
                "state": state,
                "id": str(known.get("id") or known.get("arn") or ""),
            }
        )
    return rows
