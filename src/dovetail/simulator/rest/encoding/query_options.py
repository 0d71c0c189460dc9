"""What a request asks for, from its query and its DeleteOptions."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.ports.kube_errors import BadRequest, Invalid
from dovetail.simulator.apiserver.delete import DeleteOptions, Propagation
from dovetail.simulator.apiserver.options import ListOptions, WatchOptions
from dovetail.simulator.apiserver.storage.frozen_object import look
from dovetail.simulator.apiserver.write import WriteOptions
from dovetail.simulator.rest.paths import Target

Query = Mapping[str, str]

_YES: Final = ("true", "True", "TRUE", "1", "t", "T")
_NO: Final = ("", "false", "False", "FALSE", "0", "f", "F")
_LONGEST_MANAGER: Final = 128
_LARGEST: Final = 2**31 - 1


def flag(query: Query, name: str) -> bool:
    """Return whether a flag is set; BadRequest for what is neither yes nor no."""
    value = query.get(name, "")
    if value in _YES:
        return True
    if value in _NO:
        return False
    raise BadRequest(f"{name}: {value!r} is neither true nor false")


def number(query: Query, name: str) -> int | None:
    """Return a whole number that is not negative, or None."""
    value = query.get(name, "")
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 11 and int(value) <= _LARGEST):
        raise BadRequest(f"{name}: {value!r} is no whole number from 0 to {_LARGEST}")
    return int(value)


def list_options(target: Target, query: Query) -> ListOptions:
    """Return which objects a list or deletecollection is about."""
    limit = number(query, "limit") or 0
    version = query.get("resourceVersion", "")
    match = query.get("resourceVersionMatch", "")
    token = query.get("continue", "")
    if match not in ("", "Exact", "NotOlderThan") or (match and not version) or (match and token):
        raise _invalid_list(f"resourceVersionMatch: {match!r} is not possible here")
    if match == "Exact" and version == "0":
        raise _invalid_list('resourceVersionMatch: "Exact" is not possible with "0"')
    if token and version not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
    return ListOptions(
        namespace=target.namespace,
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=limit,
        continue_from=token,
        resource_version=version,
        # A page of a certain version, asked for before there was a match to ask with.
        exact=match == "Exact" or (not match and limit > 0 and version not in ("", "0")),
    )


def watch_options(target: Target, query: Query, *, newest: str) -> WatchOptions:
    """Return which objects a watch is about and where it begins."""
    initial = flag(query, "sendInitialEvents")
    match = query.get("resourceVersionMatch", "")
    if ("sendInitialEvents" in query) != (match == "NotOlderThan") or match == "Exact":
        raise _invalid_list(
            "resourceVersionMatch: sendInitialEvents goes together with NotOlderThan"
        )
    version = query.get("resourceVersion", "")
    if "sendInitialEvents" in query and not initial and version in ("", "0"):
        version = newest
    fields = query.get("fieldSelector", "")
    if target.name:
        fields = ",".join(filter(None, (fields, f"metadata.name={target.name}")))
    return WatchOptions(
        namespace=target.namespace,
        labels=query.get("labelSelector", ""),
        fields=fields,
        resource_version=version,
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial_events=initial,
    )


def write_options(query: Query, agent: str) -> WriteOptions:
    """Return who writes and whether it counts.

    A writer that does not name itself goes by the program it says it is.
    """
    manager = query.get("fieldManager", "") or agent.partition("/")[0]
    if len(manager) > _LONGEST_MANAGER or not manager.isprintable():
        raise Invalid(f"fieldManager: Invalid value: at most {_LONGEST_MANAGER} printable letters")
    return WriteOptions(manager=manager, dry_run=_dry_run(query.get("dryRun", "")))


def delete_options(query: Query, body: Mapping[str, Any]) -> DeleteOptions:
    """Return how to delete; the body's word goes before the query's."""
    grace = body.get("gracePeriodSeconds")
    if grace is None:
        grace = number(query, "gracePeriodSeconds")
    elif not isinstance(grace, int) or isinstance(grace, bool) or not 0 <= grace <= _LARGEST:
        raise BadRequest(f"gracePeriodSeconds: {grace!r} is no whole number from 0 on")
    dry = body.get("dryRun") or query.get("dryRun", "")
    return DeleteOptions(
        grace_seconds=grace,
        propagation=_propagation(query, body),
        uid=_text(body, "preconditions", "uid"),
        resource_version=_text(body, "preconditions", "resourceVersion"),
        dry_run=_dry_run(dry[0] if isinstance(dry, list) and len(dry) == 1 else dry),
    )


def _propagation(query: Query, body: Mapping[str, Any]) -> Propagation:
    if body.get("orphanDependents") is True or flag(query, "orphanDependents"):
        return Propagation.ORPHAN
    wanted = body.get("propagationPolicy") or query.get("propagationPolicy", "")
    if not wanted:
        return Propagation.BACKGROUND
    if wanted not in list(Propagation):
        raise Invalid(
            f"DeleteOptions is invalid: propagationPolicy: Unsupported value: {wanted!r}: "
            f"supported values: {', '.join(Propagation)}"
        )
    return Propagation(wanted)


def _text(body: Mapping[str, Any], *path: str) -> str:
    value = look(body, *path)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{'.'.join(path)}: {value!r} is no string")
    return value or ""


def _dry_run(value: Any) -> bool:
    if value not in ("", "All"):
        raise Invalid(f'dryRun: Unsupported value: {value!r}: supported values: "All"')
    return bool(value)


def _invalid_list(message: str) -> Invalid:
    return Invalid(f"ListOptions.meta.k8s.io is invalid: {message}", kind="ListOptions")
