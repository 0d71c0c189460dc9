"""Options for what nodes cost beyond their instances, in all commands that plan."""

from collections.abc import Callable
from typing import Any, Final

import click

from dovetail.model.karpenter.nodepool import MAX_NODE_COST
from dovetail.model.settings import SchedulingSettings

_Command = Callable[..., Any]

NODE_COST: Final = click.FloatRange(0, MAX_NODE_COST)
NODE_COST_HELP: Final = (
    "USD per hour of each node beyond its instance. Default: the volumes of its EC2NodeClass and image pulls."
)
TOLERANCE: Final = click.FloatRange(0, 0.5)
DEFAULT_TOLERANCE: Final = SchedulingSettings().fewer_nodes_tolerance
TOLERANCE_HELP: Final = "Share by which a plan with half the nodes may be more expensive; 0: not at all."


def node_cost_options(command: _Command) -> _Command:
    """Add the parameters ``node_cost`` and ``fewer_nodes_tolerance``."""
    options = (
        click.option("--node-cost", type=NODE_COST, metavar="USD", help=NODE_COST_HELP),
        click.option(
            "--fewer-nodes-tolerance",
            type=TOLERANCE,
            default=DEFAULT_TOLERANCE,
            show_default=True,
            metavar="SHARE",
            help=TOLERANCE_HELP,
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
