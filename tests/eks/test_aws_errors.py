"""Missing permissions are reported, and progress is kept."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.errors import DovetailError
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount
from tests.support.moto.iam_actions import permissions_for
from tests.support.moto.middleware import ScriptedError

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "cluster-permissions.md"
NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
MISSING_PERMISSION = re.compile(r"your credentials need the permission ([a-z0-9]+:[A-Za-z]+)")


def _grant_until_success(account: TestAccount, work: Callable[[], object]) -> list[str]:
    """Run work without permissions, then repeatedly with the reported ones added."""
    granted: dict[str, None] = {}
    account.moto.middleware.is_forbidden = lambda call: permissions_for(call).isdisjoint(granted)
    while True:
        message = _error_of(work)
        if message is None:
            account.moto.middleware.reset()
            return list(granted)
        missing = [
            permission for permission in MISSING_PERMISSION.findall(message) if permission not in granted
        ]
        assert missing, message
        granted |= dict.fromkeys(missing)


def _error_of(work: Callable[[], object]) -> str | None:
    try:
        work()
    except DovetailError as error:
        return str(error)
    return None


@pytest.mark.slow
def test_every_missing_permission_is_reported_and_progress_is_kept(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK, logging={"types": ["audit"]}, identity="irsa")

    plan_permissions = _grant_until_success(account, lambda: account.plan(config))
    apply_permissions = _grant_until_success(account, lambda: account.apply(config))
    second_plan = account.plan(config)
    destroy_permissions = _grant_until_success(account, lambda: account.destroy(config))

    assert second_plan.steps == ()
    assert account.plan(config).monthly_usd == second_plan.monthly_usd
    assert "ec2:DescribeVpcs" in plan_permissions
    assert {"ec2:CreateVpc", "iam:CreateRole", "eks:CreateCluster"} <= set(apply_permissions)
    assert {"ec2:DeleteVpc", "iam:DeleteRole", "eks:DeleteCluster"} <= set(destroy_permissions)
    guide = GUIDE.read_text()
    assert [
        permission
        for permission in {*plan_permissions, *apply_permissions, *destroy_permissions}
        if f"`{permission}`" not in guide
    ] == []


@pytest.mark.parametrize("code", ["ExpiredToken", "ExpiredTokenException"])
def test_expired_credentials_stop_the_run_and_the_next_run_continues(account: TestAccount, code: str) -> None:
    config = account.prepared("existing-cluster")
    expired = ScriptedError(operation="CreateRole", code=code, status=403, times=10_000)
    account.moto.middleware.add_error(expired)

    with pytest.raises(DovetailError, match="AWS rejects your credentials; renew them"):
        account.apply(config)
    account.moto.middleware.reset()
    account.apply(config)

    assert account.plan(config).steps == ()


def test_permission_named_by_aws_is_the_one_reported(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    text = "User: me is not authorized to perform: iam:PassRole on resource: dev-cluster"
    denied = ScriptedError(
        operation="POST /clusters", code="AccessDeniedException", message=text, status=403, times=99
    )
    account.moto.middleware.add_error(denied)

    with pytest.raises(DovetailError, match="need the permission iam:PassRole"):
        account.apply(config)
