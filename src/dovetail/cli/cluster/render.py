"""``dovetail cluster render`` and ``schema``: the cluster in other tools' words."""

import json
from pathlib import Path

import click

from dovetail.cli.files import read_bytes
from dovetail.cli.output.console import say, write
from dovetail.eks.config.json_schema import json_schema
from dovetail.eks.render.formats import Format, rendered
from dovetail.eks.render.manifests import Files
from dovetail.eks.validation.load import read_spec
from dovetail.errors import DovetailError

_NEXT = {
    Format.CLOUDFORMATION: "aws cloudformation deploy --template-file {where}/cloudformation.json "
    "--stack-name {name} --capabilities CAPABILITY_NAMED_IAM",
    Format.TERRAFORM: "cd {where} && terraform init && terraform apply",
    Format.MANIFESTS: "",
}


@click.command(epilog="Exit codes: 0 written; 1 bad input, nothing is written.")
@click.option(
    "-f", "--filename", "file", required=True, metavar="PATH", help="The cluster.yaml; - for stdin."
)
@click.option(
    "--format",
    "form",
    type=click.Choice([one.value for one in Format]),
    default=Format.CLOUDFORMATION.value,
    show_default=True,
    help="Each comes with Helm values, manifests and the commands that apply them.",
)
@click.option(
    "-d",
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to write; ./NAME-FORMAT if not given.",
)
def render(file: str, form: str, directory: Path | None) -> None:
    """Write what a cluster.yaml asks for as files for other tools.

    Nothing is asked of AWS. What was there before becomes parameters of a CloudFormation template
    and data sources of a Terraform module.
    """
    spec = read_spec(file, read_bytes(file))
    chosen = Format(form)
    where = directory or Path(f"{spec.name}-{chosen}")
    files = rendered(spec, chosen)
    _write(where, files)
    say(f"wrote {len(files)} files to {where}")
    first = _NEXT[chosen].format(where=where, name=spec.name)
    for line in filter(None, (first, f"sh {where}/install.sh")):
        say(f"next: {line}")


def _write(where: Path, files: Files) -> None:
    try:
        for name, text in files.items():
            path = where / name
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
