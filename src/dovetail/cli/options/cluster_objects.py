"""Raw objects of the cluster that a command names: a dump or a live cluster, only read."""

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import click

from dovetail.cli.files import read_sources
from dovetail.errors import DovetailError
from dovetail.host.clock import SystemClock
from dovetail.kube.auth.kubeconfig import load_rest_config
from dovetail.operator.cluster_objects import ClusterObjects, list_objects, read_dumps

MAKE_DUMP: Final = "dovetail dump -o cluster.json"
"""Command for a dump with all kinds that commands read."""
DUMP_OR_ACCESS: Final = "Use --cluster for a dump, or --kubeconfig and --context; not both."
"""Usage error of a command that got both."""

Command = Callable[..., Any]


def dump_option(command: Command) -> Command:
    """Add ``--cluster``: dumps instead of a live cluster."""
    return click.option(
        "--cluster",
        multiple=True,
        metavar="DUMP",
        type=click.Path(),
        help="Read a dump by `dovetail dump` instead of a live cluster. May be repeated.",
    )(command)


def access_options(command: Command) -> Command:
    """Add ``--kubeconfig`` and ``--context``: which live cluster."""
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Default: KUBECONFIG, else the pod's service account, else ~/.kube/config.",
    )
    context = click.option("--context", default="", help="Of the kubeconfig. Default: the current one.")
    return kubeconfig(context(command))


def read_cluster_objects(
    cluster: Sequence[str], *, kubeconfig: str | None = None, context: str = ""
) -> tuple[ClusterObjects, datetime]:
    """Return the objects of dumps or of a live cluster, and when they were read.

    The time is that of the API server, or the latest in the dumps. Kinds that are
    missing or may not be listed are named in ``missing``. Raises ``DovetailError``
    if there are no nodes or the API server does not respond.
    """
    if not cluster:
        access = load_rest_config(kubeconfig, environ=os.environ, clock=SystemClock(), context=context)
        listed = asyncio.run(list_objects(access))
        return listed, listed.recorded_at or SystemClock().now()
    if kubeconfig or context:
        raise click.UsageError(DUMP_OR_ACCESS)
    read = read_dumps(read_sources(cluster))
    if not any(obj.get("kind") == "Node" for obj in read.objects):
        raise DovetailError(f"no nodes in {', '.join(cluster)}; make a dump with: {MAKE_DUMP}")
    return read, read.recorded_at or SystemClock().now()
