"""People whose credentials may do too little are told what is missing, and lose nothing."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.errors import DovetailError
from tests.support.clusters import a_cluster
from tests.support.moto.account import TestAccount
from tests.support.moto.door import Fault
from tests.support.moto.permissions import permissions_for

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "cluster-permissions.md"
NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
ASKED = re.compile(r"your credentials need the permission ([a-z0-9]+:[A-Za-z]+)")


def _granted_one_by_one(account: TestAccount, work: Callable[[], object]) -> list[str]:
    """Do work with no permission at all, then with the one that was asked for, and so on."""
    granted: dict[str, None] = {}
    account.moto.door.forbids = lambda call: permissions_for(call).isdisjoint(granted)
    while True:
        told = _refusal_of(work)
        if told is None:
            account.moto.door.reset()
            return list(granted)
        asked = [one for one in ASKED.findall(told) if one not in granted]
        assert asked, told
        granted |= dict.fromkeys(asked)


def _refusal_of(work: Callable[[], object]) -> str | None:
    try:
        work()
    except DovetailError as error:
        return str(error)
    return None


@pytest.mark.slow
def test_every_permission_that_is_missing_is_named_and_nothing_is_lost_on_the_way(
    account: TestAccount,
) -> None:
    spec = a_cluster(vpc=NETWORK, logging={"types": ["audit"]}, identity="irsa")

    looking = _granted_one_by_one(account, lambda: account.plan(spec))
    making = _granted_one_by_one(account, lambda: account.apply(spec))
    again = account.plan(spec)
    taking = _granted_one_by_one(account, lambda: account.destroy(spec))

    assert again.steps == ()
    assert account.plan(spec).monthly_usd == again.monthly_usd
    assert "ec2:DescribeVpcs" in looking
    assert {"ec2:CreateVpc", "iam:CreateRole", "eks:CreateCluster"} <= set(making)
    assert {"ec2:DeleteVpc", "iam:DeleteRole", "eks:DeleteCluster"} <= set(taking)
    told = GUIDE.read_text()
    assert [one for one in {*looking, *making, *taking} if f"`{one}`" not in told] == []


@pytest.mark.parametrize("code", ["ExpiredToken", "ExpiredTokenException"])
def test_credentials_that_expire_in_the_middle_stop_the_run_and_the_next_goes_on(
    account: TestAccount, code: str
) -> None:
    spec = account.prepared("existing-cluster")
    expired = Fault(operation="CreateRole", code=code, status=403, times=10_000)
    account.moto.door.script(expired)

    with pytest.raises(DovetailError, match="AWS does not take your credentials; renew them"):
        account.apply(spec)
    account.moto.door.reset()
    account.apply(spec)

    assert account.plan(spec).steps == ()


def test_what_aws_itself_names_as_missing_is_what_is_asked_for(account: TestAccount) -> None:
    spec = a_cluster(vpc=NETWORK)
    said = "User: me is not authorized to perform: iam:PassRole on resource: dev-cluster"
    denied = Fault(
        operation="POST /clusters", code="AccessDeniedException", message=said, status=403, times=99
    )
    account.moto.door.script(denied)

    with pytest.raises(DovetailError, match="need the permission iam:PassRole"):
        account.apply(spec)
