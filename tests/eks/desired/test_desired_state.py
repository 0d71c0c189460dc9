"""Desired state: every choice in cluster.yaml shows in the resources."""

import json
import re
from pathlib import Path
from typing import Any

import botocore.session
import jsonschema
import pytest
import yaml

import dovetail.aws
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.desired.desired_state import desired_state, outputs
from dovetail.eks.desired.names import DISCOVERY
from dovetail.eks.plan.references import AWS, AWS_ATTRIBUTES, find_references, resolve_references
from dovetail.eks.plan.resource import NAME_TAG, OWNERSHIP_TAG, Account, DesiredResource
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.eks.render.formats import Format, render_files
from dovetail.model.cloud.partitions import dns_suffix
from tests.support.eks.configs import EXAMPLES, a_cluster, an_example

NAMES = [path.stem for path in EXAMPLES]
CHARTS = Path(__file__).parents[3] / "deploy" / "charts"
IMAGE = {"image": "registry.example.com/dovetail:1"}


def desired_by_address(config: ClusterConfig) -> dict[str, DesiredResource]:
    return {resource.address: resource for resource in desired_state(config)}


def names_of_kind(config: ClusterConfig, kind: str) -> list[str]:
    return [resource.name for resource in desired_state(config) if resource.kind == kind]


@pytest.mark.parametrize("example", NAMES)
def test_every_reference_names_an_attribute_of_its_kind(example: str) -> None:
    config = an_example(example)
    resources = desired_by_address(config)
    everything: list[Any] = [resource.properties for resource in resources.values()]

    for reference in find_references([*everything, outputs(config)]):
        if reference.address == AWS:
            assert reference.attribute in AWS_ATTRIBUTES
        else:
            assert reference.attribute in KINDS[resources[reference.address].kind].attributes


@pytest.mark.parametrize("example", NAMES)
def test_every_taggable_resource_has_the_ownership_tag(example: str) -> None:
    config = an_example(example)

    for resource in desired_state(config):
        facts = KINDS[resource.kind]
        if resource.external or not facts.taggable:
            continue
        assert resource.tags[OWNERSHIP_TAG] == config.name
        assert resource.tags.items() >= config.tags.items()
        if facts.name_property:
            assert resource.properties[facts.name_property] == resource.name
        else:
            assert resource.tags[NAME_TAG] == resource.name


@pytest.mark.parametrize("example", NAMES)
def test_desired_state_is_deterministic(example: str) -> None:
    assert desired_state(an_example(example)) == desired_state(an_example(example))


@pytest.mark.parametrize("example", NAMES)
def test_instances_require_imdsv2(example: str) -> None:
    for resource in desired_state(an_example(example)):
        if resource.kind == "launch-template":
            options = resource.properties["LaunchTemplateData"]["MetadataOptions"]
            assert options["HttpTokens"] == "required"
        if resource.name.startswith("EC2NodeClass/"):
            assert resource.properties["spec"]["metadataOptions"]["httpTokens"] == "required"


@pytest.mark.parametrize("example", NAMES)
def test_node_has_exactly_one_security_group_with_the_cluster_tag(example: str) -> None:
    config = an_example(example)
    owned = f"kubernetes.io/cluster/{config.name}"

    groups = [
        resource
        for resource in desired_state(config)
        if resource.kind == "security-group" and owned in resource.tags
    ]

    assert len(groups) == (0 if example == "existing-cluster" else 1)


def test_cluster_subnets_and_security_group_have_the_discovery_tag() -> None:
    resources = desired_by_address(a_cluster(name="dev"))

    discovered = {address for address, resource in resources.items() if DISCOVERY in resource.tags}

    assert {"eks-cluster/dev", "security-group/dev-node", "subnet/private-us-east-1a"} <= discovered
    assert {resources[address].tags[DISCOVERY] for address in discovered} == {"dev"}


def test_additional_tags_are_on_the_security_group_of_nodes_only() -> None:
    tags = {"Name": "dev", "team": "nodes"}
    config = a_cluster(name="dev", tags={"team": "platform"}, nodeSecurityGroup={"tags": tags})
    resources = desired_by_address(config)

    tagged = {address for address, resource in resources.items() if resource.tags.get("team") == "nodes"}

    assert tagged == {"security-group/dev-node"}
    assert tags.items() <= resources["security-group/dev-node"].tags.items()


def test_created_vpc_has_private_and_public_subnets() -> None:
    resources = desired_by_address(a_cluster(vpc={"create": {"cidr": "10.0.0.0/16", "zones": 3}}))

    blocks = {
        name: resource.properties["CidrBlock"]
        for resource in resources.values()
        if (name := resource.name) and resource.kind == "subnet"
    }

    assert blocks == {
        "private-us-east-1a": "10.0.0.0/18",
        "private-us-east-1b": "10.0.64.0/18",
        "private-us-east-1c": "10.0.128.0/18",
        "public-us-east-1a": "10.0.224.0/22",
        "public-us-east-1b": "10.0.228.0/22",
        "public-us-east-1c": "10.0.232.0/22",
    }


@pytest.mark.parametrize(("nat", "gateways"), [("single", 1), ("per-zone", 3), ("none", 0)])
def test_number_of_nat_gateways_follows_the_nat_field(nat: str, gateways: int) -> None:
    config = a_cluster(vpc={"create": {"nat": nat}})

    assert len(names_of_kind(config, "nat-gateway")) == gateways
    assert len(names_of_kind(config, "elastic-ip")) == gateways


def test_private_cluster_has_endpoints_and_an_instance_profile() -> None:
    config = a_cluster(vpc={"create": {"nat": "none"}})
    resources = desired_by_address(config)

    needed = {"s3", "ec2", "ecr.api", "ecr.dkr", "sts", "ssm", "sqs", "eks"}

    assert needed <= set(names_of_kind(config, "vpc-endpoint"))
    node_class = resources["kubernetes-object/EC2NodeClass/default"].properties["spec"]
    assert node_class["instanceProfile"] == "dev-us-east-1-node"
    assert "role" not in node_class
    values = resources["helm-release/kube-system/dovetail"].properties["values"]
    assert values["settings"]["isolatedVPC"] is True
    assert names_of_kind(config, "internet-gateway") == []


def test_controller_and_coredns_tolerate_the_taint_of_the_controller_node_group() -> None:
    resources = desired_by_address(a_cluster())

    group = resources["eks-node-group/controller"].properties

    assert group["Taints"] == [{"Key": "karpenter.sh/controller", "Value": "true", "Effect": "NO_SCHEDULE"}]
    values = resources["helm-release/kube-system/dovetail"].properties["values"]
    assert group["Labels"].items() <= values["nodeSelector"].items()
    assert {"key": "karpenter.sh/controller", "operator": "Exists"} in values["tolerations"]
    dns = resources["eks-addon/coredns"]
    assert "karpenter.sh/controller" in dns.properties["ConfigurationValues"]
    assert "eks-node-group/controller" in dns.depends_on


def test_coredns_runs_on_fargate_and_the_controller_does_not_depend_on_it() -> None:
    config = a_cluster(home="fargate", controller={**IMAGE, "namespace": "karpenter"})
    resources = desired_by_address(config)

    assert names_of_kind(config, "eks-fargate-profile") == ["kube-system", "karpenter"]
    assert names_of_kind(config, "eks-node-group") == []
    dns = resources["eks-addon/coredns"].properties["ConfigurationValues"]
    assert yaml.safe_load(dns) == {"computeType": "Fargate"}
    values = resources["helm-release/karpenter/dovetail"].properties["values"]
    assert values["dnsPolicy"] == "Default"
    assert "eks.amazonaws.com/role-arn" in values["serviceAccount"]["annotations"]


def test_controller_outside_kube_system_has_flow_schemas() -> None:
    config = a_cluster(controller={**IMAGE, "namespace": "karpenter"})

    schemas = [
        address for address in names_of_kind(config, "kubernetes-object") if address.startswith("FlowSchema/")
    ]

    assert schemas == ["FlowSchema/dovetail-leader-election", "FlowSchema/dovetail-workload-high"]


def test_existing_cluster_is_external_and_only_missing_parts_are_desired() -> None:
    config = an_example("existing-cluster")
    resources = desired_by_address(config)

    assert resources["eks-cluster/platform-one"].external
    assert resources["iam-role/platform-one-worker"].external
    kinds = {resource.kind for resource in resources.values() if not resource.external}
    assert not kinds & {"vpc", "subnet", "eks-node-group", "eks-addon", "oidc-provider"}
    role = resources["iam-role/platform-one-us-east-1-karpenter"].properties
    assert role["Path"] == "/platform/"
    assert role["PermissionsBoundary"].endswith(":policy/platform-boundary")


def test_pod_identity_needs_an_agent_and_irsa_an_oidc_provider() -> None:
    by_agent, by_provider = a_cluster(identity="pod-identity"), a_cluster(identity="irsa")

    assert "eks-pod-identity-agent" in names_of_kind(by_agent, "eks-addon")
    assert names_of_kind(by_agent, "oidc-provider") == []
    assert names_of_kind(by_agent, "pod-identity-association") == ["kube-system/dovetail"]
    assert "eks-pod-identity-agent" not in names_of_kind(by_provider, "eks-addon")
    assert names_of_kind(by_provider, "oidc-provider") == ["dev"]
    assert names_of_kind(by_provider, "pod-identity-association") == []


def test_nodes_join_by_access_entry_or_by_aws_auth_but_not_by_both() -> None:
    entries, config_map = a_cluster(), a_cluster(access={"mode": "aws-auth"})

    assert names_of_kind(entries, "eks-access-entry") == ["node-dev-us-east-1-node"]
    entry = desired_by_address(entries)["eks-access-entry/node-dev-us-east-1-node"].properties
    assert entry["Type"] == "EC2_LINUX"
    assert names_of_kind(config_map, "eks-access-entry") == []
    data = desired_by_address(config_map)["kubernetes-object/ConfigMap/kube-system/aws-auth"].properties[
        "data"
    ]
    roles = [mapping["rolearn"] for mapping in yaml.safe_load(data["mapRoles"])]
    prefix = "arn:@{aws:partition}:iam::@{aws:account}:role"
    assert roles == [f"{prefix}/dev-us-east-1-node-group", f"{prefix}/dev-us-east-1-node"]


def test_admin_name_is_a_user_of_the_account_with_the_admin_policy() -> None:
    entry = desired_by_address(a_cluster(access={"admins": ["alice"]}))["eks-access-entry/admin-alice"]

    assert entry.properties["PrincipalArn"] == "arn:@{aws:partition}:iam::@{aws:account}:user/alice"
    policy = entry.properties["AccessPolicies"][0]["PolicyArn"]
    assert policy.endswith("AmazonEKSClusterAdminPolicy")


def test_access_policy_of_a_role_has_the_scope_of_its_namespaces() -> None:
    role = "arn:aws:iam::123456789012:role/developers"
    entry = {"roleArn": role, "policies": ["AmazonEKSEditPolicy"], "namespaces": ["shop"]}
    config = a_cluster(access={"roles": [entry]})

    resource = desired_by_address(config)["eks-access-entry/123456789012-role-developers"]

    [policy] = resource.properties["AccessPolicies"]
    assert policy["PolicyArn"].endswith(":eks::aws:cluster-access-policy/AmazonEKSEditPolicy")
    assert policy["AccessScope"] == {"Type": "namespace", "Namespaces": ["shop"]}
    module = json.loads(render_files(config, Format.TERRAFORM)["main.tf.json"])
    [association] = [
        block
        for label, block in module["resource"]["aws_eks_access_policy_association"].items()
        if "developers" in label
    ]
    assert association["access_scope"] == {"type": "namespace", "namespaces": ["shop"]}


def test_nodes_with_the_role_of_the_home_need_no_access_entry() -> None:
    config = a_cluster(iam={"nodeRole": {"use": "home"}})
    resources = desired_by_address(config)

    assert "iam-role/dev-us-east-1-node" not in resources
    assert names_of_kind(config, "eks-access-entry") == []
    node_class = resources["kubernetes-object/EC2NodeClass/default"].properties["spec"]
    assert node_class["role"] == "dev-us-east-1-node-group"


def test_short_nodepool_makes_defaults_explicit() -> None:
    pool = {
        "name": "spot",
        "families": ["m5"],
        "capacityTypes": ["spot"],
        "ttlAfterEmpty": 30,
        "expireAfter": 3600,
        "limits": {"cpu": 10, "memory": "40Gi"},
    }

    body = desired_by_address(a_cluster(nodePools=[pool]))["kubernetes-object/NodePool/spot"].properties[
        "spec"
    ]

    assert body["disruption"] == {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "30s",
        "budgets": [
            {"nodes": "100%", "reasons": ["Empty"]},
            {"nodes": "10%", "reasons": ["Underutilized", "Drifted"]},
        ],
    }
    assert body["template"]["spec"]["expireAfter"] == "3600s"
    assert body["limits"] == {"cpu": 10, "memory": "40Gi"}
    requirements = {
        requirement["key"]: requirement["values"] for requirement in body["template"]["spec"]["requirements"]
    }
    assert requirements["karpenter.sh/capacity-type"] == ["spot"]
    assert requirements["karpenter.k8s.aws/instance-family"] == ["m5"]


@pytest.mark.parametrize(
    ("fields", "nodes"), [({}, "10%"), ({"budget": "3"}, "3"), ({"ttlAfterEmpty": 30, "budget": "3"}, "3")]
)
def test_short_nodepool_has_one_budget_unless_only_empty_nodes_are_deleted(
    fields: dict[str, Any], nodes: str
) -> None:
    config = a_cluster(nodePools=[{"name": "a", **fields}])

    body = desired_by_address(config)["kubernetes-object/NodePool/a"].properties["spec"]

    assert body["disruption"]["budgets"] == [{"nodes": nodes}]


def test_full_nodepool_is_not_changed() -> None:
    pool = desired_by_address(a_cluster())["kubernetes-object/NodePool/default"].properties

    again = desired_by_address(a_cluster(nodePools=[dict(pool)]))["kubernetes-object/NodePool/default"]

    assert again.properties == pool


def test_karpenter_has_the_same_aws_resources() -> None:
    ours, theirs = (
        desired_by_address(a_cluster()),
        desired_by_address(a_cluster(controller={"kind": "karpenter"})),
    )

    renamed = {address.replace("karpenter", "dovetail") for address in theirs}

    assert renamed == set(ours)
    chart = theirs["helm-release/kube-system/karpenter"].properties
    assert chart["chart"].startswith("oci://")
    assert chart["values"]["settings"]["clusterName"] == "dev"


def test_user_values_take_precedence_key_by_key() -> None:
    values = {"replicas": 3, "settings": {"batchMaxDuration": "20s"}}
    chart = desired_by_address(a_cluster(controller={**IMAGE, "values": values}))

    chart_values = chart["helm-release/kube-system/dovetail"].properties["values"]

    assert chart_values["replicas"] == 3
    assert chart_values["settings"]["batchMaxDuration"] == "20s"
    assert chart_values["settings"]["clusterName"] == "dev"


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("host:5000/dovetail", {"repository": "host:5000/dovetail"}),
        ("host/dovetail:1", {"repository": "host/dovetail", "tag": "1"}),
        ("host/d:1@sha256:ab", {"repository": "host/d", "tag": "1", "digest": "sha256:ab"}),
    ],
)
def test_image_address_is_split_for_the_chart(image: str, parts: dict[str, str]) -> None:
    chart = desired_by_address(a_cluster(controller={"image": image}))["helm-release/kube-system/dovetail"]

    assert chart.properties["values"]["controller"]["image"] == parts


def test_every_interruption_event_reaches_the_queue_over_tls_only() -> None:
    resources = desired_by_address(a_cluster())

    kinds = {
        tuple(resource.properties["EventPattern"]["detail-type"])
        for resource in resources.values()
        if resource.kind == "event-rule"
    }

    assert kinds == {
        ("AWS Health Event",),
        ("EC2 Spot Instance Interruption Warning",),
        ("EC2 Instance Rebalance Recommendation",),
        ("EC2 Instance State-change Notification",),
        ("EC2 Capacity Reservation Instance Interruption Warning",),
    }
    queue = resources["sqs-queue/dev"].properties
    assert queue["MessageRetentionPeriod"] == 300
    assert queue["SqsManagedSseEnabled"] is True
    denied = resources["sqs-queue-policy/dev"].properties["PolicyDocument"]["Statement"][1]
    assert denied["Effect"] == "Deny"
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_monthly_cost_is_known_without_nodes_of_nodepools() -> None:
    resources = desired_by_address(a_cluster(home="fargate", vpc={"create": {"nat": "none"}}))

    assert resources["eks-cluster/dev"].monthly_usd == pytest.approx(73)
    assert resources["vpc-endpoint/ec2"].monthly_usd == pytest.approx(21.9)
    assert resources["vpc-endpoint/s3"].monthly_usd == 0
    assert "billed per pod" in resources["eks-fargate-profile/kube-system"].cost_note


def test_every_call_of_the_controller_is_in_its_policies() -> None:
    allowed = {
        action
        for resource in desired_state(a_cluster())
        if resource.kind == "iam-policy" and resource.name.startswith("dev-us-east-1-dovetail-")
        for statement in resource.properties["PolicyDocument"]["Statement"]
        for action in statement["Action"]
    }

    called = _calls_of(Path(dovetail.aws.__file__).parent)

    assert len(called) > 20
    assert called <= allowed


_SERVICES = ("ec2", "iam", "sqs", "eks", "ssm", "pricing", "arc-zonal-shift")
_OTHER_NAMES = {"sqs:DeleteMessageBatch": "sqs:DeleteMessage"}


def _calls_of(package: Path) -> set[str]:
    """Read the operations of AWS that a package's source names, as IAM's actions."""
    session = botocore.session.get_session()
    methods: dict[str, str] = {}
    for service in _SERVICES:
        for operation in session.get_service_model(service).operation_names:
            snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operation).lower()
            methods.setdefault(snake, f"{service}:{operation}")
    text = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    named = set(re.findall(r"\.([a-z_]+)\(", text)) | set(
        re.findall(r"get_paginator\(\s*\"([a-z_]+)\"", text)
    )
    operations = {methods[name] for name in named if name in methods}
    return {_OTHER_NAMES.get(operation, operation) for operation in operations}


@pytest.mark.parametrize("example", NAMES)
def test_chart_accepts_the_generated_values(example: str) -> None:
    schema = json.loads((CHARTS / "dovetail" / "values.schema.json").read_text(encoding="utf-8"))
    releases = [
        resource for resource in desired_state(an_example(example)) if resource.kind == "helm-release"
    ]

    for release in releases:
        if release.properties["chart"] == "deploy/charts/dovetail":
            values = resolve_references(release.properties["values"], lambda _: "https://known.later")
            jsonschema.Draft7Validator(schema).validate(values)


def test_chart_directories_exist() -> None:
    charts = {
        resource.properties["chart"]
        for resource in desired_state(a_cluster())
        if resource.kind == "helm-release"
    }

    assert charts == {"deploy/charts/dovetail", "deploy/charts/dovetail-crd"}
    assert all((CHARTS.parents[1] / chart / "Chart.yaml").is_file() for chart in charts)


@pytest.mark.parametrize(
    ("account", "principal", "endpoint"),
    [
        (
            Account(account="1", region="us-gov-west-1", partition="aws-us-gov"),
            "ec2.amazonaws.com",
            "com.amazonaws.us-gov-west-1.sts",
        ),
        (
            Account(account="1", region="cn-north-1", partition="aws-cn", dns_suffix=dns_suffix("aws-cn")),
            "ec2.amazonaws.com.cn",
            "cn.com.amazonaws.cn-north-1.sts",
        ),
    ],
    ids=["GovCloud", "China"],
)
def test_arns_principals_and_endpoints_are_those_of_the_partition(
    account: Account, principal: str, endpoint: str
) -> None:
    zones = [f"{account.region}a", f"{account.region}b"]
    config = a_cluster(region=account.region, vpc={"create": {"zones": zones, "nat": "none"}})
    resolved = {
        resource.address: resolve_references(
            resource.properties,
            lambda reference: (
                getattr(account, reference.attribute.replace("-", "_"))
                if reference.address == AWS
                else f"{reference.address}.{reference.attribute}"
            ),
        )
        for resource in desired_state(config)
    }

    text = json.dumps(resolved)
    assert set(re.findall(r"arn:([a-z-]+):", text)) == {account.partition}
    trust = resolved[f"iam-role/dev-{account.region}-node"]["AssumeRolePolicyDocument"]
    assert trust["Statement"][0]["Principal"] == {"Service": principal}
    assert resolved["vpc-endpoint/sts"]["ServiceName"] == endpoint
    assert resolved["vpc-endpoint/s3"]["ServiceName"] == f"com.amazonaws.{account.region}.s3"
    assert resolved["subnet/private-" + zones[0]]["AvailabilityZone"] == zones[0]
    assert '"sts.amazonaws.com.cn"' not in text  # EKS has one audience for tokens in all partitions.
    assert resolved["eks-node-group/controller"]["InstanceTypes"] == ["m5.large"]


def test_aws_auth_has_roles_without_their_path() -> None:
    file = a_cluster(
        access={"mode": "aws-auth", "roles": [{"roleArn": "arn:aws:iam::123456789012:role/teams/a/Dev"}]},
        iam={"path": "/platform/"},
    )

    config_map = desired_by_address(file)["kubernetes-object/ConfigMap/kube-system/aws-auth"]

    roles = [mapping["rolearn"] for mapping in yaml.safe_load(config_map.properties["data"]["mapRoles"])]
    assert "arn:aws:iam::123456789012:role/Dev" in roles
    assert not [role for role in roles if "/platform/" in role]


def test_metrics_server_on_fargate_has_another_port_than_the_kubelet() -> None:
    on_fargate = a_cluster(home="fargate", addons={"metrics-server": True})
    on_nodes = a_cluster(addons={"metrics-server": True})

    releases = [
        desired_by_address(file)["helm-release/kube-system/metrics-server"].properties["values"]
        for file in (on_fargate, on_nodes)
    ]

    assert releases == [{"containerPort": 10251}, {}]


def test_node_group_with_gpus_has_an_image_with_their_drivers() -> None:
    file = a_cluster(nodeGroups=[{"name": "gpu", "instanceTypes": ["g5.xlarge"]}, {"name": "plain"}])

    resources = desired_by_address(file)

    assert resources["eks-node-group/gpu"].properties["AmiType"] == "AL2023_x86_64_NVIDIA"
    assert resources["eks-node-group/plain"].properties["AmiType"] == "AL2023_x86_64_STANDARD"
