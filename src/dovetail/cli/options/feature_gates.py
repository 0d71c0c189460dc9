"""The option ``--feature-gates``."""

import click
import msgspec

from dovetail.codec.text.suggestions import suggest
from dovetail.model.settings import FeatureGates

GATES_HELP = (
    "NominatedNodeName, ReservedCapacity (true); NodeRepair, SpotToSpotConsolidation, NodeOverlay, "
    "StaticCapacity, CapacityBuffer, NodeClassCEL, HostGroupReplacement (false)."
)


def lenient_gates(_: click.Context, __: click.Parameter, given: str) -> FeatureGates:
    """Parse gates; unknown ones are ignored, so that charts of other versions work."""
    gates = _parse_gates(given)
    return FeatureGates(**{name: on for name, on in gates.items() if name in FeatureGates.__struct_fields__})


def strict_gates(_: click.Context, __: click.Parameter, given: str) -> FeatureGates:
    """Parse gates; unknown ones are errors."""
    return change_gates(FeatureGates(), given)


def change_gates(gates: FeatureGates, given: str) -> FeatureGates:
    """Return gates with those given; unknown ones are errors."""
    changed = _parse_gates(given)
    for name in changed:
        if name not in FeatureGates.__struct_fields__:
            known = FeatureGates.__struct_fields__
            raise click.BadParameter(f"{name!r} is not a feature gate{suggest(name, known)}")
    return msgspec.structs.replace(gates, **changed)


def _parse_gates(given: str) -> dict[str, bool]:
    gates: dict[str, bool] = {}
    for gate in filter(None, (part.strip() for part in given.split(","))):
        name, _equals, value = gate.partition("=")
        if value not in ("true", "false"):
            raise click.BadParameter(f"{gate!r} is neither <gate>=true nor <gate>=false.")
        gates[name] = value == "true"
    return gates
