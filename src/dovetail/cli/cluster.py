"""``dovetail cluster``: a cluster from an AWS account, and back to nothing."""

import click

from dovetail.cli.cluster_render import render, schema


@click.group()
def cluster() -> None:
    """Make a cluster on EKS from one file, change it, and take it away."""


cluster.add_command(render)
cluster.add_command(schema)
