"""The ``dovetail`` command: its sub-commands and exit codes."""

import click

from dovetail import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dovetail", message="%(prog)s %(version)s")
def cli() -> None:
    """Show which EC2 instances Kubernetes pods would get, and what they cost."""


def main() -> None:
    """Run the command line."""
    cli(prog_name="dovetail")
