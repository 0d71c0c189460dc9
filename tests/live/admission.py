"""Admission errors of a live API server, by dry run."""

import asyncio
from collections.abc import Sequence
from typing import Any

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.host.clock import SystemClock
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimiter
from dovetail.ports.kube_errors import ApiError
from tests.live.cluster import Cluster

_PATHS = {
    (f"{definition.group}/{definition.version}", definition.kind): "/".join(
        ("/apis", definition.group, definition.version)
        + (("namespaces", "default") if definition.namespaced else ())
        + (definition.plural,)
    )
    for definition in DEFINITIONS
}
_DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}


def admission_errors(cluster: Cluster, objects: Sequence[dict[str, Any]]) -> list[str]:
    """Return the error of creating each object by dry run; empty if it is accepted."""
    return asyncio.run(_admission_errors(cluster, objects))


async def _admission_errors(cluster: Cluster, objects: Sequence[dict[str, Any]]) -> list[str]:
    connection = Connection(
        cluster.access(), rate_limiter=RateLimiter(clock=SystemClock().seconds), user_agent="tests"
    )
    try:
        return [await _admission_error(connection, obj) for obj in objects]
    finally:
        await connection.close()


async def _admission_error(connection: Connection, obj: dict[str, Any]) -> str:
    path = _PATHS[obj["apiVersion"], obj["kind"]]
    try:
        await connection.request("POST", path, query=_DRY_RUN, body=obj)
    except ApiError as error:
        return str(error)
    return ""
