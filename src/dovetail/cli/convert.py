"""``dovetail convert``: older Karpenter manifests as v1 objects."""

from enum import StrEnum

import click

from dovetail.cli.files import STDIN, read_sources
from dovetail.cli.options.manifests import manifest_options
from dovetail.cli.output.console import say, write
from dovetail.codec.rewrite.files import convert_files
from dovetail.codec.rewrite.rewritten_object import Rewritten
from dovetail.codec.rewrite.round_trip import Document, to_json
from dovetail.codec.text.field_path import show


class Output(StrEnum):
    """How the objects are written."""

    YAML = "yaml"
    JSON = "json"


@click.command(epilog="Exit codes: 0 converted; 1 something cannot be, nothing is written.")
@manifest_options
@click.option(
    "-o",
    "--output",
    type=click.Choice([one.value for one in Output]),
    default=Output.YAML.value,
    show_default=True,
    help="yaml has comments on what changed its meaning; with json they go to stderr.",
)
def convert(files: tuple[str, ...], more_files: tuple[str, ...], output: str) -> None:
    """Write older Karpenter manifests as v1 objects, to stdout.

    Provisioner, AWSNodeTemplate and Machine (v1alpha5, v1alpha1) and all of v1beta1 become
    NodePool, EC2NodeClass and NodeClaim of v1. In all other objects only labels, annotations and
    taints that have new names change. Comments tell what no longer means the same.

    \b
    dovetail convert -f provisioner.yaml | kubectl apply -f -
    """  # noqa: D301 - click reads a real backspace as "leave these lines as they are"
    paths = (*files, *more_files)
    if not paths:
        raise click.UsageError("Name what to convert: -f PATH, or -f - for stdin.")
    if paths.count(STDIN) > 1:
        raise click.UsageError("Standard input (-) can be read only once.")
    found = convert_files(read_sources(paths))
    if output == Output.YAML:
        write("---\n".join(one.as_yaml() for one in found).rstrip("\n"))
    else:
        write(to_json([Document(one.value, None) for one in found]).rstrip("\n"))
        for one in found:
            _tell(one)
    if not any(one.older or one.remarks for one in found):
        say("note: nothing here is of an older version; it is written as it was")


def _tell(one: Rewritten) -> None:
    for path, sentence in one.remarks:
        place = f" {show(path)}" if path else ""
        say(f"note: {one.value.get('kind')} {one.name}{place}: {sentence}")
