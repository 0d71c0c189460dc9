"""What may be done (by RBAC rules) and what is done (by the code), as the same kind of pairs."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dovetail
from dovetail.model.settings import Gates
from dovetail.ports import api_resources
from dovetail.ports.api_resources import PODS, Resource
from dovetail.state.cluster.decoders import mirrored

_SOURCE = Path(dovetail.__file__).parent
_VERBS = {"get", "list", "create", "patch", "delete", "evict"}
_NOT_OURS = (
    "state/cluster/write_through.py",  # Asks for what it was asked for.
    "operator/virtual/",  # Plays the nodes, which no chart installs.
    "operator/list_cluster.py",  # Looks with the rights of whoever sits before it.
)
_CHOSEN_LATER: dict[str, tuple[Resource, ...]] = {
    "controllers/capacitybuffer.py": (
        api_resources.POD_TEMPLATES,
        api_resources.DEPLOYMENTS,
        api_resources.STATEFUL_SETS,
        api_resources.REPLICA_SETS,
    ),
    "controllers/nodeclaim/capacity_reservation.py": (
        api_resources.NODES,
        api_resources.NODE_CLAIMS,
    ),
}
"""Where the kind comes in a variable: what it can be."""
EVERYTHING = Gates(**dict.fromkeys(Gates.__struct_fields__, True))


class Permission(NamedTuple):
    """One thing that may be done, or is."""

    group: str
    resource: str
    """With its subresource: ``pods/eviction``."""
    verb: str


def permission(resource: Resource, verb: str, subresource: str = "") -> Permission:
    if verb == "evict":
        verb, subresource = "create", "eviction"
    part = f"/{subresource}" if subresource else ""
    return Permission(resource.group, resource.plural + part, verb)


def granted(rules: Iterable[dict[str, Any]]) -> set[Permission]:
    """Return what RBAC rules allow, whatever the name and the namespace."""
    return {
        Permission(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def watched(gates: Gates = EVERYTHING) -> set[Permission]:
    """Return what keeping the mirror takes."""
    return {permission(one, verb) for one in mirrored(gates) for verb in ("list", "watch")}


def asked_for() -> set[Permission]:
    """Return what the code asks of ``ports.kube_client``, read from its text, on every path."""
    found: set[Permission] = set()
    for package in ("controllers", "operator", "kube", "state"):
        for file in sorted((_SOURCE / package).rglob("*.py")):
            if not str(file.relative_to(_SOURCE)).startswith(_NOT_OURS):
                found.update(_in_file(file))
    return found


def _in_file(file: Path) -> Iterator[Permission]:
    for call in ast.walk(ast.parse(file.read_text())):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        if call.func.attr in _VERBS and ast.unparse(call.func.value).endswith("kube"):
            for resource in _resources(call, file):
                yield permission(resource, call.func.attr, _subresource(call))


def _resources(call: ast.Call, file: Path) -> tuple[Resource, ...]:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "evict":
        return (PODS,)
    named = getattr(api_resources, ast.unparse(call.args[0]).rpartition(".")[2], None)
    if isinstance(named, Resource):
        return (named,)
    where = str(file.relative_to(_SOURCE))
    assert where in _CHOSEN_LATER, f"{where}:{call.lineno}: what kind is that?"
    return _CHOSEN_LATER[where]


def _subresource(call: ast.Call) -> str:
    for one in call.keywords:
        if one.arg == "subresource":
            assert isinstance(one.value, ast.Constant)
            return str(one.value.value)
    return ""
