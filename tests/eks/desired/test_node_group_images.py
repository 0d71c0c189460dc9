"""Windows, GPU and Bottlerocket node groups, and IPv6 clusters: what AWS requires."""

import json
from typing import Any

import pytest
import yaml

from dovetail.eks.desired.addons import file_notes
from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.render.formats import Format, render_files
from dovetail.errors import InvalidInputError
from tests.support.eks.configs import a_cluster

WINDOWS = {"name": "win", "image": "windows-2022-core", "instanceTypes": ["m5.large"]}


def resources(**fields: Any) -> dict[str, Any]:
    return {resource.address: resource for resource in desired_state(a_cluster(**fields))}


def with_group(**group: Any) -> dict[str, Any]:
    return {"nodeGroups": [{"name": "extra", **group}]}


def test_windows_group_has_its_own_role_ami_disk_and_taint() -> None:
    desired = resources(nodeGroups=[WINDOWS])

    group = desired["eks-node-group/win"].properties
    assert group["AmiType"] == "WINDOWS_CORE_2022_x86_64"
    assert group["NodeRole"] == "@{iam-role/dev-us-east-1-node-group-windows:arn}"
    assert group["Taints"] == [{"Key": "os", "Value": "windows", "Effect": "NO_SCHEDULE"}]
    template = desired["launch-template/dev-win"].properties["LaunchTemplateData"]
    device = template["BlockDeviceMappings"][0]
    assert (device["DeviceName"], device["Ebs"]["VolumeSize"]) == ("/dev/sda1", 50)
    home = desired["eks-node-group/controller"].properties
    assert home["NodeRole"] == "@{iam-role/dev-us-east-1-node-group:arn}"


def test_windows_turns_on_ipam_of_the_network_plugin() -> None:
    def values(**fields: Any) -> str:
        return str(resources(**fields)["eks-addon/vpc-cni"].properties.get("ConfigurationValues", ""))

    node_class = {"nodeClasses": [{"name": "default"}, {"name": "w", "image": "windows2022@latest"}]}
    assert values() == ""
    assert json.loads(values(nodeGroups=[WINDOWS])) == {"enableWindowsIpam": "true"}
    assert json.loads(values(**node_class)) == {"enableWindowsIpam": "true"}
    own = {"vpc-cni": {"values": {"enableWindowsIpam": "false", "a": 1}}}
    assert json.loads(values(nodeGroups=[WINDOWS], addons=own)) == {"a": 1, "enableWindowsIpam": "false"}


def test_aws_auth_lets_windows_nodes_run_their_proxy() -> None:
    desired = resources(nodeGroups=[WINDOWS], access={"mode": "aws-auth"})

    data = desired["kubernetes-object/ConfigMap/kube-system/aws-auth"].properties["data"]
    groups = {
        entry["rolearn"].rpartition("/")[2]: entry["groups"] for entry in yaml.safe_load(data["mapRoles"])
    }
    assert "eks:kube-proxy-windows" in groups["dev-us-east-1-node-group-windows"]
    assert "eks:kube-proxy-windows" not in groups["dev-us-east-1-node-group"]


def test_explicit_taints_and_disk_replace_those_of_windows() -> None:
    group = {**WINDOWS, "taints": [], "diskGib": 80, "launchTemplate": False}

    properties = resources(nodeGroups=[group])["eks-node-group/win"].properties

    assert (properties["Taints"], properties["DiskSize"]) == ([], 80)


@pytest.mark.parametrize(
    ("group", "ami_type"),
    [
        ({"instanceTypes": ["g5.xlarge"]}, "AL2023_x86_64_NVIDIA"),
        ({"instanceTypes": ["g5g.xlarge"], "architecture": "arm64"}, "AL2023_ARM_64_NVIDIA"),
        ({"instanceTypes": ["inf2.xlarge"]}, "AL2023_x86_64_NEURON"),
        ({"image": "bottlerocket"}, "BOTTLEROCKET_x86_64"),
        ({"image": "bottlerocket", "architecture": "arm64"}, "BOTTLEROCKET_ARM_64"),
        ({"image": "bottlerocket", "instanceTypes": ["g5.xlarge"]}, "BOTTLEROCKET_x86_64_NVIDIA"),
        ({"image": "windows-2025-full"}, "WINDOWS_FULL_2025_x86_64"),
    ],
)
def test_ami_type_follows_from_image_architecture_and_accelerator(
    group: dict[str, Any], ami_type: str
) -> None:
    assert resources(**with_group(**group))["eks-node-group/extra"].properties["AmiType"] == ami_type


def test_disk_of_a_bottlerocket_group_is_its_data_volume() -> None:
    template = resources(**with_group(image="bottlerocket", diskGib=90))["launch-template/dev-extra"]

    device = template.properties["LaunchTemplateData"]["BlockDeviceMappings"][0]
    assert (device["DeviceName"], device["Ebs"]["VolumeSize"]) == ("/dev/xvdb", 90)


def test_gpu_group_without_a_device_plugin_is_noted() -> None:
    with_plugin = a_cluster(**with_group(image="bottlerocket", instanceTypes=["g5.xlarge"]))
    without = a_cluster(**with_group(instanceTypes=["g5.xlarge"]))

    assert list(file_notes(with_plugin)) == []
    assert ["GPUs of extra once NVIDIA's device plugin runs" in note for note in file_notes(without)] == [
        True
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"home": {"kind": "managed-node-group", "image": "windows-2022-core"}}, "home.image: must be Linux"),
        (with_group(image="windows-2022-core", architecture="arm64"), "Windows runs on amd64 only"),
        (with_group(image="windows-2022-core", diskGib=30), "30 is too small for Windows: at least 50"),
        (with_group(image="windows"), "'windows' is not a valid value"),
        ({**with_group(image="windows-2022-core"), "ipFamily": "ipv6"}, "not possible with ipFamily: ipv6"),
        (
            with_group(image="windows-2022-core", instanceTypes=["m4.large"]),
            "m4.large is not possible with Windows, which requires the Nitro system",
        ),
        (
            {**with_group(instanceTypes=["m4.large"]), "ipFamily": "ipv6"},
            "m4.large is not possible with ipFamily: ipv6, which requires the Nitro system",
        ),
        (with_group(instanceTypes=["g5.xlarge", "m5.large"]), "mixes types with and without GPUs or Neuron"),
        ({"ipFamily": "ipv6", "serviceCidr": "10.100.0.0/16"}, "EKS assigns the block of Services"),
        ({"ipFamily": "ipv6", "addons": {"vpc-cni": False}}, "only the VPC CNI assigns IPv6 addresses"),
        ({"ipFamily": "ipv6", "home": "existing"}, "ipFamily: is not possible for an existing cluster"),
        ({"serviceCidr": "10.0.0.0/16"}, "serviceCidr: 10.0.0.0/16 overlaps with the VPC's 10.0.0.0/16"),
        ({"serviceCidr": "11.0.0.0/16"}, "11.0.0.0/16 is not inside 10.0.0.0/8"),
        ({"serviceCidr": "10.100.0.0/28"}, "/28 is not a size that EKS accepts: /12 to /24"),
        ({"serviceCidr": "x"}, "serviceCidr: 'x' is not a CIDR block"),
    ],
)
def test_what_aws_would_reject_is_reported(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        a_cluster(**fields)

    assert message in str(error.value)


def test_ipv6_cluster_has_a_policy_for_its_network_plugin_and_metadata_over_ipv6() -> None:
    desired = resources(ipFamily="ipv6")

    for role in ("iam-role/dev-us-east-1-node", "iam-role/dev-us-east-1-node-group"):
        policies = desired[role].properties["ManagedPolicyArns"]
        assert "@{iam-policy/dev-us-east-1-cni-ipv6:arn}" in policies
    node_class = desired["kubernetes-object/EC2NodeClass/default"].properties
    assert node_class["spec"]["metadataOptions"]["httpProtocolIPv6"] == "enabled"
    cluster = desired["eks-cluster/dev"].properties
    assert cluster["KubernetesNetworkConfig"] == {"IpFamily": "ipv6"}
    assert "route/private-us-east-1a-ipv6" in desired["eks-node-group/controller"].depends_on


def test_policy_for_ipv6_is_attached_to_a_given_node_role() -> None:
    arn = "arn:aws:iam::123456789012:role/given"

    desired = resources(ipFamily="ipv6", iam={"nodeRole": {"arn": arn}})

    assert desired["iam-policy/dev-us-east-1-cni-ipv6"].properties["Roles"] == ["given"]


def test_isolated_ipv6_cluster_has_no_route_to_the_internet() -> None:
    desired = resources(ipFamily="ipv6", vpc={"create": {"nat": "none"}})

    assert "vpc-ipv6-block/main" in desired
    assert not [address for address in desired if address.startswith(("egress-only", "route/"))]


def test_ipv6_is_rendered() -> None:
    config = a_cluster(ipFamily="ipv6")

    template = json.loads(render_files(config, Format.CLOUDFORMATION)["cloudformation.json"])["Resources"]
    module = json.loads(render_files(config, Format.TERRAFORM)["main.tf.json"])["resource"]

    subnet = template["SubnetPublicUsEast1b"]
    blocks = {"Fn::GetAtt": ["VpcMain", "Ipv6CidrBlocks"]}
    cidrs = {"Fn::Cidr": [{"Fn::Select": [0, blocks]}, 256, 64]}
    assert subnet["Properties"]["Ipv6CidrBlock"] == {"Fn::Select": [129, cidrs]}
    assert subnet["DependsOn"] == ["VpcIpv6BlockMain"]
    assert template["VpcIpv6BlockMain"]["Type"] == "AWS::EC2::VPCCidrBlock"
    block = "aws_vpc_ipv6_cidr_block_association.main.ipv6_cidr_block"
    assert module["aws_subnet"]["public_us_east_1b"]["ipv6_cidr_block"] == f"${{cidrsubnet({block}, 8, 129)}}"
    route = module["aws_route"]["private_us_east_1a_ipv6"]
    assert route["egress_only_gateway_id"] == "${aws_egress_only_internet_gateway.main.id}"
    assert route["destination_ipv6_cidr_block"] == "::/0"
    egress = module["aws_security_group"]["dev_node"]["egress"][0]
    assert egress["ipv6_cidr_blocks"] == ["::/0"]
    assert module["aws_eks_cluster"]["dev"]["kubernetes_network_config"] == {"ip_family": "ipv6"}
