"""What a cluster.yaml asks for: each choice shows in the resources, and nothing is left loose."""

import json
import re
from pathlib import Path
from typing import Any

import botocore.session
import jsonschema
import pytest
import yaml

import dovetail.aws
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.desired.desired_state import outputs, wanted
from dovetail.eks.plan.references import AWS, AWS_ATTRIBUTES, references, resolved
from dovetail.eks.plan.resource import NAME_TAG, OWNER_TAG, Resource
from dovetail.eks.plan.resource_kinds import KINDS
from tests.support.clusters import EXAMPLES, a_cluster, an_example

NAMES = [one.stem for one in EXAMPLES]
CHARTS = Path(__file__).parents[3] / "deploy" / "charts"
IMAGE = {"image": "registry.example.com/dovetail:1"}


def made(spec: ClusterSpec) -> dict[str, Resource]:
    return {one.address: one for one in wanted(spec)}


def addresses(spec: ClusterSpec, kind: str) -> list[str]:
    return [one.name for one in wanted(spec) if one.kind == kind]


@pytest.mark.parametrize("example", NAMES)
def test_every_reference_is_to_an_attribute_that_its_kind_has(example: str) -> None:
    spec = an_example(example)
    resources = made(spec)
    everything: list[Any] = [one.properties for one in resources.values()]

    for one in references([*everything, outputs(spec)]):
        if one.address == AWS:
            assert one.attribute in AWS_ATTRIBUTES
        else:
            assert one.attribute in KINDS[resources[one.address].kind].attributes


@pytest.mark.parametrize("example", NAMES)
def test_everything_that_takes_tags_says_whose_it_is(example: str) -> None:
    spec = an_example(example)

    for one in wanted(spec):
        facts = KINDS[one.kind]
        if one.given or not facts.tagged:
            continue
        assert one.tags[OWNER_TAG] == spec.name
        assert one.tags.items() >= spec.tags.items()
        if facts.identity:
            assert one.properties[facts.identity] == one.name
        else:
            assert one.tags[NAME_TAG] == one.name


@pytest.mark.parametrize("example", NAMES)
def test_the_same_file_always_gives_the_same_resources(example: str) -> None:
    assert wanted(an_example(example)) == wanted(an_example(example))


@pytest.mark.parametrize("example", NAMES)
def test_instances_are_reached_by_imdsv2_only(example: str) -> None:
    for one in wanted(an_example(example)):
        if one.kind == "launch-template":
            options = one.properties["LaunchTemplateData"]["MetadataOptions"]
            assert options["HttpTokens"] == "required"
        if one.name.startswith("EC2NodeClass/"):
            assert one.properties["spec"]["metadataOptions"]["httpTokens"] == "required"


@pytest.mark.parametrize("example", NAMES)
def test_a_node_carries_the_clusters_tag_on_exactly_one_security_group(example: str) -> None:
    spec = an_example(example)
    owned = f"kubernetes.io/cluster/{spec.name}"

    groups = [one for one in wanted(spec) if one.kind == "security-group" and owned in one.tags]

    assert len(groups) == (0 if example == "existing-cluster" else 1)


def test_a_vpc_of_its_own_has_private_and_public_subnets_that_fill_it() -> None:
    resources = made(a_cluster(vpc={"create": {"cidr": "10.0.0.0/16", "zones": 3}}))

    blocks = {
        name: one.properties["CidrBlock"]
        for one in resources.values()
        if (name := one.name) and one.kind == "subnet"
    }

    assert blocks == {
        "private-us-east-1a": "10.0.0.0/18",
        "private-us-east-1b": "10.0.64.0/18",
        "private-us-east-1c": "10.0.128.0/18",
        "public-us-east-1a": "10.0.192.0/20",
        "public-us-east-1b": "10.0.208.0/20",
        "public-us-east-1c": "10.0.224.0/20",
    }


@pytest.mark.parametrize(("nat", "gateways"), [("single", 1), ("per-zone", 3), ("none", 0)])
def test_nat_gateways_are_as_many_as_asked_for(nat: str, gateways: int) -> None:
    spec = a_cluster(vpc={"create": {"nat": nat}})

    assert len(addresses(spec, "nat-gateway")) == gateways
    assert len(addresses(spec, "elastic-ip")) == gateways


def test_a_private_cluster_has_endpoints_an_instance_profile_and_bundled_prices() -> None:
    spec = a_cluster(vpc={"create": {"nat": "none"}})
    resources = made(spec)

    needed = {"s3", "ec2", "ecr.api", "ecr.dkr", "sts", "ssm", "sqs", "eks"}

    assert needed <= set(addresses(spec, "vpc-endpoint"))
    node_class = resources["kubernetes-object/EC2NodeClass/default"].properties["spec"]
    assert node_class["instanceProfile"] == "dev-node"
    assert "role" not in node_class
    values = resources["helm-release/kube-system/dovetail"].properties["values"]
    assert values["settings"]["isolatedVPC"] is True
    assert addresses(spec, "internet-gateway") == []


def test_on_a_tainted_home_the_controller_and_coredns_tolerate_the_taint() -> None:
    resources = made(a_cluster())

    group = resources["eks-node-group/controller"].properties

    assert group["Taints"] == [
        {"Key": "karpenter.sh/controller", "Value": "true", "Effect": "NO_SCHEDULE"}
    ]
    values = resources["helm-release/kube-system/dovetail"].properties["values"]
    assert group["Labels"].items() <= values["nodeSelector"].items()
    assert {"key": "karpenter.sh/controller", "operator": "Exists"} in values["tolerations"]
    dns = resources["eks-addon/coredns"]
    assert "karpenter.sh/controller" in dns.properties["ConfigurationValues"]
    assert "eks-node-group/controller" in dns.depends_on


def test_on_fargate_coredns_runs_there_and_the_controller_does_not_wait_for_it() -> None:
    spec = a_cluster(home="fargate", controller={**IMAGE, "namespace": "karpenter"})
    resources = made(spec)

    assert addresses(spec, "eks-fargate-profile") == ["kube-system", "karpenter"]
    assert addresses(spec, "eks-node-group") == []
    dns = resources["eks-addon/coredns"].properties["ConfigurationValues"]
    assert yaml.safe_load(dns) == {"computeType": "Fargate"}
    values = resources["helm-release/karpenter/dovetail"].properties["values"]
    assert values["dnsPolicy"] == "Default"
    assert "eks.amazonaws.com/role-arn" in values["serviceAccount"]["annotations"]


def test_outside_kube_system_the_controllers_requests_keep_their_priority() -> None:
    spec = a_cluster(controller={**IMAGE, "namespace": "karpenter"})

    schemas = [one for one in addresses(spec, "kubernetes-object") if one.startswith("FlowSchema/")]

    assert schemas == ["FlowSchema/dovetail-leader-election", "FlowSchema/dovetail-workload-high"]


def test_an_existing_cluster_is_looked_up_and_only_what_it_lacks_is_made() -> None:
    spec = an_example("existing-cluster")
    resources = made(spec)

    assert resources["eks-cluster/platform-one"].given
    assert resources["iam-role/platform-one-worker"].given
    kinds = {one.kind for one in resources.values() if not one.given}
    assert not kinds & {"vpc", "subnet", "eks-node-group", "eks-addon", "oidc-provider"}
    role = resources["iam-role/platform-one-karpenter"].properties
    assert role["Path"] == "/platform/"
    assert role["PermissionsBoundary"].endswith(":policy/platform-boundary")


def test_pod_identity_needs_an_agent_and_irsa_an_oidc_provider() -> None:
    by_agent, by_provider = a_cluster(identity="pod-identity"), a_cluster(identity="irsa")

    assert "eks-pod-identity-agent" in addresses(by_agent, "eks-addon")
    assert addresses(by_agent, "oidc-provider") == []
    assert addresses(by_agent, "pod-identity-association") == ["kube-system/dovetail"]
    assert "eks-pod-identity-agent" not in addresses(by_provider, "eks-addon")
    assert addresses(by_provider, "oidc-provider") == ["dev"]
    assert addresses(by_provider, "pod-identity-association") == []


def test_nodes_get_in_by_an_access_entry_or_by_aws_auth_never_by_both() -> None:
    entries, config_map = a_cluster(), a_cluster(access={"mode": "aws-auth"})

    assert addresses(entries, "eks-access-entry") == ["node-dev-node"]
    entry = made(entries)["eks-access-entry/node-dev-node"].properties
    assert entry["Type"] == "EC2_LINUX"
    assert addresses(config_map, "eks-access-entry") == []
    data = made(config_map)["kubernetes-object/ConfigMap/kube-system/aws-auth"].properties["data"]
    roles = [one["rolearn"] for one in yaml.safe_load(data["mapRoles"])]
    assert roles == ["@{iam-role/dev-node-group:arn}", "@{iam-role/dev-node:arn}"]


def test_an_admin_given_by_name_is_a_user_of_the_account_with_the_admin_policy() -> None:
    entry = made(a_cluster(access={"admins": ["alice"]}))["eks-access-entry/admin-alice"]

    assert entry.properties["PrincipalArn"] == "arn:@{aws:partition}:iam::@{aws:account}:user/alice"
    policy = entry.properties["AccessPolicies"][0]["PolicyArn"]
    assert policy.endswith("AmazonEKSClusterAdminPolicy")


def test_nodes_may_share_the_role_of_the_home_and_need_no_entry_then() -> None:
    spec = a_cluster(iam={"nodeRole": {"use": "home"}})
    resources = made(spec)

    assert "iam-role/dev-node" not in resources
    assert addresses(spec, "eks-access-entry") == []
    node_class = resources["kubernetes-object/EC2NodeClass/default"].properties["spec"]
    assert node_class["role"] == "dev-node-group"


def test_a_short_nodepool_says_everything_that_people_stumble_over() -> None:
    pool = {
        "name": "spot",
        "families": ["m5"],
        "capacityTypes": ["spot"],
        "ttlAfterEmpty": 30,
        "expireAfter": 3600,
        "limits": {"cpu": 10, "memory": "40Gi"},
    }

    body = made(a_cluster(nodePools=[pool]))["kubernetes-object/NodePool/spot"].properties["spec"]

    assert body["disruption"] == {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "30s",
        "budgets": [{"nodes": "10%"}],
    }
    assert body["template"]["spec"]["expireAfter"] == "3600s"
    assert body["limits"] == {"cpu": 10, "memory": "40Gi"}
    asked = {one["key"]: one["values"] for one in body["template"]["spec"]["requirements"]}
    assert asked["karpenter.sh/capacity-type"] == ["spot"]
    assert asked["karpenter.k8s.aws/instance-family"] == ["m5"]


def test_a_full_nodepool_is_taken_as_it_is() -> None:
    pool = made(a_cluster())["kubernetes-object/NodePool/default"].properties

    again = made(a_cluster(nodePools=[dict(pool)]))["kubernetes-object/NodePool/default"]

    assert again.properties == pool


def test_upstreams_controller_stands_on_the_same_foundations() -> None:
    ours, theirs = made(a_cluster()), made(a_cluster(controller={"kind": "karpenter"}))

    alike = {one.replace("karpenter", "dovetail") for one in theirs}

    assert alike == set(ours)
    chart = theirs["helm-release/kube-system/karpenter"].properties
    assert chart["chart"].startswith("oci://")
    assert chart["values"]["settings"]["clusterName"] == "dev"


def test_a_users_values_win_over_ours_key_by_key() -> None:
    values = {"replicas": 3, "settings": {"batchMaxDuration": "20s"}}
    chart = made(a_cluster(controller={**IMAGE, "values": values}))

    found = chart["helm-release/kube-system/dovetail"].properties["values"]

    assert found["replicas"] == 3
    assert found["settings"]["batchMaxDuration"] == "20s"
    assert found["settings"]["clusterName"] == "dev"


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("host:5000/dovetail", {"repository": "host:5000/dovetail"}),
        ("host/dovetail:1", {"repository": "host/dovetail", "tag": "1"}),
        ("host/d:1@sha256:ab", {"repository": "host/d", "tag": "1", "digest": "sha256:ab"}),
    ],
)
def test_an_images_address_is_cut_where_charts_want_it(image: str, parts: dict[str, str]) -> None:
    chart = made(a_cluster(controller={"image": image}))["helm-release/kube-system/dovetail"]

    assert chart.properties["values"]["controller"]["image"] == parts


def test_warnings_of_every_kind_reach_the_queue_over_tls_only() -> None:
    resources = made(a_cluster())

    kinds = {
        tuple(one.properties["EventPattern"]["detail-type"])
        for one in resources.values()
        if one.kind == "event-rule"
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


def test_a_plan_knows_what_the_cluster_costs_before_any_node_is_bought() -> None:
    resources = made(a_cluster(home="fargate", vpc={"create": {"nat": "none"}}))

    assert resources["eks-cluster/dev"].monthly_usd == pytest.approx(73)
    assert resources["vpc-endpoint/ec2"].monthly_usd == pytest.approx(21.9)
    assert resources["vpc-endpoint/s3"].monthly_usd == 0


def test_every_call_that_our_own_controller_makes_is_in_its_policies() -> None:
    allowed = {
        action
        for one in wanted(a_cluster())
        if one.kind == "iam-policy" and one.name.startswith("dev-dovetail-")
        for statement in one.properties["PolicyDocument"]["Statement"]
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
    found = {methods[one] for one in named if one in methods}
    return {_OTHER_NAMES.get(one, one) for one in found}


@pytest.mark.parametrize("example", NAMES)
def test_our_own_chart_takes_the_values_that_it_gets(example: str) -> None:
    schema = json.loads((CHARTS / "dovetail" / "values.schema.json").read_text(encoding="utf-8"))
    releases = [one for one in wanted(an_example(example)) if one.kind == "helm-release"]

    for one in releases:
        if one.properties["chart"] == "deploy/charts/dovetail":
            values = resolved(one.properties["values"], lambda _: "https://known.later")
            jsonschema.Draft7Validator(schema).validate(values)


def test_our_own_charts_are_where_the_release_looks_for_them() -> None:
    charts = {one.properties["chart"] for one in wanted(a_cluster()) if one.kind == "helm-release"}

    assert charts == {"deploy/charts/dovetail", "deploy/charts/dovetail-crd"}
    assert all((CHARTS.parents[1] / chart / "Chart.yaml").is_file() for chart in charts)
