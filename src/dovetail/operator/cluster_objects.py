"""Raw objects of a cluster, and its savings ledger: from dumps, or listed; only read."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from dovetail import __version__
from dovetail.codec.inputs.collection import NamedFile, get_latest_time
from dovetail.codec.savings_ledger import decode_ledger
from dovetail.codec.text.documents import ManifestReader
from dovetail.errors import DovetailError, InvalidInputError
from dovetail.host.clock import SystemClock
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.preflight import kubernetes_version
from dovetail.kube.rate_limit import RateLimiter
from dovetail.kube.server_clock import ServerClock
from dovetail.model.savings import LEDGER_CONFIG_MAP, SavingsLedger
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import ApiError, NotFound

READ: Final = (
    kinds.NODES,
    kinds.PODS,
    kinds.NODE_POOLS,
    kinds.NODE_CLAIMS,
    kinds.EC2_NODE_CLASSES,
    kinds.DEPLOYMENTS,
    kinds.REPLICA_SETS,
    kinds.STATEFUL_SETS,
    kinds.DAEMON_SETS,
    kinds.JOBS,
    kinds.CRON_JOBS,
    kinds.POD_DISRUPTION_BUDGETS,
    kinds.NAMESPACES,
    kinds.PRIORITY_CLASSES,
    kinds.SERVICES,
    kinds.PERSISTENT_VOLUMES,
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.STORAGE_CLASSES,
    kinds.CSI_NODES,
    kinds.LIMIT_RANGES,
    kinds.RUNTIME_CLASSES,
    kinds.CONTROLLER_REVISIONS,
    kinds.POD_TEMPLATES,
    kinds.NODE_OVERLAYS,
    kinds.CAPACITY_BUFFERS,
)
"""Kinds that a copy of a cluster needs, the most important first."""
OPTIONAL: Final = (
    *(kinds.CONTROLLER_REVISIONS, kinds.POD_TEMPLATES, kinds.NODE_OVERLAYS, kinds.CAPACITY_BUFFERS),
    *(kinds.LIMIT_RANGES, kinds.RUNTIME_CLASSES, kinds.CRON_JOBS, kinds.JOBS, kinds.SERVICES),
)
"""Kinds that many clusters have no objects of, or whose API is not installed."""
_TIMEOUT_SECONDS: Final = 10.0


class ClusterObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of a cluster in wire format, as far as they could be read."""

    objects: tuple[dict[str, Any], ...]
    empty: tuple[Resource, ...] = ()
    """Kinds that were listed and have no objects."""
    missing: tuple[str, ...] = ()
    """Kinds that could not be read, as sentences."""
    version: str = ""
    """Kubernetes version of the API server (``1.35``); empty for dumps."""
    recorded_at: datetime | None = None
    """Time of the API server when they were listed; for dumps, the latest in nodes and pods, if any."""

    @property
    def empty_lists(self) -> list[dict[str, Any]]:
        """A typed List of each kind without objects: in a dump, it says that the kind was listed."""
        return [
            {"apiVersion": kind.api_version, "kind": f"{kind.kind}List", "items": []} for kind in self.empty
        ]

    @staticmethod
    def from_objects(
        objects: Iterable[dict[str, Any]], *, empty: Iterable[Resource] = (), missing: Iterable[str] = ()
    ) -> "ClusterObjects":
        """Return objects with the time at which they were recorded."""
        kept = tuple(objects)
        latest = max((get_latest_time(obj) for obj in kept if obj.get("kind") in ("Node", "Pod")), default="")
        try:
            recorded_at = msgspec.convert(latest, datetime) if latest else None
        except msgspec.ValidationError:
            recorded_at = None
        return ClusterObjects(
            objects=kept, empty=tuple(empty), missing=tuple(missing), recorded_at=recorded_at
        )


def read_dumps(files: Sequence[NamedFile]) -> ClusterObjects:
    """Return the objects of all files; raise ``InvalidInputError`` if one is not a manifest."""
    reader = ManifestReader()
    objects = [raw.value for name, data in files for raw in reader.read_objects(name, data)]
    if reader.errors:
        raise InvalidInputError(reader.errors)
    seen = {str(obj.get("kind")) for obj in objects}
    without = [kind for kind in READ if kind.kind not in seen]
    empty = [kind for kind in without if kind.kind in reader.listed_kinds]
    missing = [kind.qualified_name for kind in without if kind not in empty and kind not in OPTIONAL]
    sentences = [f"the dump has no {', '.join(missing)}"] if missing else []
    return ClusterObjects.from_objects(objects, empty=empty, missing=sentences)


async def list_objects(access: RestConfig) -> ClusterObjects:
    """List every kind once; kinds that cannot be listed are named, not fatal.

    Raises ``DovetailError`` if the API server does not respond.
    """
    clock = ServerClock(SystemClock())
    connection = _connect(access, clock)
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            version = await kubernetes_version(connection)
        kube = HttpKubeClient(connection)
        lists = await asyncio.gather(*(_list(kube, kind) for kind in READ))
    except TimeoutError as error:
        raise DovetailError(f"{connection.server} gave no answer within {_TIMEOUT_SECONDS:g}s") from error
    except ApiError as error:
        raise DovetailError(str(error)) from error
    finally:
        await connection.close()
    return ClusterObjects(
        objects=tuple(obj for listed in lists if not isinstance(listed, str) for obj in listed),
        empty=tuple(kind for kind, listed in zip(READ, lists, strict=True) if not listed),
        missing=tuple(listed for listed in lists if isinstance(listed, str)),
        version=version,
        recorded_at=clock.now(),
    )


async def _list(kube: HttpKubeClient, kind: Resource) -> list[dict[str, Any]] | str:
    """Return all objects of a kind, or the sentence that says why there are none."""
    try:
        listed = await kube.list(kind)
    except NotFound:
        return f"the API server does not know {kind.qualified_name}"
    except ApiError as error:
        return f"{kind.qualified_name} could not be listed: {error}"
    # Items of a list have no apiVersion and kind.
    return [{**obj, "apiVersion": kind.api_version, "kind": kind.kind} for obj in listed]


async def read_ledger(access: RestConfig, namespace: str = "") -> tuple[SavingsLedger | None, datetime]:
    """Return the savings ledger, if there is one, and the time of the API server.

    Without ``namespace``, it may be in any. Raises ``DovetailError`` if the cluster gives
    no answer or no permission.
    """
    clock = ServerClock(SystemClock())
    connection = _connect(access, clock)
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            kube = HttpKubeClient(connection)
            if namespace:
                ledgers = [await kube.get(kinds.CONFIG_MAPS, LEDGER_CONFIG_MAP, namespace)]
            else:
                fields = f"metadata.name={LEDGER_CONFIG_MAP}"
                ledgers = list(await kube.list(kinds.CONFIG_MAPS, fields=fields))
    except NotFound:
        return None, clock.now()
    except TimeoutError as error:
        raise DovetailError(f"{connection.server} gave no answer within {_TIMEOUT_SECONDS:g}s") from error
    finally:
        await connection.close()
    return decode_ledger(ledgers[0]) if ledgers else None, clock.now()


def _connect(access: RestConfig, clock: ServerClock) -> Connection:
    return Connection(
        access,
        rate_limiter=RateLimiter(clock=asyncio.get_running_loop().time),
        user_agent=f"dovetail/{__version__}",
        server_clock=clock,
    )
