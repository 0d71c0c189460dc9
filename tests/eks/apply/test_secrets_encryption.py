"""Encryption of Secrets with a KMS key: created, given, turned on later, never turned off."""

from typing import Any

import pytest

from dovetail.eks.apply.preflight import EncryptionError
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount
from tests.support.moto.middleware import ScriptedError

pytestmark = pytest.mark.slow

NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}


def cluster(encryption: Any = None) -> Any:
    return a_cluster(vpc=NETWORK, secretsEncryption=encryption)


def keys(account: TestAccount) -> dict[str, str]:
    """Return the state of every key of the cluster."""
    kms = account.client("kms")
    described = [kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"] for key in kms.list_keys()["Keys"]]
    return {
        key["Arn"]: key["KeyState"] for key in described if key["Description"].startswith("Secrets of EKS")
    }


def test_own_key_is_created_before_the_cluster_and_scheduled_for_deletion_after_it(
    account: TestAccount,
) -> None:
    config = cluster(True)

    account.apply(config)
    (key,) = keys(account)
    configured = account.eks.clusters["dev"]["encryptionConfig"]
    rotation = account.client("kms").get_key_rotation_status(KeyId=key)
    again = account.plan(config)
    left = account.destroy(config)

    assert configured == [{"resources": ["secrets"], "provider": {"keyArn": key}}]
    assert rotation["KeyRotationEnabled"] is True
    assert again.steps == ()
    assert left == []
    assert set(keys(account).values()) == {"PendingDeletion"}


def test_encryption_is_turned_on_for_a_running_cluster_with_a_given_key(account: TestAccount) -> None:
    key = account.client("kms").create_key()["KeyMetadata"]["Arn"]
    account.apply(cluster())
    encrypted = cluster({"keyArn": key})

    result = account.apply(encrypted)

    assert [step.id for step in result.done] == ["update eks-cluster/dev"]
    assert account.eks.clusters["dev"]["encryptionConfig"][0]["provider"] == {"keyArn": key}
    assert account.plan(encrypted).steps == ()
    assert account.destroy(encrypted) == []
    assert account.client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "Enabled"


@pytest.mark.parametrize("other", [None, {"keyArn": "arn:aws:kms:us-east-1:123456789012:key/other"}])
def test_encryption_is_neither_turned_off_nor_given_another_key(account: TestAccount, other: Any) -> None:
    account.apply(cluster(True))
    (key,) = keys(account)

    with pytest.raises(EncryptionError, match=f"encrypts Secrets with {key}.*: set it to true"):
        account.plan(cluster(other))

    assert keys(account) == {key: "Enabled"}


def test_lost_responses_leave_one_key_and_one_ipv6_block(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK, secretsEncryption=True, ipFamily="ipv6")
    for operation in ("CreateKey", "CreateAlias", "AssociateVpcCidrBlock", "CreateEgressOnlyInternetGateway"):
        account.moto.middleware.add_error(ScriptedError(operation=operation, after_effect=True, hang_up=True))

    account.apply(config)

    states = sorted(keys(account).values())
    assert states.count("Enabled") == 1
    assert set(states) <= {"Enabled", "PendingDeletion"}
    blocks = [
        block
        for vpc in account.client("ec2").describe_vpcs()["Vpcs"]
        for block in vpc["Ipv6CidrBlockAssociationSet"]
    ]
    assert len(blocks) == 1
    assert account.plan(config).steps == ()
    assert account.destroy(config) == []


def test_key_of_an_interrupted_run_is_used_and_deleted(account: TestAccount) -> None:
    config = cluster(True)
    kms = account.client("kms")
    orphan = kms.create_key(
        Description="Secrets of EKS cluster dev",
        Tags=[
            {"TagKey": "dovetail.sh/cluster", "TagValue": "dev"},
            {"TagKey": "dovetail.sh/resource", "TagValue": "secrets"},
        ],
    )["KeyMetadata"]["Arn"]

    account.apply(config)

    assert list(keys(account)) == [orphan]
    assert account.plan(config).steps == ()
    assert account.destroy(config) == []
    assert keys(account) == {orphan: "PendingDeletion"}
