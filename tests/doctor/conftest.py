"""A healthy account and cluster, served over HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import boto3
import pytest

from dovetail.data.bundled import bundled_catalog
from dovetail.doctor.facts import Facts, FileFacts
from dovetail.doctor.gather import InitialFacts
from tests.doctor.account import Account, gather_aws, with_aws_facts
from tests.doctor.cluster import NOW, Cluster
from tests.doctor.server import gather_kubernetes
from tests.support.moto.eks import Eks
from tests.support.moto.middleware import Wsgi
from tests.support.moto.server import MotoAws, moto_without_amis

Gather = Callable[[Cluster], Facts]


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    return boto3.Session("test", "test", region_name="us-east-1")


@pytest.fixture(scope="session")
def moto_servers() -> Iterator[tuple[MotoAws, Eks]]:
    servers: list[Eks] = []

    def front(inner: Wsgi) -> Eks:
        servers.append(Eks(inner))
        return servers[-1]

    with moto_without_amis(front) as running:
        yield running, servers[0]


@pytest.fixture
def account(moto_servers: tuple[MotoAws, Eks], session: boto3.Session) -> Account:
    """A new healthy account, for the test to break."""
    moto, eks = moto_servers
    return Account(moto, eks, session)


@pytest.fixture(scope="session")
def healthy(moto_servers: tuple[MotoAws, Eks], session: boto3.Session) -> Facts:
    """Facts of a healthy cluster, from its API server and from AWS."""
    moto, eks = moto_servers
    account = Account(moto, eks, session)

    async def gather() -> Facts:
        facts = await gather_kubernetes(Cluster(account.instance), initial_facts())
        return await gather_aws(facts, moto, session)

    return run_without_result(gather())


@pytest.fixture
def cluster(healthy: Facts) -> Cluster:
    """A new healthy cluster, for the test to break; AWS stays healthy."""
    return Cluster(str(healthy.aws.instances[0]["InstanceId"]))


@pytest.fixture
def gather(healthy: Facts) -> Gather:
    """Return a function that gathers the facts of a cluster, with AWS facts of the healthy one."""

    def gather_facts(cluster: Cluster) -> Facts:
        return with_aws_facts(run_without_result(gather_kubernetes(cluster, initial_facts())), healthy)

    return gather_facts


@pytest.fixture
def gather_all(session: boto3.Session) -> Callable[[Account, Cluster], Facts]:
    """Return a function that gathers all facts of an account and a cluster."""

    def gather_facts(account: Account, cluster: Cluster) -> Facts:
        async def both() -> Facts:
            facts = await gather_kubernetes(cluster, initial_facts())
            return await gather_aws(facts, account.moto, session)

        return run_without_result(both())

    return gather_facts


def run_without_result(work: Awaitable[Facts]) -> Facts:
    """Run a coroutine as ``asyncio.run`` does, which formats the result as text.

    At its end it compares signal handlers, and an enum formats the one of the finished task
    for an error. That of all facts takes 10 ms.
    """
    results: list[Facts] = []

    async def keep() -> None:
        results.append(await work)

    asyncio.run(keep())
    return results[0]


def initial_facts(files: FileFacts = FileFacts()) -> InitialFacts:  # noqa: B008 - frozen
    return InitialFacts(now=NOW, catalog=bundled_catalog(), files=files)
