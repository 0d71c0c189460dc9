"""The interruption queue."""

import pytest
from botocore.awsrequest import AWSResponse

from dovetail.eks.plan.resource import DesiredResource
from dovetail.eks.resources.interruption_queue import QueueHandler
from dovetail.eks.session import ClusterSession
from dovetail.errors import DovetailError
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount


@pytest.mark.parametrize("operation", ["CreateQueue", "GetQueueAttributes"])
def test_incomplete_response_of_sqs_is_an_error_that_names_the_queue(
    account: TestAccount, operation: str
) -> None:
    def respond(**_: object) -> tuple[AWSResponse, dict[str, object]]:
        """Return an empty response; the request is not sent."""
        return AWSResponse("https://sqs.example", 200, {}, None), {}

    async def create(session: ClusterSession) -> None:
        session.aws.session.client("sqs").meta.events.register(f"before-call.sqs.{operation}", respond)
        await QueueHandler(session.aws).create(DesiredResource(kind="sqs-queue", name="dev"))

    with pytest.raises(DovetailError, match=r"the response of SQS for .*dev has no Queue"):
        account.run(a_cluster(), create)
