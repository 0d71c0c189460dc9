"""``dovetail cluster``: a cluster from an AWS account, and back to nothing."""

import click

from dovetail.cli.cluster_apply import apply
from dovetail.cli.cluster_destroy import destroy
from dovetail.cli.cluster_plan import plan, status
from dovetail.cli.cluster_render import render, schema


@click.group()
def cluster() -> None:
    """Make a cluster on EKS from one file, change it, and take it away."""


for _command in (plan, apply, status, destroy, render, schema):
    cluster.add_command(_command)
