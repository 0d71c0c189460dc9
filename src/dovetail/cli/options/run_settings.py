"""Settings of ``dovetail run`` by name: ``--set NAME=VALUE`` of previews, replays and sweeps."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import click
import msgspec

from dovetail.cli.options.burstable import MemoryAmount
from dovetail.cli.options.feature_gates import change_gates
from dovetail.cli.options.node_cost import NODE_COST, TOLERANCE
from dovetail.codec.text.suggestions import suggest
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.settings import ControllerSettings, MinValuesPolicy, PreferencePolicy

GATES: Final = "feature-gates"
_TYPE_NAMES: Final = {click.FloatRange.name: "a number", click.IntRange.name: "a whole number"}
"""Click's names of types, which are no words of users ("not a valid float range"), in plain words."""
_Change = Callable[[ControllerSettings, Any], ControllerSettings]


def _in_scheduling(field: str) -> _Change:
    def change(settings: ControllerSettings, value: Any) -> ControllerSettings:
        scheduling = msgspec.structs.replace(settings.scheduling, **{field: value})
        return msgspec.structs.replace(settings, scheduling=scheduling)

    return change


def _in_consolidation(field: str) -> _Change:
    def change(settings: ControllerSettings, value: Any) -> ControllerSettings:
        consolidation = msgspec.structs.replace(settings.consolidation, **{field: value})
        return msgspec.structs.replace(settings, consolidation=consolidation)

    return change


def _choice(values: Iterable[str]) -> click.ParamType[Any]:
    return click.Choice(list(values))


_SETTINGS: Final[Mapping[str, tuple[click.ParamType[Any], Callable[[Any], Any], _Change]]] = {
    "preference-policy": (_choice(PreferencePolicy), PreferencePolicy, _in_scheduling("preference_policy")),
    "min-values-policy": (_choice(MinValuesPolicy), MinValuesPolicy, _in_scheduling("min_values_policy")),
    "min-node-memory": (MemoryAmount(), int, _in_scheduling("min_node_memory")),
    "node-cost": (NODE_COST, float, _in_scheduling("node_cost")),
    "fewer-nodes-tolerance": (TOLERANCE, float, _in_scheduling("fewer_nodes_tolerance")),
    "consolidation-min-saving": (click.FloatRange(0), float, _in_consolidation("min_saving")),
    "consolidation-min-saving-per-pod": (click.FloatRange(0), float, _in_consolidation("min_saving_per_pod")),
    "consolidation-min-saving-share": (click.FloatRange(0, 10), float, _in_consolidation("min_saving_share")),
    "balanced-threshold": (click.FloatRange(0, min_open=True), float, _in_consolidation("balanced_k")),
    "spot-to-spot-types": (click.IntRange(1), int, _in_consolidation("min_spot_types")),
    "burstable": (
        _choice(BurstablePolicy),
        BurstablePolicy,
        lambda settings, value: msgspec.structs.replace(settings, burstable=value),
    ),
}
"""Name → how its value is parsed, converted and set."""
NAMES: Final = (*_SETTINGS, GATES)


def change_settings(settings: ControllerSettings, given: Iterable[str]) -> ControllerSettings:
    """Return settings with each ``NAME=VALUE``; raise ``click.BadParameter``."""
    for text in given:
        name, equals, value = text.partition("=")
        if name not in NAMES:
            raise click.BadParameter(
                f"{name!r} is not a setting of dovetail run that matters here{suggest(name, NAMES)}"
            )
        if not equals:
            raise click.BadParameter(f"{text!r} is not {name}=VALUE.")
        settings = _set(settings, name, value)
    return _with_gates(settings)


def describe_settings(before: ControllerSettings, given: Iterable[str]) -> tuple[str, ...]:
    """Return a line for each setting that changes something."""
    lines = []
    settings = before
    for text in given:
        changed = change_settings(settings, [text])
        name, _, value = text.partition("=")
        if changed != settings:
            lines.append(f"Setting {name}: {value}")
        settings = changed
    return tuple(lines)


def _set(settings: ControllerSettings, name: str, value: str) -> ControllerSettings:
    if name == GATES:
        return msgspec.structs.replace(settings, gates=change_gates(settings.gates, value))
    kind, convert, change = _SETTINGS[name]
    try:
        parsed = kind.convert(value, None, None)
    except click.BadParameter as error:
        message = error.message
        for type_name, plain in _TYPE_NAMES.items():
            message = message.replace(f"a valid {type_name}", plain)
        raise click.BadParameter(f"{name}: {message}") from None
    return change(settings, convert(parsed))


def _with_gates(settings: ControllerSettings) -> ControllerSettings:
    """Return settings that agree with the feature gates, as in ``dovetail run``."""
    consolidation = msgspec.structs.replace(
        settings.consolidation, spot_to_spot=settings.gates.SpotToSpotConsolidation
    )
    scheduling = msgspec.structs.replace(
        settings.scheduling, reserved_capacity=settings.gates.ReservedCapacity
    )
    return msgspec.structs.replace(settings, consolidation=consolidation, scheduling=scheduling)
