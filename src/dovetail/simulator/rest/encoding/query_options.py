"""Decoding of request options: query parameters, and DeleteOptions in the body."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from dovetail.ports.kube_errors import BadRequest, Invalid
from dovetail.simulator.apiserver.options import (
    DeleteOptions,
    ListOptions,
    PropagationPolicy,
    WatchOptions,
    WriteOptions,
)
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.rest.paths import RequestInfo

Query = Mapping[str, str]

_TRUE: Final = ("true", "True", "TRUE", "1", "t", "T")
_FALSE: Final = ("", "false", "False", "FALSE", "0", "f", "F")
_MAX_FIELD_MANAGER: Final = 128
"""Characters in the name of a field manager."""
_MAX_INT: Final = 2**31 - 1


class FieldValidation(StrEnum):
    """Values of ``fieldValidation``; Strict rejects unknown fields, the others drop them."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"

    def warnings(self, kind: str, version: str, unknown_fields: list[str]) -> list[str]:
        """Return the warnings for unknown fields; BadRequest if validation is strict."""
        warnings = [f'unknown field "{field}"' for field in unknown_fields]
        if warnings and self is FieldValidation.STRICT:
            raise BadRequest(
                f'{kind} in version "{version}" cannot be handled as a {kind}: '
                f"strict decoding error: {', '.join(warnings)}"
            )
        return warnings if self is FieldValidation.WARN else []


def parse_bool(query: Query, name: str) -> bool:
    """Return a boolean parameter; False if absent."""
    value = query.get(name, "")
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise BadRequest(f"{name}: {value!r} is neither true nor false")


def parse_int(query: Query, name: str) -> int | None:
    """Return a non-negative integer parameter; None if absent."""
    value = query.get(name, "")
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 11 and int(value) <= _MAX_INT):
        raise BadRequest(f"{name}: {value!r} is not an integer from 0 to {_MAX_INT}")
    return int(value)


def decode_field_validation(query: Query) -> FieldValidation:
    """Return the field validation; kubectl requests Strict, the default is Warn."""
    value = query.get("fieldValidation", "") or FieldValidation.WARN
    if value not in list(FieldValidation):
        raise Invalid(f"fieldValidation: Unsupported value: {value!r}")
    return FieldValidation(value)


def decode_list_options(info: RequestInfo, query: Query) -> ListOptions:
    """Return the options of a list or deletecollection."""
    limit = parse_int(query, "limit") or 0
    version = query.get("resourceVersion", "")
    match = query.get("resourceVersionMatch", "")
    token = query.get("continue", "")
    if match not in ("", "Exact", "NotOlderThan") or (match and not version) or (match and token):
        raise _invalid_list_options(f"resourceVersionMatch: {match!r} is not allowed here")
    if match == "Exact" and version == "0":
        raise _invalid_list_options('resourceVersionMatch: "Exact" is not allowed with "0"')
    if token and version not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
    return ListOptions(
        namespace=info.namespace,
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        limit=limit,
        continue_token=token,
        resource_version=version,
        # Legacy: a limit with a resourceVersion and without a match means Exact.
        exact=match == "Exact" or (not match and limit > 0 and version not in ("", "0")),
    )


def decode_watch_options(info: RequestInfo, query: Query, *, newest: str) -> WatchOptions:
    """Return the options of a watch; ``newest`` is the current resourceVersion."""
    send_initial_events = parse_bool(query, "sendInitialEvents")
    match = query.get("resourceVersionMatch", "")
    if ("sendInitialEvents" in query) != (match == "NotOlderThan") or match == "Exact":
        raise _invalid_list_options(
            "resourceVersionMatch: sendInitialEvents requires NotOlderThan and vice versa"
        )
    version = query.get("resourceVersion", "")
    if "sendInitialEvents" in query and not send_initial_events and version in ("", "0"):
        version = newest
    fields = query.get("fieldSelector", "")
    if info.name:
        fields = ",".join(filter(None, (fields, f"metadata.name={info.name}")))
    return WatchOptions(
        namespace=info.namespace,
        label_selector=query.get("labelSelector", ""),
        field_selector=fields,
        resource_version=version,
        allow_bookmarks=parse_bool(query, "allowWatchBookmarks"),
        send_initial_events=send_initial_events,
    )


def decode_write_options(query: Query, user_agent: str) -> WriteOptions:
    """Return the options of a write.

    As in Kubernetes, the default field manager is the program in the User-Agent.
    """
    manager = query.get("fieldManager", "") or user_agent.partition("/")[0]
    if len(manager) > _MAX_FIELD_MANAGER or not manager.isprintable():
        raise Invalid(
            f"fieldManager: Invalid value: must have at most {_MAX_FIELD_MANAGER} printable characters"
        )
    return WriteOptions(field_manager=manager, dry_run=_decode_dry_run(query.get("dryRun", "")))


def decode_delete_options(query: Query, body: Mapping[str, Any]) -> DeleteOptions:
    """Return the options of a deletion; the body takes precedence over the query."""
    grace_period = body.get("gracePeriodSeconds")
    if grace_period is None:
        grace_period = parse_int(query, "gracePeriodSeconds")
    elif (
        not isinstance(grace_period, int)
        or isinstance(grace_period, bool)
        or not 0 <= grace_period <= _MAX_INT
    ):
        raise BadRequest(f"gracePeriodSeconds: {grace_period!r} is not a non-negative integer")
    dry_run = body.get("dryRun") or query.get("dryRun", "")
    return DeleteOptions(
        grace_period_seconds=grace_period,
        propagation_policy=_decode_propagation_policy(query, body),
        uid=_get_string(body, "preconditions", "uid"),
        resource_version=_get_string(body, "preconditions", "resourceVersion"),
        dry_run=_decode_dry_run(dry_run[0] if isinstance(dry_run, list) and len(dry_run) == 1 else dry_run),
    )


def _decode_propagation_policy(query: Query, body: Mapping[str, Any]) -> PropagationPolicy:
    if body.get("orphanDependents") is True or parse_bool(query, "orphanDependents"):
        return PropagationPolicy.ORPHAN
    policy = body.get("propagationPolicy") or query.get("propagationPolicy", "")
    if not policy:
        return PropagationPolicy.BACKGROUND
    if policy not in list(PropagationPolicy):
        raise Invalid(
            f"DeleteOptions is invalid: propagationPolicy: Unsupported value: {policy!r}: "
            f"supported values: {', '.join(PropagationPolicy)}"
        )
    return PropagationPolicy(policy)


def _get_string(body: Mapping[str, Any], *path: str) -> str:
    value = get_field(body, *path)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{'.'.join(path)}: {value!r} is not a string")
    return value or ""


def _decode_dry_run(value: Any) -> bool:
    if value not in ("", "All"):
        raise Invalid(f'dryRun: Unsupported value: {value!r}: supported values: "All"')
    return bool(value)


def _invalid_list_options(message: str) -> Invalid:
    return Invalid(f"ListOptions.meta.k8s.io is invalid: {message}", kind="ListOptions")
