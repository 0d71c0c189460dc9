"""Loading of consolidation policies: built-in names and entry points.

A policy is written ``NAME`` or ``NAME:OPTION=VALUE:OPTION=VALUE``. Options are keyword
arguments of the plug-in's class; values that look like numbers are numbers.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Final

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
_EXAMPLES: Final = (
    EntryPoint("payback", f"{GROUP}.payback:Payback", GROUP),
    EntryPoint("quiet-hours", f"{GROUP}.quiet_hours:QuietHours", GROUP),
)


class PolicyLoadError(DovetailError):
    """A policy does not exist, cannot be imported, or does not take its options."""


def find_entry_points() -> dict[str, EntryPoint]:
    """Return the plug-ins by name, the shipped examples among them.

    Raises ``PolicyLoadError`` if two packages have a policy of one name.
    """
    installed = {point.name: point for point in _EXAMPLES}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        other = installed.setdefault(point.name, point)
        if point.name in BUILT_IN or other.value != point.value:
            taken = "a built-in policy" if point.name in BUILT_IN else other.value
            raise PolicyLoadError(f"policy {point.name!r}: {point.value} has the name of {taken}")
    return installed


def find_policy(text: str) -> Policy | EntryPoint:
    """Return a built-in policy or the entry point of a plug-in; raise ``PolicyLoadError``."""
    name, *options = text.split(":")
    installed = find_entry_points()
    if name in installed:
        return installed[name]
    if name not in BUILT_IN:
        names = sorted([*BUILT_IN, *installed])
        match = nearest_match(name, names, cutoff=0.6)
        hint = f"; did you mean {match!r}?" if match is not None else "."
        raise PolicyLoadError(f"policy {name!r} is not installed{hint} Installed: {', '.join(names)}")
    if options:
        raise PolicyLoadError(f"policy {name!r} takes no options")
    return BUILT_IN[name]


def load_plugin(text: str) -> Callable[[Offer], Iterable[Move]]:
    """Import a plug-in and create it with its options; raise ``PolicyLoadError``."""
    point = find_policy(text)
    if not isinstance(point, EntryPoint):
        raise PolicyLoadError(f"policy {text!r} is built in")
    name, *options = text.split(":")
    arguments = dict(_parse_option(name, option) for option in options)
    try:
        factory = point.load()
    except Exception as error:
        message = f"policy {name!r}: {point.value} cannot be imported: {type(error).__name__}: {error}"
        raise PolicyLoadError(message) from error
    if not isinstance(factory, type):
        raise PolicyLoadError(f"policy {name!r}: {point.value} is not a class")
    _check_options(name, factory, arguments)
    try:
        plugin: Callable[[Offer], Iterable[Move]] = factory(**arguments)
    except Exception as error:
        raise PolicyLoadError(f"policy {text!r}: {type(error).__name__}: {error}") from error
    if not callable(plugin):
        raise PolicyLoadError(f"policy {name!r}: instances of {point.value} cannot be called")
    return plugin


def hash_plugin(text: str) -> str:
    """Return a hash of the module that a policy is in; empty: it belongs to this release."""
    point = find_policy(text)
    if not isinstance(point, EntryPoint) or point in _EXAMPLES:
        return ""
    try:
        spec = find_spec(point.module)
        code = Path(spec.origin).read_bytes() if spec is not None and spec.origin else b""
    except (ImportError, OSError, ValueError):
        code = b""
    return sha256(point.value.encode() + code).hexdigest()


def _parse_option(policy: str, text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise PolicyLoadError(f"policy {policy!r}: {text!r} is not OPTION=VALUE")
    for convert in (int, float):
        try:
            return name, convert(value)
        except ValueError:
            continue
    return name, value


def _check_options(policy: str, factory: type, options: Iterable[str]) -> None:
    parameters = signature(factory).parameters.values()
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return
    names = [parameter.name for parameter in parameters]
    for option in options:
        if option not in names:
            hint = suggest(option, names) if names else "; it has none"
            raise PolicyLoadError(f"policy {policy!r} has no option {option!r}{hint}")
