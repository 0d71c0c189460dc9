"""Loading of consolidation policies: built-in names and entry points.

A policy is written ``NAME`` or ``NAME:OPTION=VALUE:OPTION=VALUE``. Options are keyword
arguments of the plug-in's class. Those of a Struct have the types of its fields; elsewhere
values that look like numbers are numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter, signature
from typing import Any, Final

import msgspec

from dovetail.codec.text.suggestions import nearest_match, suggest
from dovetail.core.disruption.policy import DEFAULT_POLICY, Move, Offer, Policy, Search
from dovetail.errors import DovetailError

GROUP: Final = "dovetail.policies"
"""Entry point group, and the package of the examples."""
BUILT_IN: Final[Mapping[str, Policy]] = {
    DEFAULT_POLICY.name: DEFAULT_POLICY,
    "karpenter": Policy("karpenter", Search.KARPENTER),
}
"""Policies that take every move of a search."""
EXAMPLES: Final[Mapping[str, EntryPoint]] = {
    "payback": EntryPoint("payback", f"{GROUP}.payback:Payback", GROUP),
    "quiet-hours": EntryPoint("quiet-hours", f"{GROUP}.quiet_hours:QuietHours", GROUP),
}
"""Plug-ins that Dovetail ships."""
_TYPES: Final = {"`int`": "a whole number", "`float`": "a number", "`bool`": "true or false"}
"""Types in errors of msgspec → words of users."""


class PolicyLoadError(DovetailError):
    """A policy does not exist, cannot be imported, or does not take its options."""


def find_policy(text: str) -> Policy | EntryPoint:
    """Return a built-in policy, or the entry point of a plug-in.

    Names of Dovetail come first: an installed package cannot replace what runs by default.
    Raises ``PolicyLoadError`` if there is none, or more than one.
    """
    name, *options = text.split(":")
    if name in BUILT_IN:
        if options:
            raise PolicyLoadError(f"policy {name!r} takes no options")
        return BUILT_IN[name]
    if name in EXAMPLES:
        return EXAMPLES[name]
    installed = _find_installed()
    if name not in installed:
        names = sorted({*BUILT_IN, *EXAMPLES, *installed})
        match = nearest_match(name, names, cutoff=0.6)
        hint = f"; did you mean {match!r}?" if match is not None else "."
        raise PolicyLoadError(f"policy {name!r} is not installed{hint} Installed: {', '.join(names)}")
    first, *others = installed[name]
    if others:
        raise PolicyLoadError(_describe_clash(name, installed[name]))
    return first


def find_clashes() -> tuple[str, ...]:
    """Return a sentence for each installed plug-in that its name cannot choose."""
    return tuple(
        _describe_clash(name, points)
        for name, points in _find_installed().items()
        if len(points) > 1 or name in BUILT_IN or name in EXAMPLES
    )


def _find_installed() -> dict[str, list[EntryPoint]]:
    """Return the plug-ins of other packages by name; more than one: packages that clash."""
    installed: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        points = installed.setdefault(point.name, [])
        if not points or points[-1].value != point.value:
            points.append(point)
    return installed


def _describe_clash(name: str, points: Iterable[EntryPoint]) -> str:
    places = " and ".join(point.value for point in points)
    if name in BUILT_IN or name in EXAMPLES:
        return f"policy {name!r} is that of Dovetail; rename {places} in its package"
    return f"policy {name!r} is ambiguous: {places} have this name; remove one of their packages"


def load_plugin(text: str) -> Callable[[Offer], Iterable[Move]]:
    """Import a plug-in and create it with its options; raise ``PolicyLoadError``."""
    point = find_policy(text)
    if not isinstance(point, EntryPoint):
        raise PolicyLoadError(f"policy {text!r} is built in")
    name, *options = text.split(":")
    given = _split_options(name, options)
    try:
        factory = point.load()
    except Exception as error:
        message = f"policy {name!r}: {point.value} cannot be imported: {type(error).__name__}: {error}"
        raise PolicyLoadError(message) from error
    if not isinstance(factory, type):
        raise PolicyLoadError(f"policy {name!r}: {point.value} is not a class")
    _check_options(name, factory, given)
    arguments = dict(_convert_options(name, factory, given))
    try:
        plugin: Callable[[Offer], Iterable[Move]] = factory(**arguments)
    except Exception as error:
        raise PolicyLoadError(f"policy {text!r}: {type(error).__name__}: {error}") from error
    if not callable(plugin):
        raise PolicyLoadError(f"policy {name!r}: instances of {point.value} cannot be called")
    return plugin


def _split_options(policy: str, options: Iterable[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for text in options:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise PolicyLoadError(f"policy {policy!r}: {text!r} is not OPTION=VALUE")
        if name in given:
            raise PolicyLoadError(f"policy {policy!r}: option {name!r} is given twice")
        given[name] = value
    return given


def _convert_options(policy: str, factory: type, given: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a plug-in's class; raise ``PolicyLoadError`` for a wrong value."""
    types: dict[str, Any] = {}
    if issubclass(factory, msgspec.Struct):
        types = {field.name: field.type for field in msgspec.structs.fields(factory)}
    for option, value in given.items():
        if option not in types:
            yield option, _guess_value(value)
            continue
        try:
            yield option, msgspec.convert(value, type=types[option], strict=False)
        except msgspec.ValidationError as error:
            expected = str(error).partition(", got ")[0]
            for name, words in _TYPES.items():
                expected = expected.replace(name, words)
            message = f"policy {policy!r}: {option}={value}: {expected[:1].lower()}{expected[1:]}"
            raise PolicyLoadError(message) from error


def _guess_value(text: str) -> int | float | str:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def _check_options(policy: str, factory: type, options: Iterable[str]) -> None:
    try:
        parameters = signature(factory).parameters.values()
    except ValueError as error:
        raise PolicyLoadError(f"policy {policy!r}: {error}") from error
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return
    names = [parameter.name for parameter in parameters]
    for option in options:
        if option not in names:
            hint = suggest(option, names) if names else "; it has none"
            raise PolicyLoadError(f"policy {policy!r} has no option {option!r}{hint}")
