"""``dovetail cluster``: an EKS cluster from one file."""

from typing import Final

import click

from dovetail.cli.lazy_group import LazyGroup

_COMMANDS: Final = {
    "plan": "cluster.plan",
    "apply": "cluster.apply",
    "status": "cluster.plan",
    "validate": "cluster.validate",
    "outputs": "cluster.outputs",
    "destroy": "cluster.destroy",
    "render": "cluster.render",
    "schema": "cluster.render",
}
"""Command → module of this package with a function of that name."""


@click.group(cls=LazyGroup, modules=_COMMANDS)
def cluster() -> None:
    """Create, update and delete an EKS cluster from one file."""
