"""Kubernetes permissions: granted by RBAC rules, and requested by the code."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dovetail
from dovetail.model.settings import FeatureGates
from dovetail.ports import api_resources
from dovetail.ports.api_resources import PODS, Resource
from dovetail.state.cluster.decoders import cached_resources

_SOURCE = Path(dovetail.__file__).parent
_VERBS = {"get", "list", "create", "patch", "delete", "evict"}
_EXCLUDED = (
    "state/cluster/write_through.py",  # Forwards requests of others.
    "operator/virtual/",  # Virtual nodes, which no chart installs.
    "operator/cluster_objects.py",  # Runs with the permissions of the user.
    "dashboard/sources/live.py",  # The same.
)
_VARIABLE_RESOURCES: dict[str, tuple[Resource, ...]] = {
    "controllers/capacitybuffer.py": (
        api_resources.POD_TEMPLATES,
        api_resources.DEPLOYMENTS,
        api_resources.STATEFUL_SETS,
        api_resources.REPLICA_SETS,
    ),
    "controllers/patches.py": (),  # Resources of patch_if_exists() count where it is called.
}
"""Module → resources that a variable in its calls can hold."""
ALL_FEATURE_GATES = FeatureGates(**dict.fromkeys(FeatureGates.__struct_fields__, True))


class Permission(NamedTuple):
    """A verb on a resource."""

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
    """Return the permissions of RBAC rules, for any name and namespace."""
    return {
        Permission(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def watched(gates: FeatureGates = ALL_FEATURE_GATES) -> set[Permission]:
    """Return the permissions that the cluster cache needs."""
    return {permission(resource, verb) for resource in cached_resources(gates) for verb in ("list", "watch")}


def requested() -> set[Permission]:
    """Return the permissions of all calls of ``ports.kube_client`` in the source."""
    permissions: set[Permission] = set()
    for package in ("controllers", "operator", "kube", "state"):
        for file in sorted((_SOURCE / package).rglob("*.py")):
            if not str(file.relative_to(_SOURCE)).startswith(_EXCLUDED):
                permissions.update(_in_file(file))
    return permissions


def _in_file(file: Path) -> Iterator[Permission]:
    for call in ast.walk(ast.parse(file.read_text())):
        if not isinstance(call, ast.Call):
            continue
        if isinstance(call.func, ast.Name) and call.func.id == "patch_if_exists":
            verb, arguments = "patch", call.args[1:]
        elif isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value).endswith("kube"):
            verb, arguments = call.func.attr, call.args
        else:
            continue
        if verb in _VERBS:
            for resource in _resources(call, verb, arguments, file):
                yield permission(resource, verb, _subresource(call))


def _resources(call: ast.Call, verb: str, arguments: list[ast.expr], file: Path) -> tuple[Resource, ...]:
    if verb == "evict":
        return (PODS,)
    named = getattr(api_resources, ast.unparse(arguments[0]).rpartition(".")[2], None)
    if isinstance(named, Resource):
        return (named,)
    path = str(file.relative_to(_SOURCE))
    assert path in _VARIABLE_RESOURCES, f"{path}:{call.lineno}: unknown resource"
    return _VARIABLE_RESOURCES[path]


def _subresource(call: ast.Call) -> str:
    for keyword in call.keywords:
        if keyword.arg == "subresource":
            assert isinstance(keyword.value, ast.Constant)
            return str(keyword.value.value)
    return ""
