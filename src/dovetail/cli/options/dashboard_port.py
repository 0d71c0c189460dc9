"""Type of the option for the dashboard's port, without the web server behind it."""

from typing import Final

import click

PORT: Final = click.IntRange(0, 65535)
