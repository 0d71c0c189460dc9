"""Access entries: those that EKS creates itself, and principals that are new."""

import pytest

from dovetail.errors import DovetailError
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount
from tests.support.moto.middleware import ScriptedError

NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
ADMIN = "arn:aws:iam::123456789012:role/ops"


def test_entry_that_eks_created_for_the_creator_is_completed(account: TestAccount) -> None:
    file = a_cluster(vpc=NETWORK, access={"admins": [ADMIN]})
    account.eks.creator = ADMIN

    account.apply(file)

    entry = account.eks.parts["dev"]["access-entries"][ADMIN]
    assert entry["tags"]["dovetail.sh/cluster"] == "dev"
    assert [arn.rpartition("/")[2] for arn in entry["policies"]] == ["AmazonEKSClusterAdminPolicy"]
    assert account.plan(file).steps == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "message", "file"),
    [
        (
            "POST /clusters/dev/access-entries",
            "The specified principalArn is invalid: invalid principal.",
            {"access": {"admins": [ADMIN]}},
        ),
        (
            "POST /clusters/dev/fargate-profiles",
            "Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com "
            "Service Principal",
            {"home": "fargate"},
        ),
        (
            "POST /clusters/dev/node-groups",
            "Following required service principals [ec2.amazonaws.com] were not found in the trust "
            "relationships of nodeRole",
            {},
        ),
        (
            "POST /clusters",
            "Role with arn: x, could not be assumed because it does not exist or the trusted entity is "
            "not correct",
            {},
        ),
        (
            "POST /clusters",
            "The provided role doesn't have the Amazon EKS Managed Policies associated with it.",
            {},
        ),
    ],
)
def test_new_role_that_eks_does_not_see_yet_is_waited_for(
    account: TestAccount, operation: str, message: str, file: dict[str, object]
) -> None:
    config = a_cluster(vpc=NETWORK, **file)
    error = ScriptedError(
        operation=operation, code="InvalidParameterException", message=message, status=400, times=3
    )
    account.moto.middleware.add_error(error)

    account.apply(config)

    assert account.plan(config).steps == ()


def test_role_that_stays_invalid_is_reported(account: TestAccount) -> None:
    error = ScriptedError(
        operation="POST /clusters",
        code="InvalidParameterException",
        message="The following subnets are in an unsupported zone",
        status=400,
        times=99,
    )
    account.moto.middleware.add_error(error)

    with pytest.raises(DovetailError, match="unsupported zone"):
        account.apply(a_cluster(vpc=NETWORK))
