"""Printer columns of RBAC, network and quota kinds, which the simulator only stores."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.rest.tables.column import (
    AGE,
    NAME,
    NONE,
    Cell,
    CellPrinter,
    Column,
    join_or_none,
    print_length,
    print_selector,
    print_text,
)

_UNSET: Final = "<unset>"
_MAX_ENDPOINTS: Final = 3

ROLE_COLUMNS: Final = (NAME, Column("Created At", print_text("metadata", "creationTimestamp"), type="date"))


def _print_role(obj: Object, _: datetime) -> Cell:
    role = obj.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


def _print_subjects(kind: str) -> CellPrinter:
    def print_cell(obj: Object, _: datetime) -> Cell:
        subjects = [subject for subject in obj.get("subjects") or () if subject.get("kind") == kind]
        names = (
            f"{subject['namespace']}/{subject.get('name', '')}"
            if subject.get("namespace")
            else subject.get("name", "")
            for subject in subjects
        )
        return ", ".join(names)

    return print_cell


BINDING_COLUMNS: Final = (
    NAME,
    Column("Role", _print_role),
    AGE,
    Column("Users", _print_subjects("User"), wide=True),
    Column("Groups", _print_subjects("Group"), wide=True),
    Column("ServiceAccounts", _print_subjects("ServiceAccount"), wide=True),
)


def _print_hosts(obj: Object, _: datetime) -> Cell:
    hosts = [rule["host"] for rule in get_field(obj, "spec", "rules") or () if rule.get("host")]
    shown = ",".join(hosts[:_MAX_ENDPOINTS]) or "*"
    return f"{shown} + {len(hosts) - _MAX_ENDPOINTS} more..." if len(hosts) > _MAX_ENDPOINTS else shown


def _print_addresses(obj: Object, _: datetime) -> Cell:
    entries = get_field(obj, "status", "loadBalancer", "ingress") or ()
    return ",".join(entry.get("ip") or entry.get("hostname") or "" for entry in entries)


INGRESS_COLUMNS: Final = (
    NAME,
    Column("Class", print_text("spec", "ingressClassName", missing=NONE)),
    Column("Hosts", _print_hosts),
    Column("Address", _print_addresses),
    Column("Ports", lambda obj, _: "80, 443" if get_field(obj, "spec", "tls") else "80"),
    AGE,
)


def _print_parameters(obj: Object, _: datetime) -> Cell:
    parameters = get_field(obj, "spec", "parameters")
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"


INGRESS_CLASS_COLUMNS: Final = (
    NAME,
    Column("Controller", print_text("spec", "controller")),
    Column("Parameters", _print_parameters),
    AGE,
)
NETWORK_POLICY_COLUMNS: Final = (NAME, Column("Pod-Selector", print_selector("spec", "podSelector")), AGE)


def _print_slice_ports(obj: Object, _: datetime) -> Cell:
    ports = (str(port.get("port") or port.get("name") or _UNSET) for port in obj.get("ports") or ())
    return join_or_none(ports) if obj.get("ports") else _UNSET


def _print_endpoints(obj: Object, _: datetime) -> Cell:
    addresses = [address for entry in obj.get("endpoints") or () for address in entry.get("addresses") or ()]
    if not addresses:
        return _UNSET
    shown = ",".join(addresses[:_MAX_ENDPOINTS])
    more = len(addresses) - _MAX_ENDPOINTS
    return f"{shown} + {more} more..." if more > 0 else shown


def _print_subsets(obj: Object, _: datetime) -> Cell:
    endpoints = []
    for subset in obj.get("subsets") or ():
        addresses = [str(address.get("ip", "")) for address in subset.get("addresses") or ()]
        ports = [f":{port.get('port', '')}" for port in subset.get("ports") or ()] or [""]
        endpoints += [f"{address}{port}" for port in ports for address in addresses]
    more = len(endpoints) - _MAX_ENDPOINTS
    shown = join_or_none(endpoints[:_MAX_ENDPOINTS])
    return f"{shown} + {more} more..." if more > 0 else shown


ENDPOINT_COLUMNS: Final = (NAME, Column("Endpoints", _print_subsets), AGE)
ENDPOINT_SLICE_COLUMNS: Final = (
    NAME,
    Column("AddressType", print_text("addressType")),
    Column("Ports", _print_slice_ports),
    Column("Endpoints", _print_endpoints),
    AGE,
)


def _print_usage(*, limits: bool) -> CellPrinter:
    def print_cell(obj: Object, _: datetime) -> Cell:
        return ", ".join(_format_usage(obj, limits=limits))

    return print_cell


def _format_usage(obj: Object, *, limits: bool) -> Iterator[str]:
    hard: Mapping[str, Any] = get_field(obj, "status", "hard") or {}
    used: Mapping[str, Any] = get_field(obj, "status", "used") or {}
    for name in sorted(hard):
        if name.startswith("limits") == limits:
            yield f"{name}: {used.get(name, 0)}/{hard[name]}"


QUOTA_COLUMNS: Final = (
    NAME,
    Column("Request", _print_usage(limits=False)),
    Column("Limit", _print_usage(limits=True)),
    AGE,
)


def _print_names(*path: str, fields: tuple[str, str]) -> CellPrinter:
    """Print two fields of a reference as ``first/second``."""

    def print_cell(obj: Object, _: datetime) -> Cell:
        reference = get_field(obj, *path)
        return "/".join(reference[name] for name in fields if reference.get(name)) if reference else _UNSET

    return print_cell


def _print_api_service(obj: Object, _: datetime) -> Cell:
    service = get_field(obj, "spec", "service")
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _print_available(obj: Object, _: datetime) -> Cell:
    conditions = get_field(obj, "status", "conditions") or ()
    available = next((entry for entry in conditions if entry.get("type") == "Available"), None)
    if available is None:
        return "Unknown"
    status, reason = str(available.get("status", "")), available.get("reason")
    return f"{status} ({reason})" if status != "True" and reason else status


API_SERVICE_COLUMNS: Final = (
    NAME,
    Column("Service", _print_api_service),
    Column("Available", _print_available),
    AGE,
)
VALIDATING_POLICY_COLUMNS: Final = (
    NAME,
    Column("Validations", print_length("spec", "validations"), type="integer"),
    Column("ParamKind", _print_names("spec", "paramKind", fields=("apiVersion", "kind"))),
    AGE,
)
VALIDATING_POLICY_BINDING_COLUMNS: Final = (
    NAME,
    Column("PolicyName", print_text("spec", "policyName")),
    Column("ParamRef", _print_names("spec", "paramRef", fields=("namespace", "name"))),
    AGE,
)
WEBHOOK_COLUMNS: Final = (NAME, Column("Webhooks", print_length("webhooks"), type="integer"), AGE)
