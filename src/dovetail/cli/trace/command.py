"""``dovetail trace``: look into traces, and make them of other systems' data."""

import click

from dovetail.cli.lazy_group import CommandGroup
from dovetail.cli.trace.imports import import_audit, import_csv, import_prometheus
from dovetail.cli.trace.show import show


@click.group(cls=CommandGroup)
def trace() -> None:
    """Summarise traces, and import them from other systems' data."""


@trace.group("import", cls=CommandGroup)
def import_trace() -> None:
    """Make a trace of other systems' data."""


trace.add_command(show)
import_trace.add_command(import_audit)
import_trace.add_command(import_csv)
import_trace.add_command(import_prometheus)
