"""An account with everything that the usual class selects."""

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from tests.support.moto.server import MotoAws, moto_aws
from tests.support.moto_nodeclass import REGION, Account, ClassProcess


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoAws]:
    # moto would make its thousand usual images anew for every test.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        with moto_aws() as running:
            yield running


@pytest.fixture
def account(moto: MotoAws, aws_credentials: None) -> Account:
    return Account(moto)


@pytest.fixture
def processes(account: Account) -> Iterator[Callable[..., ClassProcess]]:
    """Start processes; they die with the test."""
    running: list[ClassProcess] = []

    def start(**settings: Any) -> ClassProcess:
        running.append(ClassProcess(account, **settings))
        return running[-1]

    yield start
    for one in running:
        one.stop()


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    """What all processes of the tests share, so that each starts in no time."""
    return boto3.Session("test", "test", region_name=REGION)


@pytest.fixture
def process(
    account: Account, processes: Callable[..., ClassProcess], session: boto3.Session
) -> ClassProcess:
    """A process in an account where the usual class finds everything."""
    made = processes(session=session)
    account.network(made.aws.ec2())
    account.role(made.aws.client("iam"))
    account.image("ami-mine", name="mine", owner_alias=None, owner_id="123456789012")
    return made
