"""Options for burstable types, small nodes and missing requests."""

from typing import Any, Final

import click

from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.kube.quantity import format_amount, parse_amount
from dovetail.model.kube.resources import CPU, MEMORY, Resources
from dovetail.model.settings import MIN_NODE_MEMORY

BURSTABLE_HELP: Final = (
    "Burstable types (t2, t3, t3a, t4g): at list price like any other; with surplus credits for "
    "requests above their baseline; or only where no other type fits."
)
MIN_MEMORY_HELP: Final = (
    "Memory that DaemonSets must leave for pods; types with less are used only where no other fits."
)
DEFAULT_MIN_MEMORY: Final = format_amount(MEMORY, MIN_NODE_MEMORY)

burstable_option = click.option(
    "--burstable",
    type=click.Choice([member.value for member in BurstablePolicy]),
    default=BurstablePolicy.BASELINE.value,
    show_default=True,
    help=BURSTABLE_HELP,
)


class MemoryAmount(click.ParamType[int]):
    """``128Mi``, ``1Gi``, ``0``: bytes."""

    name = "quantity"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            amount = parse_amount(MEMORY, str(value))
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        if amount < 0:
            self.fail(f"{value!r} is negative.", param, ctx)
        return amount


def parse_requests(_: click.Context, __: click.Parameter, given: str) -> Resources:
    """Parse ``cpu=100m,memory=128Mi``; empty: nothing is assumed."""
    quantities: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in given.split(","))):
        name, equals, quantity = part.partition("=")
        if name not in (CPU, MEMORY) or not equals:
            raise click.BadParameter(f"{part!r} is neither cpu=QUANTITY nor memory=QUANTITY.")
        if name in quantities:
            raise click.BadParameter(f"{name} is given twice.")
        quantities[name] = quantity
    try:
        requests = Resources.parse(quantities)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None
    for name, amount in requests.items():
        if amount <= 0:
            raise click.BadParameter(f"{name}={quantities[name]} is not greater than zero.")
    return requests
