"""Cluster sessions."""

from typing import Any

import pytest

from dovetail.eks.session import ClusterSession, ReadOnlyError
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount


def test_read_only_session_cannot_write(account: TestAccount) -> None:
    async def write(session: ClusterSession) -> Any:
        return await session.aws.call("ec2", "create_vpc", CidrBlock="10.0.0.0/16")

    with pytest.raises(ReadOnlyError):
        account.run(a_cluster(), write, may_write=False)

    assert account.moto.middleware.calls["CreateVpc"] == 0
