"""``dovetail cluster render`` and ``schema``: files for other tools."""

import json
from pathlib import Path
from typing import Final

import click

from dovetail.cli.cluster.options import FILE, read_config
from dovetail.cli.output.console import write, write_note
from dovetail.codec.text.suggestions import pluralize
from dovetail.eks.config.json_schema import json_schema
from dovetail.eks.render.formats import Format, render_files
from dovetail.eks.render.manifests import Files
from dovetail.errors import DovetailError

_NEXT_COMMANDS: Final = {
    Format.CLOUDFORMATION: "aws cloudformation deploy --template-file "
    "{directory}/cloudformation.json --stack-name {name} --capabilities CAPABILITY_NAMED_IAM",
    Format.TERRAFORM: "cd {directory} && terraform init && terraform apply",
    Format.MANIFESTS: "",
}
"""Command that applies a rendering, before its install.sh."""


@click.command(epilog="Exit codes: 0 written; 1 invalid input, nothing is written.")
@FILE
@click.option(
    "--format",
    "format_name",
    type=click.Choice([render_format.value for render_format in Format]),
    default=Format.CLOUDFORMATION.value,
    show_default=True,
    help="Every format includes Helm values, manifests and the commands that apply them.",
)
@click.option(
    "-d",
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Output directory; ./NAME-FORMAT by default.",
)
def render(file: str, format_name: str, directory: Path | None) -> None:
    """Write the resources of a cluster.yaml as files for other tools.

    AWS is not called. Existing resources become parameters of a CloudFormation template and data
    sources of a Terraform module.
    """
    config = read_config(file)
    render_format = Format(format_name)
    target = directory or Path(f"{config.name}-{render_format}")
    files = render_files(config, render_format)
    _write_files(target, files)
    write_note(f"wrote {pluralize(len(files), 'file')} to {target}")
    command = _NEXT_COMMANDS[render_format].format(directory=target, name=config.name)
    for line in filter(None, (command, f"sh {target}/install.sh")):
        write_note(f"next: {line}")


def _write_files(directory: Path, files: Files) -> None:
    try:
        for name, text in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DovetailError(f"{error.filename} cannot be written: {error.strerror}") from error


@click.command(epilog="Exit codes: 0 printed.")
def schema() -> None:
    """Print the JSON schema of cluster.yaml, for editors.

    \b
    # yaml-language-server: $schema=cluster.schema.json
    """  # noqa: D301 - click reads a real backspace as "leave these lines as they are"
    write(json.dumps(json_schema(), indent=2, ensure_ascii=False))
