"""EKS add-ons by name: their roles, values and order."""

import json
from typing import Any

import pytest

from dovetail.eks.desired.addons import file_notes
from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.render.formats import Format, render_files
from dovetail.errors import InvalidInputError
from tests.support.eks.configs import a_cluster


def resources(**fields: Any) -> dict[str, Any]:
    return {resource.address: resource for resource in desired_state(a_cluster(**fields))}


def test_ebs_driver_gets_the_role_that_aws_recommends_through_pod_identity() -> None:
    desired = resources(addons={"aws-ebs-csi-driver": True})

    role = desired["iam-role/dev-us-east-1-aws-ebs-csi-driver"]
    association = desired["pod-identity-association/kube-system/ebs-csi-controller-sa"]
    addon = desired["eks-addon/aws-ebs-csi-driver"]
    assert role.properties["ManagedPolicyArns"] == [
        "arn:@{aws:partition}:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"
    ]
    assert association.properties["RoleArn"] == "@{iam-role/dev-us-east-1-aws-ebs-csi-driver:arn}"
    assert association.address in addon.depends_on
    assert "kubernetes-object/NodePool/default" in addon.depends_on
    assert "AddonVersion" not in addon.properties, "the newest that fits"
    assert "ServiceAccountRoleArn" not in addon.properties


def test_irsa_gives_the_addon_its_role_by_arn() -> None:
    desired = resources(identity="irsa", addons={"aws-ebs-csi-driver": {"version": "v1.40.0-eksbuild.1"}})

    addon = desired["eks-addon/aws-ebs-csi-driver"]
    trust = desired["iam-role/dev-us-east-1-aws-ebs-csi-driver"].properties["AssumeRolePolicyDocument"]
    assert addon.properties["ServiceAccountRoleArn"] == "@{iam-role/dev-us-east-1-aws-ebs-csi-driver:arn}"
    assert addon.properties["AddonVersion"] == "v1.40.0-eksbuild.1"
    assert "system:serviceaccount:kube-system:ebs-csi-controller-sa" in json.dumps(trust)
    assert "oidc-provider/dev" in addon.depends_on
    assert "pod-identity-association/kube-system/ebs-csi-controller-sa" not in desired


def test_any_addon_has_version_values_and_a_role_of_its_own() -> None:
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    desired = resources(
        addons={
            "acme_agent": {
                "version": "v2",
                "values": {"level": "debug"},
                "role": {
                    "namespace": "acme",
                    "serviceAccount": "agent",
                    "policies": ["AmazonS3ReadOnlyAccess", "arn:aws:iam::123456789012:policy/own"],
                    "statements": [statement],
                },
            },
            "snapshot-controller": True,
            "cert-manager": False,
        }
    )

    addon = desired["eks-addon/acme_agent"].properties
    assert (addon["AddonVersion"], addon["ConfigurationValues"]) == ("v2", '{"level": "debug"}')
    role = desired["iam-role/dev-us-east-1-acme_agent"].properties
    assert role["ManagedPolicyArns"] == [
        "arn:@{aws:partition}:iam::aws:policy/AmazonS3ReadOnlyAccess",
        "arn:aws:iam::123456789012:policy/own",
        "@{iam-policy/dev-us-east-1-acme_agent:arn}",
    ]
    policy = desired["iam-policy/dev-us-east-1-acme_agent"].properties["PolicyDocument"]
    assert policy["Statement"] == [statement]
    assert "pod-identity-association/acme/agent" in desired
    assert "eks-addon/snapshot-controller" in desired
    assert "iam-role/dev-us-east-1-snapshot-controller" not in desired
    assert "eks-addon/cert-manager" not in desired


def test_agents_by_name_do_not_hold_up_the_controller() -> None:
    desired = resources(addons={"eks-node-monitoring-agent": True})

    controller = desired["helm-release/kube-system/dovetail"]
    assert "eks-addon/eks-node-monitoring-agent" not in controller.depends_on
    assert "eks-addon/eks-pod-identity-agent" in controller.depends_on


def test_name_that_resembles_a_known_one_is_accepted_with_a_note() -> None:
    config = a_cluster(addons={"aws-ebs-csi-drver": True, "metric-server": True, "acme-agent": True})

    assert list(file_notes(config)) == [
        "addons.aws-ebs-csi-drver: is taken as the name of an EKS add-on that is not known here; "
        "did you mean 'aws-ebs-csi-driver'?",
        "addons.metric-server: is taken as the name of an EKS add-on that is not known here; "
        "did you mean 'metrics-server'?",
    ]


@pytest.mark.parametrize(
    ("addons", "message"),
    [
        ({"eks-pod-identity-agent": True}, "is the field pod-identity-agent here"),
        ({"a b": True}, "is not the name of an EKS add-on"),
        ({"acme": {"role": {"policies": ["X"]}}}, "serviceAccount: is missing: the service account of acme"),
        ({"acme": {"role": {"serviceAccount": "a"}}}, "role: has neither policies nor statements"),
        ({"aws-ebs-csi-driver": {"role": {"policies": ["a:b"]}}}, "is neither an ARN nor the name of an AWS"),
        ({"x" * 60: {"role": {"serviceAccount": "a", "policies": ["P"]}}}, "IAM allows 64"),
        ({"acme": {"versions": "1"}}, "addons.acme.versions: is not a field here; did you mean 'version'?"),
    ],
)
def test_invalid_addons_are_reported(addons: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        a_cluster(addons=addons)

    assert message in str(error.value)


@pytest.mark.parametrize("identity", ["pod-identity", "irsa"])
def test_addons_and_encryption_are_rendered(identity: str) -> None:
    config = a_cluster(identity=identity, secretsEncryption=True, addons={"aws-ebs-csi-driver": True})

    template = json.loads(render_files(config, Format.CLOUDFORMATION)["cloudformation.json"])["Resources"]
    module = json.loads(render_files(config, Format.TERRAFORM)["main.tf.json"])["resource"]

    assert template["EksAddonAwsEbsCsiDriver"]["Properties"]["AddonName"] == "aws-ebs-csi-driver"
    provider = template["EksClusterDev"]["Properties"]["EncryptionConfig"][0]["Provider"]
    assert provider == {"KeyArn": {"Fn::GetAtt": ["KmsKeySecrets", "Arn"]}}
    assert template["KmsAliasAliasDovetailDev"]["Properties"]["TargetKeyId"] == {"Ref": "KmsKeySecrets"}
    assert module["aws_eks_addon"]["aws_ebs_csi_driver"]["addon_name"] == "aws-ebs-csi-driver"
    encryption = module["aws_eks_cluster"]["dev"]["encryption_config"]
    assert encryption["provider"] == {"key_arn": "${aws_kms_key.secrets.arn}"}
    assert module["aws_kms_alias"]["alias_dovetail_dev"]["target_key_id"] == "${aws_kms_key.secrets.key_id}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"secretsEncryption": {"keyArn": "arn:aws:kms:us-east-1:123456789012:alias/a"}},
            "secretsEncryption.keyArn: is not the ARN of a KMS key",
        ),
        (
            {"secretsEncryption": {"keyArn": "arn:aws:kms:eu-west-1:123456789012:key/a"}},
            "keyArn: is in eu-west-1; EKS requires a key in the cluster's region, us-east-1",
        ),
        ({"secretsEncryption": {"keyArn": "a"}}, "secretsEncryption.keyArn: 'a' is not an ARN"),
        ({"secretsEncryption": {"keyarn": "a"}}, "secretsEncryption.keyarn: is not a field here"),
        ({"secretsEncryption": True, "home": "existing"}, "is not possible for an existing cluster"),
    ],
)
def test_invalid_encryption_is_reported(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        a_cluster(**fields)

    assert message in str(error.value)
