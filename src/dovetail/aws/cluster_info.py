"""Cluster info: properties of the EKS cluster that user data needs."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.aws.session import AwsSession
from dovetail.aws.userdata.bootstrap import ClusterInfo
from dovetail.errors import DovetailError
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.telemetry import Log

_VERSION_INTERVAL: Final = timedelta(minutes=5)


class ClusterInfoResolver:
    """Configured cluster info; EKS is asked for missing fields when they are needed."""

    def __init__(self, aws: AwsSession, configured: ClusterInfo) -> None:
        self._aws = aws
        self._arn = ""
        self.info = configured

    @property
    def region(self) -> str:
        """Return the region of the session."""
        return self._aws.region

    async def resolve(self) -> ClusterInfo:
        """Return the info with all fields that EKS has; raise ``AwsError``."""
        info = self.info
        if info.endpoint and info.ca_bundle and info.cidr and info.version:
            return info
        described = await self._describe()
        network = described.get("kubernetesNetworkConfig") or {}
        cidr = network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr") or ""
        authority = described.get("certificateAuthority") or {}
        self.info = msgspec.structs.replace(
            self.info,
            endpoint=info.endpoint or described.get("endpoint") or "",
            ca_bundle=info.ca_bundle or authority.get("data") or "",
            cidr=info.cidr or cidr,
            version=info.version or described.get("version") or "",
        )
        return self.info

    async def get_arn(self) -> str:
        """Return the ARN of the cluster; EKS is asked at most once. Raises ``AwsError``."""
        if not self._arn:
            await self._describe()
        return self._arn

    async def _describe(self) -> dict[str, Any]:
        eks, name = self._aws.client("eks"), self.info.name
        response = await self._aws.call("DescribeCluster", lambda: eks.describe_cluster(name=name))
        described: dict[str, Any] = response["cluster"]
        self._arn = described.get("arn", "")
        return described

    async def watch_version(
        self, read_version: Callable[[], Awaitable[str]], *, loop: EventLoop, log: Log
    ) -> None:
        """Poll the Kubernetes version until cancelled.

        After an upgrade, aliases resolve to the AMIs of the new version.
        """
        while True:
            await loop.sleep(_VERSION_INTERVAL)
            try:
                version = await read_version()
            except DovetailError as error:
                log.info("cannot read the kubernetes version", error=str(error))
                continue
            if version != self.info.version:
                log.info("discovered kubernetes version", version=version)
                self.update(version=version)

    def update(self, **fields: str) -> None:
        """Set fields that were resolved elsewhere: ``dns``, ``version``."""
        self.info = msgspec.structs.replace(self.info, **fields)
