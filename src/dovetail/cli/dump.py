"""``dovetail dump``: write the objects of a cluster that all commands read."""

from pathlib import Path

import click
import msgspec

from dovetail.cli.options.cluster_objects import access_options, read_cluster_objects
from dovetail.cli.output.console import progress, write, write_note
from dovetail.codec.text.suggestions import pluralize
from dovetail.dump.anonymise import anonymise
from dovetail.dump.strip import strip_objects
from dovetail.errors import DovetailError


@click.command(epilog="Exit codes: 0 written; 1 bad input, or the API server does not respond.")
@access_options
@click.option(
    "--cluster",
    multiple=True,
    metavar="DUMP",
    type=click.Path(),
    help="Strip a dump by `kubectl get … -o json` instead of a live cluster. May be repeated.",
)
@click.option(
    "--anonymise", "anonymous", is_flag=True, help="Replace names, namespaces, label values and images."
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Default: standard output.",
)
def dump(
    kubeconfig: str | None, context: str, cluster: tuple[str, ...], anonymous: bool, output: Path | None
) -> None:
    """Write a cluster to a file that every command reads with `--cluster`.

    One JSON List of all kinds that decisions depend on. Only lists objects. Secrets and ConfigMaps
    are not read; environment variables, commands, arguments and user data are left out.
    """
    with progress("Reading the cluster"):
        read, _ = read_cluster_objects(cluster, kubeconfig=kubeconfig, context=context)
    for sentence in read.missing:
        write_note(f"note: {sentence}")
    objects = strip_objects(read.objects)
    if anonymous:
        objects = anonymise(objects)
    encoded = msgspec.json.encode(
        {"apiVersion": "v1", "kind": "List", "items": [*objects, *read.empty_lists]}
    )
    if output is None:
        write(encoded.decode())
        return
    try:
        output.write_bytes(encoded)
    except OSError as error:
        raise DovetailError(f"{output} cannot be written: {error.strerror}") from error
    write_note(f"{pluralize(len(objects), 'object')} written to {output}")
