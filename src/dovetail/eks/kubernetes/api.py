"""The way into the cluster of a cluster.yaml, which may not be there yet."""

import asyncio
import ssl
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, Final

import msgspec

from dovetail.eks.aws_client import Reach, TookTooLong
from dovetail.eks.kubernetes.token import EksToken
from dovetail.errors import DovetailError
from dovetail.kube.auth.kubeconfig import Access
from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection
from dovetail.kube.paths import path_of
from dovetail.kube.rate_limit import RateLimit
from dovetail.ports.api_resources import Resource as KubeKind
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import Forbidden, NotFound, Unauthorized, Unavailable

FIELD_MANAGER: Final = "dovetail-cluster"
_APPLY: Final = "application/apply-patch+yaml"


class NotLetIn(DovetailError):
    """The cluster is there, and does not know who we are."""


class Where(msgspec.Struct, frozen=True):
    """An API server, and what its certificate is checked against."""

    endpoint: str
    authority: str
    """In base64, as EKS and kubeconfigs have it."""


class KubeApi:
    """A cluster's API: objects of any kind, found by what the server says it serves."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.kube = HttpKube(connection)
        self._served: dict[str, list[Object]] = {}

    async def kind_of(self, api_version: str, kind: str) -> KubeKind | None:
        """Return how a kind is served; None if it is not, or not yet."""
        served = self._served.get(api_version)
        if served is None or not any(one["kind"] == kind for one in served):
            served = await self._resources(api_version)
        group, _, release = api_version.rpartition("/")
        for one in served:
            if one["kind"] == kind and "/" not in one["name"]:
                return KubeKind(group, release, one["name"], kind, bool(one["namespaced"]))
        return None

    async def version(self) -> str:
        """Return the server's version."""
        told = await self._connection.ask("GET", "/version")
        return str(told.get("gitVersion", ""))

    async def get(self, kind: KubeKind, name: str, namespace: str = "") -> Object | None:
        try:
            return await self.kube.get(kind, name, namespace)
        except NotFound:
            return None

    async def all_of(
        self, kind: KubeKind, *, namespace: str = "", labels: str = ""
    ) -> Sequence[Object]:
        """Return the objects of a kind; none where it is not served, or no longer."""
        if await self.kind_of(kind.api_version, kind.kind) is None:
            return []
        try:
            fields = f"metadata.namespace={namespace}" if namespace else ""
            return await self.kube.list(kind, labels=labels, fields=fields)
        except NotFound:
            # Its definition went a moment ago.
            return []

    def forget_kinds(self) -> None:
        """Ask again what is served: somebody may have added or removed a definition."""
        self._served.clear()

    async def apply(self, kind: KubeKind, manifest: Object) -> Object:
        """Have the server make an object as written; what others set of it stays."""
        meta = manifest["metadata"]
        return await self._connection.ask(
            "PATCH",
            path_of(kind, meta["name"], namespace=meta.get("namespace", "")),
            query={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=manifest,
            content_type=_APPLY,
        )

    async def delete(self, kind: KubeKind, name: str, namespace: str = "") -> None:
        """Ask for an object to go; being gone already is success."""
        try:
            await self.kube.delete(kind, name, namespace)
        except NotFound:
            return

    async def _resources(self, api_version: str) -> list[Object]:
        root = "/apis" if "/" in api_version else "/api"
        try:
            told = await self._connection.ask("GET", f"{root}/{api_version}")
        except NotFound:
            return []
        found: list[Any] = told.get("resources") or []
        self._served[api_version] = found
        return found


class KubeDoor:
    """Opens once there is a cluster; ``close`` it at the end."""

    def __init__(self, reach: Reach, *, guard: Callable[[], None] = lambda: None) -> None:
        """``guard`` is asked right before every write, and raises if there must be none."""
        self._reach = reach
        self._guard = guard
        self._opening = asyncio.Lock()
        self._connection: Connection | None = None
        self._api: KubeApi | None = None
        self.credentials = EksToken(reach.aws, cluster=reach.cluster, clock=reach.loop)

    async def where(self) -> Where | None:
        """Return where the API server is; None while there is none."""
        told = await self._reach.ask_if_there("eks", "describe_cluster", name=self._reach.cluster)
        raw = (told or {}).get("cluster") or {}
        if raw.get("status") not in ("ACTIVE", "UPDATING") or not raw.get("endpoint"):
            return None
        return Where(raw["endpoint"], raw["certificateAuthority"]["data"])

    async def open(self) -> KubeApi | None:
        """Return the cluster's API; None while there is no cluster.

        Raises ``NotLetIn`` where the cluster does not know our credentials.
        """
        async with self._opening:
            if self._api is None:
                await self._enter(await self.where())
                await self._greet()
            return self._api

    async def ready(self) -> KubeApi:
        """Wait until the cluster answers us: a new one has no name in DNS for a while."""
        why = "there is no cluster"

        async def look() -> KubeApi | None:
            nonlocal why
            api = await self._anew()
            if api is None:
                return None
            try:
                await api.version()
            except (Unauthorized, Forbidden, Unavailable) as error:
                why = str(error)
                return None
            return api

        try:
            return await self._reach.until(
                "the cluster's API", look, patience=self._reach.pace.settling
            )
        except TookTooLong as error:
            raise TookTooLong(f"{error} ({why})") from error

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = self._api = None

    async def _anew(self) -> KubeApi | None:
        """Open, at the other address if another cluster has come in the place of ours."""
        async with self._opening:
            where = await self.where()
            if self._connection is None or where is None:
                await self._enter(where)
            elif where.endpoint.rstrip("/") != self._connection.server:
                await self.close()
                await self._enter(where)
            return self._api

    async def _greet(self) -> None:
        """Find out at once whether we are known: all else would end with a bare refusal."""
        if self._api is not None:
            try:
                await self._api.version()
            except Unauthorized as error:
                await self.close()
                raise NotLetIn(
                    f"the API server of {self._reach.cluster} does not know these AWS credentials: "
                    "use those that made the cluster, or have somebody who may use it add yours "
                    "(an access entry, or a line in aws-auth)"
                ) from error

    async def _enter(self, where: Where | None) -> None:
        if where is not None and self._api is None:
            self._connection = self._connected(where)
            self._api = KubeApi(self._connection)

    def _connected(self, where: Where) -> Connection:
        authority = b64decode(where.authority).decode()
        access = Access(
            server=where.endpoint.rstrip("/"),
            tls=ssl.create_default_context(cadata=authority),
            credentials=self.credentials,
            authority=authority,
        )
        return Connection(
            access,
            limit=RateLimit(clock=time.monotonic),
            agent=f"dovetail/{version('dovetail')}",
            guard=self._guard,
        )
