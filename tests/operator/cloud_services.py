"""AWS cloud services as ``dovetail run`` builds them, without a cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.randomness import SystemRandomSource
from dovetail.operator.aws import AwsCloudFactory, AwsSettings
from dovetail.operator.cloud import CloudContext, CloudServices
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import NO_METRICS
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from tests.support.telemetry import RecordedLog

T = TypeVar("T")


class NoServices:
    """An API server without Services; it accepts patches of NodeClaims."""

    async def get(self, *_: object) -> dict[str, Any]:
        raise NotFound("not found")

    async def patch(
        self, _: object, name: str, patch: dict[str, Any], *__: object, **___: object
    ) -> dict[str, Any]:
        return {"metadata": {"name": name, "resourceVersion": "1", **patch["metadata"]}, "spec": {}}


def build(
    settings: AwsSettings,
    log: RecordedLog,
    use: Callable[[CloudServices], Awaitable[T]],
    *,
    cache: ClusterCache | None = None,
) -> T:
    """Build the cloud services, use them and stop everything."""

    async def run() -> T:
        loop = AsyncioEventLoop()
        context = CloudContext(
            loop=loop,
            random=SystemRandomSource(),
            log=log,
            metrics=NO_METRICS,
            kube=cast(KubeClient, NoServices()),
            cache=cache or ClusterCache(),
            unavailable_offerings=UnavailableOfferings(),
            kubernetes_version="1.34",
            get_kubernetes_version=lambda: asyncio.sleep(0, "1.34"),
            ca_certificates="",
            wait_until_leader=asyncio.Event().wait,
        )
        try:
            services = await AwsCloudFactory(settings)(context)
            try:
                return await use(services)
            finally:
                services.close()
        finally:
            await loop.stop()

    return asyncio.run(run())


async def wait_for_line(log: RecordedLog, message: str) -> dict[str, Any]:
    """Wait for a log message and return its fields."""
    async with asyncio.timeout(60):
        while not log.entries(message):
            await asyncio.sleep(0.01)
    return log.entries(message)[0]
