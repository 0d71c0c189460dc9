"""``dovetail crds``: what makes an API server know NodePools and their like."""

from pathlib import Path

import click

from dovetail.cli.output.console import say, write
from dovetail.codec.crds.definitions import DEFINITIONS, as_file, as_yaml, file_name
from dovetail.errors import DovetailError


@click.command(epilog="Exit codes: 0 printed or written; 1 bad input.")
@click.argument(
    "kinds",
    nargs=-1,
    metavar="[KIND]...",
    type=click.Choice([one.kind for one in DEFINITIONS]),
)
@click.option(
    "-d",
    "--directory",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Write a file for each kind there, instead of printing all.",
)
def crds(kinds: tuple[str, ...], directory: Path | None) -> None:
    """Print the CustomResourceDefinitions of all kinds, or of some.

    NodePool, NodeClaim, EC2NodeClass, NodeOverlay and CapacityBuffer, with the rules by which an
    API server refuses objects that make no sense. Install them before `dovetail run`:

    \b
    dovetail crds | kubectl apply -f -
    """  # noqa: D301 - click reads a real backspace as "leave these lines as they are"
    wanted = [one for one in DEFINITIONS if not kinds or one.kind in kinds]
    if directory is None:
        write("---\n".join(as_yaml(one) for one in wanted).rstrip("\n"))
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for one in wanted:
            (directory / file_name(one)).write_text(as_file(one), encoding="utf-8")
    except OSError as error:
        raise DovetailError(f"{directory} cannot be written: {error.strerror}") from error
    say(f"{len(wanted)} definitions written to {directory}")
