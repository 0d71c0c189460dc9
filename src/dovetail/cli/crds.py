"""``dovetail crds``: print the CustomResourceDefinitions."""

from pathlib import Path

import click

from dovetail.cli.output.console import write, write_note
from dovetail.codec.crds.definitions import DEFINITIONS, chart_file_name, encode_chart_file, encode_yaml
from dovetail.codec.text.suggestions import pluralize
from dovetail.errors import DovetailError


@click.command(epilog="Exit codes: 0 printed or written; 1 bad input.")
@click.argument(
    "kinds", nargs=-1, metavar="[KIND]...", type=click.Choice([definition.kind for definition in DEFINITIONS])
)
@click.option(
    "-d",
    "--directory",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Write one file per kind to this directory instead of printing.",
)
def crds(kinds: tuple[str, ...], directory: Path | None) -> None:
    """Print the CustomResourceDefinitions of all kinds, or of some.

    NodePool, NodeClaim, EC2NodeClass, NodeOverlay and CapacityBuffer, with their validation
    rules. Install them before `dovetail run`:

    \b
    dovetail crds | kubectl apply -f -
    """  # noqa: D301 - click reads a real backspace as "leave these lines as they are"
    wanted = [definition for definition in DEFINITIONS if not kinds or definition.kind in kinds]
    if directory is None:
        write("---\n".join(encode_yaml(definition) for definition in wanted).rstrip("\n"))
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for definition in wanted:
            (directory / chart_file_name(definition)).write_text(
                encode_chart_file(definition), encoding="utf-8"
            )
    except OSError as error:
        raise DovetailError(f"{directory} cannot be written: {error.strerror}") from error
    write_note(f"{pluralize(len(wanted), 'definition')} written to {directory}")
