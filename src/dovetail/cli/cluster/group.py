"""``dovetail cluster``: a cluster from an AWS account, and back to nothing."""

from typing import Final

import click

from dovetail.cli.lazy_group import LateCommands

_COMMANDS: Final = {
    "plan": "cluster.plan",
    "apply": "cluster.apply",
    "status": "cluster.plan",
    "destroy": "cluster.destroy",
    "render": "cluster.render",
    "schema": "cluster.render",
}
"""Each is a function of that name in the module beside this one."""


@click.group(cls=LateCommands, modules=_COMMANDS)
def cluster() -> None:
    """Make a cluster on EKS from one file, change it, and take it away."""
