"""A stand-in for EC2 that speaks HTTP."""

from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer

from tests.support.aws.credentials import FAKE_CREDENTIALS
from tests.support.aws.launches import an_account
from tests.support.aws.provider_process import AwsProcess
from tests.support.moto.server import MotoAws, moto_aws


@pytest.fixture(scope="session")
def ec2_url() -> Iterator[str]:
    """Run moto's server on a free port for as long as the tests of this directory."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FAKE_CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoAws]:
    """Run moto with what EC2 does beyond it."""
    with moto_aws() as running:
        yield running


@pytest.fixture
def process(moto: MotoAws) -> Iterator[AwsProcess]:
    """A process with an empty account."""
    running = AwsProcess(an_account(moto))
    yield running
    running.stop()
