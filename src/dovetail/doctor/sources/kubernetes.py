"""Facts from a cluster's API server; only ``GET`` is ever sent."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from dovetail import __version__
from dovetail.doctor.api_resources import MAY_BE_UNKNOWN, READ
from dovetail.doctor.facts import Need, Part
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimiter
from dovetail.ports.api_resources import CONFIG_MAPS, Resource
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import ApiError, NotFound

CONNECT_TIMEOUT: Final = 10.0
"""Timeout of the first response, seconds."""
_IDLE_TIMEOUT: Final = 10.0
"""Seconds without data."""
_METRICS_PORT: Final = "8080"


class KubeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts from the API server."""

    objects: Mapping[Resource, tuple[Object, ...]] = {}
    aws_auth: Object | None = None
    unseen: Mapping[Need, str] = {}


def unreadable(reason: str) -> KubeFacts:
    """Return facts with every Kubernetes part unknown."""
    parts = (*READ, Part.AWS_AUTH, Part.CONTROLLER, Part.VERSION, Part.METRICS)
    return KubeFacts(unseen=dict.fromkeys(parts, reason))


def open_connection(access: RestConfig) -> Connection:
    """Return a rate-limited connection."""
    return Connection(
        access,
        rate_limiter=RateLimiter(clock=asyncio.get_running_loop().time),
        user_agent=f"dovetail/{__version__}",
    )


async def kube_facts(connection: Connection) -> KubeFacts:
    """List every kind once; kinds that cannot be listed are recorded with the reason."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await connection.request("GET", "/version")
    except TimeoutError:
        return unreadable(f"{connection.server} did not respond within {CONNECT_TIMEOUT:g}s")
    except ApiError as error:
        return unreadable(str(error))
    kinds = await list_kinds(connection, READ, optional=MAY_BE_UNKNOWN)
    unseen = dict(kinds.unseen)
    aws_auth = None
    try:
        aws_auth = await HttpKubeClient(connection).get(CONFIG_MAPS, "aws-auth", "kube-system")
    except NotFound:
        pass
    except ApiError as error:
        unseen[Part.AWS_AUTH] = f"ConfigMap kube-system/aws-auth: {error}"
    return KubeFacts(objects=kinds.objects, aws_auth=aws_auth, unseen=unseen)


async def list_kinds(
    connection: Connection, resources: Sequence[Resource], *, optional: Collection[Resource]
) -> KubeFacts:
    """List each kind once; an ``optional`` kind that the server does not know has no objects."""
    kube = HttpKubeClient(connection)
    results = await asyncio.gather(*(_listed(kube, resource, optional) for resource in resources))
    objects: dict[Resource, tuple[Object, ...]] = {}
    unseen: dict[Need, str] = {}
    for kind, result in zip(resources, results, strict=True):
        if isinstance(result, str):
            unseen[kind] = result
        else:
            objects[kind] = result
    return KubeFacts(objects=objects, unseen=unseen)


async def scrape_metrics(connection: Connection, namespace: str, pod: str, port: str) -> tuple[str, ...]:
    """Return the lines of a pod's metrics, through the API server's proxy."""
    target = f"{pod}:{port or _METRICS_PORT}"
    path = f"/api/v1/namespaces/{namespace}/pods/{target}/proxy/metrics"
    text: list[bytes] = []
    async for lines in connection.stream_lines(path, query={}, idle_timeout=_IDLE_TIMEOUT):
        text += lines
    return tuple(line.decode(errors="replace") for line in text)


async def _listed(
    kube: HttpKubeClient, kind: Resource, optional: Collection[Resource]
) -> tuple[Object, ...] | str:
    try:
        return tuple(await kube.list(kind))
    except NotFound:
        unknown = f"the API server does not know {kind.qualified_name}"
        return () if kind in optional else unknown
    except ApiError as error:
        return f"{kind.qualified_name}: {error}"
