"""An account with everything that the usual class selects."""

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from tests.support.aws.nodeclass_account import Account, NodeClassProcess
from tests.support.aws.provider_process import shared_session
from tests.support.moto.server import MotoAws, moto_without_amis


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoAws]:
    with moto_without_amis() as running:
        yield running


@pytest.fixture
def account(moto: MotoAws, aws_credentials: None) -> Account:
    return Account(moto)


@pytest.fixture
def processes(account: Account) -> Iterator[Callable[..., NodeClassProcess]]:
    """Start processes; they die with the test."""
    running: list[NodeClassProcess] = []

    def start(**settings: Any) -> NodeClassProcess:
        running.append(NodeClassProcess(account, **settings))
        return running[-1]

    yield start
    for entry in running:
        entry.stop()


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    """A boto3 session and its clients, which all processes share, to start fast."""
    return shared_session()


@pytest.fixture
def process(
    account: Account, processes: Callable[..., NodeClassProcess], session: boto3.Session
) -> NodeClassProcess:
    """A process in an account where the usual class finds everything."""
    created = processes(session=session)
    account.network(created.aws.ec2())
    account.role(created.aws.client("iam"))
    account.image("ami-mine", name="mine", owner_alias=None, owner_id="123456789012")
    return created
