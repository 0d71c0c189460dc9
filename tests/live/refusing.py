"""What a live API server says of objects that it does not take."""

import asyncio
from collections.abc import Sequence
from typing import Any

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.host.clock import RealClock
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimit
from dovetail.ports.kube_errors import ApiError
from tests.live.cluster import Cluster

_PATHS = {
    (f"{one.group}/{one.version}", one.kind): "/".join(
        ("/apis", one.group, one.version)
        + (("namespaces", "default") if one.namespaced else ())
        + (one.plural,)
    )
    for one in DEFINITIONS
}
_DRY = {"dryRun": "All", "fieldValidation": "Strict"}


def refusals(cluster: Cluster, objects: Sequence[dict[str, Any]]) -> list[str]:
    """Try to create each, leaving none behind; what was said, empty for what is taken."""
    return asyncio.run(_refusals(cluster, objects))


async def _refusals(cluster: Cluster, objects: Sequence[dict[str, Any]]) -> list[str]:
    connection = Connection(
        cluster.access(), limit=RateLimit(clock=RealClock().seconds), agent="tests"
    )
    try:
        return [await _refusal(connection, one) for one in objects]
    finally:
        await connection.close()


async def _refusal(connection: Connection, obj: dict[str, Any]) -> str:
    path = _PATHS[obj["apiVersion"], obj["kind"]]
    try:
        await connection.ask("POST", path, query=_DRY, body=obj)
    except ApiError as error:
        return str(error)
    return ""
