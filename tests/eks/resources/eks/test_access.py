"""Access entries: those that EKS creates itself, and principals that are new."""

from typing import Any

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "default"),
    [
        ({"roles": [{"roleArn": ADMIN}]}, "arn:aws:sts::123456789012:assumed-role/ops/{{SessionName}}"),
        (
            {"users": [{"userArn": "arn:aws:iam::123456789012:user/team/ann"}]},
            "arn:aws:iam::123456789012:user/team/ann",
        ),
    ],
)
def test_removed_username_and_groups_go_back_to_the_defaults(
    account: TestAccount, entry: dict[str, list[dict[str, str]]], default: str
) -> None:
    kind, (principal,) = next(iter(entry.items()))
    named = {**principal, "username": "operator", "groups": ["system:masters", "viewers"]}
    account.apply(a_cluster(vpc=NETWORK, access={kind: [named]}))
    before = next(iter(_standard_entries(account)))
    plain = a_cluster(vpc=NETWORK, access=entry)

    result = account.apply(plain)

    (after,) = _standard_entries(account)
    assert (before["username"], len(before["policies"])) == ("operator", 1)
    assert [step.kind for step in result.done] == ["eks-access-entry"]
    assert (after["username"], after["kubernetesGroups"], after["policies"]) == (default, [], {})
    assert account.plan(plain).steps == ()


def _standard_entries(account: TestAccount) -> list[dict[str, Any]]:
    entries = account.eks.seen()["dev"][1]["access-entries"].values()
    return [entry for entry in entries if entry["type"] == "STANDARD"]


@pytest.mark.slow
def test_groups_that_eks_gives_to_nodes_are_not_a_difference(account: TestAccount) -> None:
    account.apply(a_cluster(vpc=NETWORK))

    entries = account.eks.seen()["dev"][1]["access-entries"].values()
    assert ["system:nodes"] in [entry["kubernetesGroups"] for entry in entries]
    assert account.plan(a_cluster(vpc=NETWORK)).steps == ()


@pytest.mark.slow
def test_creator_that_stays_an_administrator_is_reported(account: TestAccount) -> None:
    account.eks.creator = ADMIN
    admins = ["arn:aws:iam::123456789012:role/admins"]
    account.apply(a_cluster(vpc=NETWORK, access={"admins": admins}))
    without = a_cluster(vpc=NETWORK, access={"admins": admins, "creatorIsAdmin": False})

    (note,) = account.plan(without).kept
    account.client("eks").delete_access_entry(clusterName="dev", principalArn=ADMIN)

    assert f"delete-access-entry --cluster-name dev --principal-arn {ADMIN}" in note
    assert account.plan(without).kept == ()
