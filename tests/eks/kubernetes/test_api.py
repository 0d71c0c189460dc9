"""EKS tokens."""

from base64 import urlsafe_b64decode
from urllib.parse import parse_qs, urlsplit

from dovetail.eks.session import ClusterSession
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount


def test_token_is_a_presigned_sts_request_for_this_cluster(account: TestAccount) -> None:
    async def token(session: ClusterSession) -> str:
        return await session.api_access.credentials.token()

    signed_token = account.run(a_cluster(), token)

    head, _, packed = signed_token.partition(".")
    url = urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()
    query = parse_qs(urlsplit(url).query)
    assert head == "k8s-aws-v1"
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert query["X-Amz-Expires"] == ["60"]
