"""The interruption queue."""

import pytest

from dovetail.eks.plan.resource import DesiredResource
from dovetail.eks.resources.interruption_queue import QueueHandler
from dovetail.eks.session import ClusterSession
from dovetail.errors import DovetailError
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount


@pytest.mark.parametrize("operation", ["create_queue", "get_queue_attributes"])
def test_incomplete_response_of_sqs_is_an_error_that_names_the_queue(
    account: TestAccount, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    async def create(session: ClusterSession) -> None:
        client = session.aws.session.client("sqs")
        monkeypatch.setattr(client, operation, lambda **_: {})
        await QueueHandler(session.aws).create(DesiredResource(kind="sqs-queue", name="dev"))

    with pytest.raises(DovetailError, match=r"the response of SQS for .*dev has no Queue"):
        account.run(a_cluster(), create)
