"""Options and prompts shared by the ``dovetail cluster`` commands."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from dovetail.cli.files import read_bytes
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.validation.load import load_config
from dovetail.errors import DovetailError

FILE = click.option(
    "-f", "--filename", "file", required=True, metavar="PATH", help="The cluster.yaml; - for stdin."
)
FILE_OR_PLAN = click.option(
    "-f", "--filename", "file", metavar="PATH", help="The cluster.yaml; - for stdin. By default that of PLAN."
)
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
KUBECONFIG = click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    default=lambda: _default_kubeconfig(),
    show_default="$KUBECONFIG, ~/.kube/config",
    help="Kubeconfig file with the cluster's context.",
)
YES = click.option("--yes", is_flag=True, help="Do not prompt for confirmation.")


def _default_kubeconfig() -> Path:
    """Return the file that kubectl writes to."""
    paths = [path for path in os.environ.get("KUBECONFIG", "").split(":") if path]
    return Path(paths[0]) if paths else Path.home() / ".kube" / "config"


def lock_directory() -> Path:
    """Return the directory of cluster locks: one directory for all sessions.

    Not the runtime directory: a login session has one, but cron and services do not, and
    they could change the cluster at the same time.
    """
    return Path(os.environ.get("TMPDIR") or tempfile.gettempdir())


def read_config(file: str) -> ClusterConfig:
    """Read a cluster.yaml; raises ``InvalidInputError`` with all its errors."""
    return read_source(file)[0]


def read_source(file: str) -> tuple[ClusterConfig, bytes]:
    """Read a cluster.yaml, and return its content too."""
    content = read_bytes(file)
    return load_config(file, content), content


def prompt(question: str, **options: Any) -> Any:
    """Prompt on the terminal; raises ``DovetailError`` if there is none."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise DovetailError(f"{question}: stdin is not a terminal; pass --yes")
    return click.prompt(question, err=True, **options)
