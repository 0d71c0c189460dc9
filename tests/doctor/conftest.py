"""A healthy account and cluster, real to all who ask over HTTP."""

import asyncio
from collections.abc import Callable, Iterator

import boto3
import pytest

from dovetail.data.bundled import bundled_catalog
from dovetail.doctor.facts import Facts, FileFacts
from dovetail.doctor.gather import Given
from tests.doctor.account import Account, asked_of_aws, with_aws_of
from tests.doctor.cluster import NOW, Cluster
from tests.doctor.serving import asked_of_kubernetes
from tests.support.moto.door import Wsgi
from tests.support.moto.eks import Eks
from tests.support.moto.server import MotoAws, moto_aws

Look = Callable[[Cluster], Facts]


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    return boto3.Session("test", "test", region_name="us-east-1")


@pytest.fixture(scope="session")
def site() -> Iterator[tuple[MotoAws, Eks]]:
    made: list[Eks] = []

    def front(inner: Wsgi) -> Eks:
        made.append(Eks(inner))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        with moto_aws(front) as running:
            yield running, made[0]


@pytest.fixture
def account(site: tuple[MotoAws, Eks], session: boto3.Session) -> Account:
    """An account of the test's own, to be broken."""
    moto, eks = site
    return Account(moto, eks, session)


@pytest.fixture(scope="session")
def healthy(site: tuple[MotoAws, Eks], session: boto3.Session) -> Facts:
    """Everything that can be read of a healthy cluster, from its API server and from AWS."""
    moto, eks = site
    account = Account(moto, eks, session)

    async def look() -> Facts:
        facts = await asked_of_kubernetes(Cluster(account.instance), given())
        return await asked_of_aws(facts, moto, session)

    return asyncio.run(look())


@pytest.fixture
def cluster(healthy: Facts) -> Cluster:
    """A cluster of the test's own, to be broken; AWS goes on as it was."""
    return Cluster(str(healthy.aws.instances[0]["InstanceId"]))


@pytest.fixture
def look(healthy: Facts) -> Look:
    """Ask a cluster for everything; what AWS says is that of the healthy one."""

    def looked(cluster: Cluster) -> Facts:
        return with_aws_of(asyncio.run(asked_of_kubernetes(cluster, given())), healthy)

    return looked


@pytest.fixture
def look_at_aws(session: boto3.Session) -> Callable[[Account, Cluster], Facts]:
    """Ask everybody for everything."""

    def looked(account: Account, cluster: Cluster) -> Facts:
        async def both() -> Facts:
            facts = await asked_of_kubernetes(cluster, given())
            return await asked_of_aws(facts, account.moto, session)

        return asyncio.run(both())

    return looked


def given(files: FileFacts = FileFacts()) -> Given:  # noqa: B008 - frozen
    return Given(now=NOW, catalog=bundled_catalog(), files=files)
