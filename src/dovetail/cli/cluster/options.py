"""Options and prompts that the commands about clusters share."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from dovetail.cli.files import read_bytes
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.validation.load import read_spec
from dovetail.errors import DovetailError

FILE = click.option(
    "-f", "--filename", "file", required=True, metavar="PATH", help="The cluster.yaml; - for stdin."
)
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json is for programs.",
)
KUBECONFIG = click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    default=lambda: _usual_kubeconfig(),
    show_default="$KUBECONFIG, ~/.kube/config",
    help="The file that has a context for the cluster.",
)
YES = click.option("--yes", is_flag=True, help="Do not ask.")


def _usual_kubeconfig() -> Path:
    """Return the file that kubectl would write to."""
    named = [one for one in os.environ.get("KUBECONFIG", "").split(":") if one]
    return Path(named[0]) if named else Path.home() / ".kube" / "config"


def spec_of(file: str) -> ClusterSpec:
    """Read a cluster.yaml; raises ``BadInput`` with all its mistakes."""
    return read_spec(file, read_bytes(file))


def asked(question: str, **given: Any) -> Any:
    """Ask on the terminal; where there is none, say what to do instead."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise DovetailError(f"{question}: there is no terminal to answer at; say --yes")
    return click.prompt(question, err=True, **given)
