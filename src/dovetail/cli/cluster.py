"""``dovetail cluster``: a cluster from an AWS account, and back to nothing."""

from typing import Final

import click

from dovetail.cli.latecommands import LateCommands

_COMMANDS: Final = {
    "plan": "cluster_plan",
    "apply": "cluster_apply",
    "status": "cluster_plan",
    "destroy": "cluster_destroy",
    "render": "cluster_render",
    "schema": "cluster_render",
}
"""Each is a function of that name in the module beside this one."""


@click.group(cls=LateCommands, modules=_COMMANDS)
def cluster() -> None:
    """Make a cluster on EKS from one file, change it, and take it away."""
