"""``dovetail convert``: convert older Karpenter manifests to v1."""

from enum import StrEnum

import click

from dovetail.cli.files import STDIN, read_sources
from dovetail.cli.options.manifests import manifest_options
from dovetail.cli.output.console import write, write_note
from dovetail.codec.rewrite.files import convert_files
from dovetail.codec.rewrite.rewritten_object import RewrittenObject
from dovetail.codec.text.field_path import format_path
from dovetail.codec.text.yaml_writer import to_json


class DocumentFormat(StrEnum):
    """Output formats of converted objects."""

    YAML = "yaml"
    JSON = "json"


@click.command(epilog="Exit codes: 0 converted; 1 not convertible, nothing is written.")
@manifest_options
@click.option(
    "-o",
    "--output",
    type=click.Choice([member.value for member in DocumentFormat]),
    default=DocumentFormat.YAML.value,
    show_default=True,
    help="yaml has comments where the meaning changed; with json they go to stderr.",
)
def convert(files: tuple[str, ...], more_files: tuple[str, ...], output: str) -> None:
    """Convert older Karpenter manifests to v1, on stdout.

    Provisioner, AWSNodeTemplate, v1alpha5 Machine and all kinds of v1beta1 become
    NodePool, EC2NodeClass and NodeClaim of v1. In all other objects only renamed labels,
    annotations and taints change. Comments mark fields whose meaning changed.

    \b
    dovetail convert -f provisioner.yaml | kubectl apply -f -
    """  # noqa: D301 - click reads a real backspace as "leave these lines as they are"
    paths = (*files, *more_files)
    if not paths:
        raise click.UsageError("Name what to convert: -f PATH, or -f - for stdin.")
    if paths.count(STDIN) > 1:
        raise click.UsageError("Standard input (-) can be read only once.")
    objects = convert_files(read_sources(paths))
    if output == DocumentFormat.YAML:
        write("---\n".join(obj.as_yaml() for obj in objects).rstrip("\n"))
    else:
        write(to_json([obj.value for obj in objects]).rstrip("\n"))
        for obj in objects:
            _print_notes(obj)
    if not any(obj.is_converted or obj.notes for obj in objects):
        write_note("note: no object has an older version; the output is unchanged")


def _print_notes(obj: RewrittenObject) -> None:
    for path, sentence in obj.notes:
        place = f" {format_path(path)}" if path else ""
        write_note(f"note: {obj.value.get('kind')} {obj.name}{place}: {sentence}")
