"""A thousand warnings at once; how long they take is measured in bench/aws.py."""

import asyncio

import pytest

from tests.support.aws.interruption_bursts import send_all, take_all
from tests.support.moto.server import moto_aws

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("aws_credentials")
def test_a_thousand_messages_are_all_handled_and_deleted() -> None:
    with moto_aws() as account:
        sqs = send_all(account.url)

        asyncio.run(take_all(account.url))

        sqs.close()
