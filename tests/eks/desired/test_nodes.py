"""Volumes, spot role and security groups of nodes, as cluster.yaml asks for them."""

import json
from typing import Any

import pytest

from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.plan.resource import DesiredResource
from dovetail.eks.render.formats import Format, render_files
from tests.support.eks.configs import a_cluster

SPOT_ROLE = "service-linked-role/AWSServiceRoleForEC2Spot"


def resources_of(**fields: Any) -> dict[str, DesiredResource]:
    return {resource.address: resource for resource in desired_state(a_cluster(**fields))}


@pytest.mark.parametrize(
    ("node_class", "volumes"),
    [
        ({}, {"/dev/xvda": "80Gi"}),
        ({"image": "bottlerocket@latest"}, {"/dev/xvda": "4Gi", "/dev/xvdb": "80Gi"}),
        ({"image": "windows2022@latest"}, {"/dev/sda1": "80Gi"}),
        (
            {"image": "ami-0123456789abcdef0", "imageFamily": "Bottlerocket"},
            {"/dev/xvda": "4Gi", "/dev/xvdb": "80Gi"},
        ),
        ({"image": "ami-0123456789abcdef0", "imageFamily": "Custom"}, {"/dev/xvda": "80Gi"}),
    ],
)
def test_disk_size_is_that_of_the_volume_with_images_and_pods(
    node_class: dict[str, Any], volumes: dict[str, str]
) -> None:
    pool = {"name": "default", "nodeClass": "linux"}
    classes = [{"name": "linux"}, {"name": "sized", "diskGib": 80, **node_class}]

    resources = resources_of(nodeClasses=classes, nodePools=[pool])

    mappings = resources["kubernetes-object/EC2NodeClass/sized"].properties["spec"]["blockDeviceMappings"]
    assert {mapping["deviceName"]: mapping["ebs"]["volumeSize"] for mapping in mappings} == volumes
    assert all(mapping["ebs"]["encrypted"] for mapping in mappings)


def full_pool(operator: str, *values: str) -> dict[str, Any]:
    requirement = {"key": "karpenter.sh/capacity-type", "operator": operator, "values": list(values)}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {"requirements": [requirement], "nodeClassRef": reference}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "full"},
        "spec": {"template": {"spec": spec}},
    }


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ({"name": "default"}, False),
        ({"name": "default", "capacityTypes": ["spot", "on-demand"]}, True),
        (full_pool("In", "spot"), True),
        (full_pool("In", "on-demand"), False),
        (full_pool("NotIn", "on-demand"), True),
        (full_pool("NotIn", "spot"), False),
    ],
)
def test_spot_role_is_desired_if_a_nodepool_can_launch_spot_instances(
    pool: dict[str, Any], expected: bool
) -> None:
    resources = resources_of(nodePools=[pool])

    assert (SPOT_ROLE in resources) == expected
    if expected:
        name = pool.get("name", "full")
        assert SPOT_ROLE in resources[f"kubernetes-object/NodePool/{name}"].depends_on


@pytest.mark.parametrize("render_format", [Format.CLOUDFORMATION, Format.TERRAFORM])
def test_spot_role_is_in_no_template_because_it_may_exist(render_format: Format) -> None:
    config = a_cluster(nodePools=[{"name": "default", "capacityTypes": ["spot"]}])

    files = render_files(config, render_format)

    template = next(text for name, text in files.items() if name.endswith(".json"))
    assert "AWSServiceRoleForEC2Spot" not in template
    assert "create-service-linked-role --aws-service-name spot.amazonaws.com" in files["install.sh"]


def test_ingress_applies_to_managed_node_groups_but_not_to_the_control_plane() -> None:
    ingress = [{"protocol": "tcp", "ports": "30000-32767", "cidrs": ["192.0.2.0/24"]}]

    resources = resources_of(ingress=ingress, nodeGroups=[{"name": "batch"}])

    for group in ("controller", "batch"):
        data = resources[f"launch-template/dev-{group}"].properties["LaunchTemplateData"]
        assert data["SecurityGroupIds"] == [
            "@{eks-cluster/dev:security-group}",
            "@{security-group/dev-ingress:id}",
        ]
    groups = {
        address.rpartition("/")[2]: resource.properties["GroupId"]
        for address, resource in resources.items()
        if resource.kind == "security-group-rule" and resource.properties.get("CidrIp") == "192.0.2.0/24"
    }
    assert groups == {
        "nodes-tcp-30000-32767": "@{security-group/dev-node:id}",
        "node-groups-tcp-30000-32767": "@{security-group/dev-ingress:id}",
    }


def test_node_groups_have_no_ingress_group_without_ingress() -> None:
    resources = resources_of()

    assert "security-group/dev-ingress" not in resources
    template = resources["launch-template/dev-controller"].properties["LaunchTemplateData"]
    assert template["SecurityGroupIds"] == []


def test_fargate_profiles_are_created_one_after_the_other() -> None:
    home = {"kind": "fargate", "namespaces": ["kube-system", "web", "jobs"]}

    template = json.loads(render_files(a_cluster(home=home), Format.CLOUDFORMATION)["cloudformation.json"])

    profiles = {
        resource["Properties"]["FargateProfileName"]: resource
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::EKS::FargateProfile"
    }
    assert list(profiles) == ["kube-system", "web", "jobs"]
    assert "EksFargateProfileKubeSystem" in profiles["web"]["DependsOn"]
    assert "EksFargateProfileWeb" in profiles["jobs"]["DependsOn"]
