"""``--feature-gates``: what is switched on and off by name."""

import click

from dovetail.codec.text.suggestions import did_you_mean
from dovetail.model.settings import Gates

GATES_HELP = (
    "NominatedNodeName, ReservedCapacity (true); NodeRepair, SpotToSpotConsolidation, NodeOverlay, "
    "StaticCapacity, CapacityBuffer (false)."
)


def lenient_gates(_: click.Context, __: click.Parameter, given: str) -> Gates:
    """Read gates; unknown ones are ignored, so that a chart for another version works."""
    asked = _asked(given)
    return Gates(**{name: on for name, on in asked.items() if name in Gates.__struct_fields__})


def strict_gates(_: click.Context, __: click.Parameter, given: str) -> Gates:
    """Read gates as a person types them: an unknown one is a mistake."""
    asked = _asked(given)
    for name in asked:
        if name not in Gates.__struct_fields__:
            known = Gates.__struct_fields__
            raise click.BadParameter(f"{name!r} is no gate{did_you_mean(name, known)}")
    return Gates(**asked)


def _asked(given: str) -> dict[str, bool]:
    asked: dict[str, bool] = {}
    for one in filter(None, (part.strip() for part in given.split(","))):
        name, _equals, value = one.partition("=")
        if value not in ("true", "false"):
            raise click.BadParameter(f"{one!r} is neither <gate>=true nor <gate>=false.")
        asked[name] = value == "true"
    return asked
