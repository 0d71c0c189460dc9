"""What a pod and a pod template must be like for Kubernetes to take them."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.codec.fields import Field, Findings
from dovetail.codec.kube.affinity import affinity, spreads
from dovetail.codec.kube.requirements import tolerations
from dovetail.codec.text.field_path import show
from dovetail.model.frozen import EMPTY
from dovetail.model.kube.quantity import parse_amount
from dovetail.simulator.apiserver.admission.status_causes import Cause, invalid, required

LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_RESTARTS: Final = ("Always", "OnFailure", "Never")
_MOST_KNOWN: Final = 10_000


class PodRules:
    """Checks pod specs, remembering parts that were found to be good.

    Pods of one template have the same parts, so that a thousand of them cost
    little more than one.
    """

    def __init__(self) -> None:
        self._good: set[tuple[str, bytes]] = set()

    def broken(self, spec: Mapping[str, Any], place: str) -> Iterator[Cause]:
        """Tell every rule that a pod spec breaks; ``place`` is the way to it."""
        if not spec.get("containers"):
            yield required(f"{place}.containers")
        policy = spec.get("restartPolicy", "Always")
        if policy not in _RESTARTS:
            yield _unsupported(f"{place}.restartPolicy", policy, _RESTARTS)
        grace = spec.get("terminationGracePeriodSeconds", 0)
        if not isinstance(grace, int) or grace < 0:
            yield invalid(f"{place}.terminationGracePeriodSeconds", f"{grace!r} is negative")
        for name, rule in _PARTS:
            part = spec.get(name)
            if not part:
                continue
            key = (name, msgspec.json.encode(part))
            if key in self._good:
                continue
            causes = list(rule(part, f"{place}.{name}"))
            if causes:
                yield from causes
            else:
                self._remember(key)

    def _remember(self, key: tuple[str, bytes]) -> None:
        if len(self._good) >= _MOST_KNOWN:
            self._good.clear()
        self._good.add(key)


def _containers(containers: Any, place: str) -> Iterator[Cause]:
    names: set[Any] = set()
    for at, one in enumerate(containers if isinstance(containers, list) else ()):
        here = f"{place}[{at}]"
        if not isinstance(one, dict):
            yield invalid(here, "a container is a map")
            continue
        name = one.get("name")
        if not name:
            yield required(f"{here}.name")
        elif not isinstance(name, str) or not LABEL.fullmatch(name):
            yield invalid(f"{here}.name", f"{name!r} is no lowercase RFC 1123 label")
        elif name in names:
            yield f"{here}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"'
        names.add(name)
        if not one.get("image"):
            yield required(f"{here}.image")
        yield from _ports(one.get("ports"), f"{here}.ports")
        yield from _resources(one.get("resources"), f"{here}.resources")


def _ports(ports: Any, place: str) -> Iterator[Cause]:
    for at, one in enumerate(ports if isinstance(ports, list) else ()):
        if isinstance(one, dict) and not one.get("containerPort"):
            yield required(f"{place}[{at}].containerPort")


def _resources(resources: Any, place: str) -> Iterator[Cause]:
    if not isinstance(resources, dict):
        return
    amounts: dict[tuple[str, str], int] = {}
    for part in ("limits", "requests"):
        for name, value in (resources.get(part) or {}).items():
            field = f"{place}.{part}[{name}]"
            try:
                amount = parse_amount(name, value)
            except ValueError:
                yield invalid(field, f"{value!r} is no quantity")
                continue
            if amount < 0:
                yield invalid(field, f"{value!r}: must be greater than or equal to 0")
            amounts[part, name] = amount
    for (part, name), asked in amounts.items():
        limit = amounts.get(("limits", name), asked)
        if part == "requests" and asked > limit:
            value = resources["requests"][name]
            yield invalid(
                f"{place}.requests", f'"{value}": must be less than or equal to {name} limit'
            )


def _labels(labels: Any, place: str) -> Iterator[Cause]:
    for key, value in labels.items() if isinstance(labels, dict) else ():
        if not isinstance(value, str):
            yield invalid(f"{place}[{key}]", f"{value!r} is no string")


def _read_by(read: Callable[[Field], object]) -> Callable[[Any, str], Iterator[Cause]]:
    """Make a rule of what reads a part of a file."""

    def rule(part: Any, place: str) -> Iterator[Cause]:
        findings = Findings(by_the_letter=True)
        read(Field(part, findings))
        for path, message in findings.found:
            inside = show(path)
            yield invalid(f"{place}.{inside}".replace(".[", "["), message)

    return rule


_PARTS: Final[tuple[tuple[str, Callable[[Any, str], Iterator[Cause]]], ...]] = (
    ("initContainers", _containers),
    ("containers", _containers),
    ("nodeSelector", _labels),
    ("affinity", _read_by(lambda field: affinity(field, EMPTY))),
    ("tolerations", _read_by(tolerations)),
    ("topologySpreadConstraints", _read_by(spreads)),
)


def template_restarts(spec: Mapping[str, Any], place: str, *allowed: str) -> Iterator[Cause]:
    """Tell when pods of a template are restarted as its workload does not allow."""
    policy = spec.get("restartPolicy", "Always")
    if policy not in allowed:
        yield _unsupported(f"{place}.restartPolicy", policy, allowed)


def _unsupported(field: str, value: Any, known: tuple[str, ...]) -> Cause:
    names = ", ".join(f'"{one}"' for one in known)
    told = f'Unsupported value: "{value}": supported values: {names}'
    return field, "FieldValueNotSupported", told
