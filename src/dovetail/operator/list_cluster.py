"""One look at a cluster: every kind that decisions need, listed once."""

import asyncio
from collections.abc import Sequence
from typing import Final

from dovetail import __version__
from dovetail.errors import DovetailError
from dovetail.kube.auth.kubeconfig import Access
from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection
from dovetail.kube.preflight import check_kinds, kubernetes_version
from dovetail.kube.rate_limit import RateLimit
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.state.cluster.decoders import mirrored
from dovetail.state.explain.blockers import Objects

_FIRST_LOOK: Final = 7.0


async def look(access: Access) -> Objects:
    """List all kinds; raises ``DovetailError`` when that cannot be done."""
    connection = Connection(
        access,
        limit=RateLimit(clock=asyncio.get_running_loop().time),
        agent=f"dovetail/{__version__}",
    )
    try:
        async with asyncio.timeout(_FIRST_LOOK):
            await kubernetes_version(connection)
            await check_kinds(connection)
        kube, wanted = HttpKube(connection), list(mirrored(Gates()))
        found = await asyncio.gather(*(_listed(kube, one) for one in wanted))
        return dict(zip(wanted, found, strict=True))
    except TimeoutError as error:
        what = f"{connection.awaited} gave no answer within {_FIRST_LOOK:g}s"
        raise DovetailError(what) from error
    finally:
        await connection.close()


async def _listed(kube: HttpKube, resource: Resource) -> Sequence[Object]:
    return await kube.list(resource)
