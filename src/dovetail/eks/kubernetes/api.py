"""Access to the API server of the EKS cluster, which may not exist yet.

- ``EksTokenCredentials`` signs bearer tokens with the AWS credentials.
- ``DynamicClient`` reads and writes objects of any kind, found by discovery.
- ``ApiAccess`` connects once the cluster exists, and reconnects to a new one.
"""

import asyncio
import ssl
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest

from dovetail.aws.session import AwsSession
from dovetail.eks.aws_client import AwsClient, WaitTimeoutError
from dovetail.errors import DovetailError
from dovetail.kube.auth.credentials import CredentialsError
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection, no_fence, resource_path
from dovetail.kube.rate_limit import RateLimiter
from dovetail.ports.api_resources import Resource as ApiResource
from dovetail.ports.event_loop import Clock, EventLoop
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import Forbidden, NotFound, TooManyRequests, Unauthorized, Unavailable

FIELD_MANAGER: Final = "dovetail-cluster"
_APPLY_PATCH: Final = "application/apply-patch+yaml"
_TOKEN_PREFIX: Final = "k8s-aws-v1."  # noqa: S105 - a prefix, no secret
_CLUSTER_HEADER: Final = "x-k8s-aws-id"
_GLOBAL_STS: Final = "sts.amazonaws.com"
_GLOBAL_STS_REGION: Final = "us-east-1"
_URL_EXPIRY_SECONDS: Final = 60
"""EKS accepts the token for 15 minutes, whatever the expiry of the signed URL is."""
_TOKEN_LIFETIME: Final = timedelta(minutes=10)
"""Age at which a token is replaced, well within the 15 minutes."""
_ATTEMPTS: Final = 10
"""Of a request that the API server rejects for now."""
_MAX_WAIT_SECONDS: Final = 5.0

T = TypeVar("T")


class ApiAccessError(DovetailError):
    """The API server rejects the AWS credentials, or is not reachable from here."""


class EksTokenCredentials:
    """``kube.auth.credentials.Credentials`` for one EKS cluster.

    A token is a presigned request to STS GetCallerIdentity, which EKS sends to
    learn the caller's identity. Signing it needs no external program.
    """

    def __init__(self, session: AwsSession, *, cluster: str, clock: Clock) -> None:
        self._session = session
        self._cluster = cluster
        self._clock = clock
        self._token = ""
        self._signed_at: datetime | None = None

    async def token(self, *, rejected: bool = False) -> str:
        now = self._clock.now()
        if rejected or self._signed_at is None or now - self._signed_at >= _TOKEN_LIFETIME:
            self._token = self._sign()
            self._signed_at = now
        return self._token

    def _sign(self) -> str:
        credentials = self._session.credentials()
        if credentials is None:
            raise CredentialsError("there are no AWS credentials to sign a token with")
        query = urlencode({"Action": "GetCallerIdentity", "Version": "2011-06-15"})
        meta = self._session.client("sts").meta
        request = AWSRequest("GET", f"{meta.endpoint_url}/?{query}", headers={_CLUSTER_HEADER: self._cluster})
        region = signing_region(meta.endpoint_url, self._session.region)
        SigV4QueryAuth(credentials, "sts", region, expires=_URL_EXPIRY_SECONDS).add_auth(request)
        return _TOKEN_PREFIX + urlsafe_b64encode(str(request.url).encode()).decode().rstrip("=")


def signing_region(sts_url: str, region: str) -> str:
    """Return the region that STS expects in a signature.

    The global endpoint, which the SDK uses with ``sts_regional_endpoints = legacy``,
    is in us-east-1.
    """
    return _GLOBAL_STS_REGION if urlsplit(sts_url).hostname == _GLOBAL_STS else region


class ApiEndpoint(msgspec.Struct, frozen=True):
    """Address and certificate authority of an API server."""

    url: str
    certificate_authority: str
    """PEM in base64, as EKS and kubeconfig files have it."""


class DynamicClient:
    """Client for objects of any kind; discovery says how each kind is served."""

    def __init__(self, connection: Connection, loop: EventLoop) -> None:
        self._connection = connection
        self._loop = loop
        self.client = HttpKubeClient(connection)
        self._discovered: dict[str, list[Object]] = {}

    async def resource_for(self, api_version: str, kind: str) -> ApiResource | None:
        """Return the API resource of a kind; None if it is not served, or not yet."""
        served = self._discovered.get(api_version)
        if served is None or not any(resource["kind"] == kind for resource in served):
            served = await self._discover(api_version)
        group, _, group_version = api_version.rpartition("/")
        for resource in served:
            # A name with a slash is a subresource (pods/status).
            if resource["kind"] == kind and "/" not in resource["name"]:
                namespaced = bool(resource["namespaced"])
                return ApiResource(group, group_version, resource["name"], kind, namespaced)
        return None

    async def version(self) -> str:
        """Return the version of the API server."""
        response = await self._connection.request("GET", "/version")
        return str(response.get("gitVersion", ""))

    async def get(self, resource: ApiResource, name: str, namespace: str = "") -> Object | None:
        try:
            return await self._retry(lambda: self.client.get(resource, name, namespace))
        except NotFound:
            return None

    async def list_objects(
        self, resource: ApiResource, *, namespace: str = "", labels: str = ""
    ) -> Sequence[Object]:
        """Return the objects of a kind; empty if the kind is not served."""
        if await self.resource_for(resource.api_version, resource.kind) is None:
            return []
        try:
            fields = f"metadata.namespace={namespace}" if namespace else ""
            return await self._retry(lambda: self.client.list(resource, labels=labels, fields=fields))
        except NotFound:
            # The CustomResourceDefinition was deleted after discovery.
            return []

    def invalidate_discovery(self) -> None:
        """Forget the served kinds: definitions were created or deleted."""
        self._discovered.clear()

    async def apply(self, resource: ApiResource, manifest: Object) -> Object:
        """Apply an object on the server side; fields of other managers stay."""
        metadata = manifest["metadata"]
        return await self._retry(
            lambda: self._connection.request(
                "PATCH",
                resource_path(resource, metadata["name"], namespace=metadata.get("namespace", "")),
                query={"fieldManager": FIELD_MANAGER, "force": "true"},
                body=manifest,
                content_type=_APPLY_PATCH,
            )
        )

    async def delete(self, resource: ApiResource, name: str, namespace: str = "") -> None:
        """Delete an object; not found is success."""
        try:
            await self._retry(lambda: self.client.delete(resource, name, namespace))
        except NotFound:
            return

    async def _retry(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request again while the API server rejects it for now.

        It does so for some seconds after the CustomResourceDefinition of a kind has changed.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                return await request()
            except TooManyRequests as error:
                seconds = float(error.details.get("retryAfterSeconds") or 1)
                await self._loop.sleep(timedelta(seconds=min(seconds, _MAX_WAIT_SECONDS)))
        return await request()

    async def _discover(self, api_version: str) -> list[Object]:
        root = "/apis" if "/" in api_version else "/api"
        try:
            response = await self._connection.request("GET", f"{root}/{api_version}")
        except NotFound:
            return []
        resources: list[Object] = response.get("resources") or []
        self._discovered[api_version] = resources
        return resources


class ApiAccess:
    """Connects to the API server once the cluster exists; ``close`` it at the end."""

    def __init__(self, aws: AwsClient, *, fence: Callable[[], None] = no_fence) -> None:
        """``fence`` is called right before every write, and raises to prevent it."""
        self._aws = aws
        self._fence = fence
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._client: DynamicClient | None = None
        self._network_advice = ""
        self.credentials = EksTokenCredentials(aws.session, cluster=aws.cluster, clock=aws.loop)

    async def endpoint(self) -> ApiEndpoint | None:
        """Return the endpoint of the API server; None while there is no cluster."""
        response = await self._aws.call_or_none("eks", "describe_cluster", name=self._aws.cluster)
        raw = (response or {}).get("cluster") or {}
        if raw.get("status") not in ("ACTIVE", "UPDATING") or not raw.get("endpoint"):
            return None
        self._network_advice = _network_advice(raw.get("resourcesVpcConfig") or {})
        return ApiEndpoint(raw["endpoint"], raw["certificateAuthority"]["data"])

    async def connect(self) -> DynamicClient | None:
        """Return a client of the cluster; None while there is no cluster.

        Raises ``ApiAccessError`` if the cluster rejects the credentials.
        """
        async with self._lock:
            if self._client is None:
                self._open(await self.endpoint())
                await self._check_credentials()
            return self._client

    async def wait_until_ready(self) -> DynamicClient:
        """Wait until the API server answers, and return a client.

        The host name of a new cluster resolves only after some time.
        """
        reason = "there is no cluster"

        async def poll() -> DynamicClient | None:
            nonlocal reason
            client = await self._reconnect()
            if client is None:
                return None
            try:
                await client.version()
            except (Unauthorized, Forbidden, Unavailable) as error:
                reason = str(error)
                return None
            return client

        try:
            return await self._aws.wait_for(
                "the API server of the cluster", poll, timeout=self._aws.polling.conflict_timeout
            )
        except WaitTimeoutError as error:
            raise WaitTimeoutError(f"{error} ({reason}){self._network_advice}") from error

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = self._client = None

    async def _reconnect(self) -> DynamicClient | None:
        """Connect; to the new endpoint if the cluster was replaced."""
        async with self._lock:
            endpoint = await self.endpoint()
            if self._connection is None or endpoint is None:
                self._open(endpoint)
            elif endpoint.url.rstrip("/") != self._connection.server:
                await self.close()
                self._open(endpoint)
            return self._client

    async def _check_credentials(self) -> None:
        """Fail early with advice: every later call would fail with a bare 401."""
        if self._client is None:
            return
        try:
            await self._client.version()
        except Unavailable as error:
            if not self._network_advice:
                raise
            await self.close()
            raise ApiAccessError(f"{error}{self._network_advice}") from error
        except Unauthorized as error:
            await self.close()
            raise ApiAccessError(
                f"the API server of {self._aws.cluster} rejects these AWS credentials: use those "
                "that created the cluster, or let an administrator of the cluster add yours (an "
                "access entry, or a line in aws-auth)"
            ) from error

    def _open(self, endpoint: ApiEndpoint | None) -> None:
        if endpoint is not None and self._client is None:
            self._connection = self._connection_to(endpoint)
            self._client = DynamicClient(self._connection, self._aws.loop)

    def _connection_to(self, endpoint: ApiEndpoint) -> Connection:
        authority = b64decode(endpoint.certificate_authority).decode()
        access = RestConfig(
            server=endpoint.url.rstrip("/"),
            tls=ssl.create_default_context(cadata=authority),
            credentials=self.credentials,
            ca_certificates=authority,
        )
        return Connection(
            access,
            rate_limiter=RateLimiter(clock=time.monotonic),
            user_agent=f"dovetail/{version('dovetail')}",
            fence=self._fence,
        )


def _network_advice(network: Mapping[str, Any]) -> str:
    """Return where an API server that does not respond can be reached from."""
    if not network.get("endpointPublicAccess", True):
        return (
            "; its endpoint is private: run this command in the VPC, or through a VPN whose networks "
            "endpoint.vpnCidrs names"
        )
    cidrs = network.get("publicAccessCidrs") or ["0.0.0.0/0"]
    if "0.0.0.0/0" in cidrs:
        return ""
    return f"; its endpoint accepts {', '.join(cidrs)} only: add your address to endpoint.publicCidrs"
