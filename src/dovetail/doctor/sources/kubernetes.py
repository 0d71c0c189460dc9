"""Facts from a cluster's API server; only ``GET`` is ever sent."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from dovetail import __version__
from dovetail.doctor.api_resources import MAY_BE_UNKNOWN, READ
from dovetail.doctor.facts import Need, Part
from dovetail.kube.auth.kubeconfig import Access
from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimit
from dovetail.ports.api_resources import CONFIG_MAPS, Resource
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import ApiError, NotFound

FIRST_LOOK: Final = 10.0
"""Seconds for the first answer."""
_SILENCE: Final = 10.0
_METRICS_PORT: Final = "8080"


class KubeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server says."""

    objects: Mapping[Resource, tuple[Object, ...]] = {}
    aws_auth: Object | None = None
    unseen: Mapping[Need, str] = {}


def unreadable(why: str) -> KubeFacts:
    """Return that nothing of Kubernetes was seen."""
    parts = (*READ, Part.AWS_AUTH, Part.CONTROLLER, Part.VERSION, Part.METRICS)
    return KubeFacts(unseen=dict.fromkeys(parts, why))


def open_connection(access: Access) -> Connection:
    """Return a connection that asks at a gentle pace."""
    return Connection(
        access,
        limit=RateLimit(clock=asyncio.get_running_loop().time),
        agent=f"dovetail/{__version__}",
    )


async def kube_facts(connection: Connection) -> KubeFacts:
    """List every kind once; what cannot be listed says why."""
    try:
        async with asyncio.timeout(FIRST_LOOK):
            await connection.ask("GET", "/version")
    except TimeoutError:
        return unreadable(f"{connection.server} gave no answer within {FIRST_LOOK:g}s")
    except ApiError as error:
        return unreadable(str(error))
    kube = HttpKube(connection)
    objects: dict[Resource, tuple[Object, ...]] = {}
    unseen: dict[Need, str] = {}
    answers = await asyncio.gather(*(_listed(kube, one) for one in READ))
    for kind, answer in zip(READ, answers, strict=True):
        if isinstance(answer, str):
            unseen[kind] = answer
        else:
            objects[kind] = answer
    aws_auth = None
    try:
        aws_auth = await kube.get(CONFIG_MAPS, "aws-auth", "kube-system")
    except NotFound:
        pass
    except ApiError as error:
        unseen[Part.AWS_AUTH] = f"ConfigMap kube-system/aws-auth: {error}"
    return KubeFacts(objects=objects, aws_auth=aws_auth, unseen=unseen)


async def scraped(connection: Connection, namespace: str, pod: str, port: str) -> tuple[str, ...]:
    """Return the lines of a pod's metrics, read through the API server; raises ``ApiError``."""
    place = f"{pod}:{port or _METRICS_PORT}"
    path = f"/api/v1/namespaces/{namespace}/pods/{place}/proxy/metrics"
    found: list[bytes] = []
    async for lines in connection.lines(path, query={}, silence=_SILENCE):
        found += lines
    return tuple(one.decode(errors="replace") for one in found)


async def _listed(kube: HttpKube, kind: Resource) -> tuple[Object, ...] | str:
    try:
        return tuple(await kube.list(kind))
    except NotFound:
        unknown = f"the API server does not know {kind.qualified}"
        return () if kind in MAY_BE_UNKNOWN else unknown
    except ApiError as error:
        return f"{kind.qualified}: {error}"
