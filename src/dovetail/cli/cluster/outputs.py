"""``dovetail cluster outputs``: facts about an existing cluster, for scripts."""

import json
from typing import Any

import click
from rich.text import Text

from dovetail.cli.cluster.options import FILE, OUTPUT, read_config
from dovetail.cli.output.console import progress, write, write_lines, write_note
from dovetail.codec.text.suggestions import suggest
from dovetail.eks.outputs import ClusterOutputs, read_outputs
from dovetail.eks.session import run_in_session
from dovetail.errors import DovetailError

EXIT_MISSING = 2


@click.command(
    epilog="Exit codes: 0 printed; 1 invalid input, or an AWS error; 2 resources of an output do not exist."
)
@FILE
@OUTPUT
@click.argument("name", required=False)
@click.pass_context
def outputs(ctx: click.Context, file: str, output: str, name: str | None) -> None:
    """Print the outputs of a cluster, or the one with this NAME.

    Endpoint, certificate authority, OIDC URL and roles, as `apply` prints them; controllerPolicies,
    the IAM policies of the controller; and controllerManifest, the objects of its Helm release.

    Read-only: makes only AWS calls that describe and list.
    """
    config = read_config(file)
    with progress("reading the account"):
        result = run_in_session(config, read_outputs)
    if name is not None:
        _write_one(result, name, output)
        return
    if output == "json":
        write(_to_json(result.values))
    else:
        write_lines(_lines(result, file))
    for missing in result.missing:
        write_note(f"{missing}: its resource does not exist; run dovetail cluster apply -f {file}")
    ctx.exit(EXIT_MISSING if result.missing else 0)


def _write_one(result: ClusterOutputs, name: str, output: str) -> None:
    if name in result.missing:
        write_note(f"{name}: its resource does not exist")
        click.get_current_context().exit(EXIT_MISSING)
    if name not in result.values:
        raise DovetailError(f"{name!r} is not an output{suggest(name, sorted(result.values))}")
    value = result.values[name]
    write(value if isinstance(value, str) and output == "text" else _to_json(value))


def _lines(result: ClusterOutputs, file: str) -> list[Text]:
    width = max(map(len, result.values), default=0)
    lines: list[Text] = []
    for name, value in result.values.items():
        text = value
        if not isinstance(value, str):
            noun = "policies" if name == "controllerPolicies" else "objects"
            text = f"{len(value)} {noun}; dovetail cluster outputs -f {file} {name}"
        lines.append(Text(f"{name.ljust(width)}  {text}"))
    return lines


def _to_json(value: Any) -> str:
    # YAML has dates, JSON has not.
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
