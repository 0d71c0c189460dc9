"""A site for one command: threads, clients and connections, all closed at the end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeVar

from dovetail.aws.errors import AwsError
from dovetail.aws.session import THREADS, Aws
from dovetail.eks.apply.lock import one_at_a_time
from dovetail.eks.aws_errors import to_a_person
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.session import Site, open_site, refuse_to_write
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance

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
