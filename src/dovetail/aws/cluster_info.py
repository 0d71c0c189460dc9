"""What machines must know of the cluster that they are to join."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.aws.session import Aws
from dovetail.aws.userdata.bootstrap import Cluster
from dovetail.errors import DovetailError
from dovetail.ports.event_loop import Loop
from dovetail.ports.telemetry import Log

_LOOK: Final = timedelta(minutes=5)


class ClusterFacts:
    """What is known of the cluster; what is not, EKS is asked for once, when it is needed."""

    def __init__(self, aws: Aws, known: Cluster) -> None:
        self._aws = aws
        self.cluster = known

    @property
    def region(self) -> str:
        return self._aws.region

    async def look_up(self) -> Cluster:
        """Return the cluster with all that EKS says of it; raises ``AwsError``."""
        known = self.cluster
        if known.endpoint and known.ca_bundle and known.cidr and known.version:
            return known
        eks = self._aws.client("eks")
        answer = await self._aws.call(
            "DescribeCluster", lambda: eks.describe_cluster(name=known.name)
        )
        told: dict[str, Any] = answer["cluster"]
        network = told.get("kubernetesNetworkConfig") or {}
        cidr = network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr") or ""
        authority = told.get("certificateAuthority") or {}
        self.cluster = msgspec.structs.replace(
            self.cluster,
            endpoint=known.endpoint or told.get("endpoint") or "",
            ca_bundle=known.ca_bundle or authority.get("data") or "",
            cidr=known.cidr or cidr,
            version=known.version or told.get("version") or "",
        )
        return self.cluster

    async def follow_version(
        self, ask: Callable[[], Awaitable[str]], *, loop: Loop, log: Log
    ) -> None:
        """Notice when the cluster is upgraded, for as long as the process lives.

        Aliases then mean the images of the new version.
        """
        while True:
            await loop.sleep(_LOOK)
            try:
                version = await ask()
            except DovetailError as error:
                log.info("cannot look up the kubernetes version now", error=str(error))
                continue
            if version != self.cluster.version:
                log.info("discovered kubernetes version", version=version)
                self.learn(version=version)

    def learn(self, **facts: str) -> None:
        """Take over facts that came another way: ``dns``, ``version``."""
        self.cluster = msgspec.structs.replace(self.cluster, **facts)
