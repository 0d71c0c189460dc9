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
_PARALLEL = 8
_QPS = 10_000.0
"""Above what the API server can do: thousands of objects are sent."""
_DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}


def admission_errors(cluster: Cluster, objects: Sequence[dict[str, Any]]) -> list[str]:
    """Return the error of creating each object by dry run; empty if it is accepted."""
    return asyncio.run(_admission_errors(cluster, objects))


async def _admission_errors(cluster: Cluster, objects: Sequence[dict[str, Any]]) -> list[str]:
    limiter = RateLimiter(clock=SystemClock().seconds, qps=_QPS)
    connection = Connection(cluster.access(), rate_limiter=limiter, user_agent="tests")
    slots = asyncio.Semaphore(_PARALLEL)

    async def create(obj: dict[str, Any]) -> str:
        async with slots:
            return await _admission_error(connection, obj)

    try:
        return await asyncio.gather(*map(create, objects))
    finally:
        await connection.close()


async def _admission_error(connection: Connection, obj: dict[str, Any]) -> str:
    path = _PATHS[obj["apiVersion"], obj["kind"]]
    try:
        await connection.request("POST", path, query=_DRY_RUN, body=obj)
    except ApiError as error:
        return str(error)
    return ""
