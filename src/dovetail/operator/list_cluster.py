"""List a cluster once: all objects that decisions need."""

import asyncio
from typing import Final

from dovetail import __version__
from dovetail.errors import DovetailError
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.preflight import check_crds, kubernetes_version
from dovetail.kube.rate_limit import RateLimiter
from dovetail.state.cluster.cache import ClusterCache

_TIMEOUT_SECONDS: Final = 7.0


async def list_cluster(access: RestConfig) -> ClusterCache:
    """Return a cache with all objects; raise ``DovetailError`` if that fails."""
    connection = Connection(
        access,
        rate_limiter=RateLimiter(clock=asyncio.get_running_loop().time),
        user_agent=f"dovetail/{__version__}",
    )
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            await kubernetes_version(connection)
            await check_crds(connection)
        kube, cache = HttpKubeClient(connection), ClusterCache()
        lists = await asyncio.gather(*map(kube.list, cache.stores))
        for resource, objects in zip(cache.stores, lists, strict=True):
            cache.replace(resource, objects)
        return cache
    except TimeoutError as error:
        raise DovetailError(
            f"{connection.waiting_for} gave no answer within {_TIMEOUT_SECONDS:g}s"
        ) from error
    finally:
        await connection.close()
