"""A site for one command: threads, clients and connections, all closed at the end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeVar

from dovetail.aws.faults import AwsError
from dovetail.aws.session import THREADS, Aws
from dovetail.host.chance import RealChance
from dovetail.host.loop import AsyncioLoop
from dovetail.host.offload import ThreadOffload
from dovetail.infra.locking import one_at_a_time
from dovetail.infra.refusing import to_a_person
from dovetail.infra.site import Site, open_site, refuse_to_write
from dovetail.infra.spec.cluster import ClusterSpec

T = TypeVar("T")


@asynccontextmanager
async def visited(spec: ClusterSpec, *, may_write: bool) -> AsyncIterator[Site]:
    """Lead to a site; without ``may_write`` every call that could change something raises."""
    loop = AsyncioLoop()
    threads = ThreadOffload(THREADS, name="aws")
    try:
        aws = _aws(
            loop=loop,
            offload=threads,
            chance=RealChance(),
            region=spec.region,
            guard=_let_pass if may_write else refuse_to_write,
        )
        async with open_site(spec, aws=aws, loop=loop, may_write=may_write) as site:
            alone = one_at_a_time(site.reach.account, spec.name) if may_write else nullcontext()
            with alone:
                yield site
    finally:
        threads.close()


def visit(spec: ClusterSpec, work: Callable[[Site], Awaitable[T]], *, may_write: bool = False) -> T:
    """Open a site, do one thing with it, and close it."""

    async def run() -> T:
        async with visited(spec, may_write=may_write) as site:
            return await work(site)

    return asyncio.run(run())


def _aws(**given: Any) -> Aws:
    try:
        return Aws(**given)
    except AwsError as error:
        raise to_a_person(error, "sts") from error


def _let_pass() -> None:
    """Guard nothing."""
