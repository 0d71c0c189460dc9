"""Errors in a cluster.yaml: all at once, with lines and corrections."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.eks.config.json_schema import json_schema
from dovetail.eks.render.formats import Format, render_files
from dovetail.eks.validation.load import load_config
from dovetail.errors import InvalidInputError
from tests.support.eks.configs import EXAMPLES, a_cluster, a_file

SCHEMA = Path(__file__).parents[3] / "docs" / "cluster.schema.json"


def load_errors(data: bytes) -> list[str]:
    with pytest.raises(InvalidInputError) as raised:
        load_config("cluster.yaml", data)
    return [str(error) for error in raised.value.errors]


ROLE = "arn:aws:iam::123456789012:role/developers"
STATEMENT = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}


def field_errors(**fields: Any) -> list[str]:
    return [error.partition(" ")[2] for error in load_errors(a_file(**fields))]


def test_all_errors_of_a_file_are_reported_at_once_with_their_lines() -> None:
    text = b"""\
name: dev
region: us-esat-1
version: "1.12"
home:
  kind: fargate
  namespace: [kube-system]
controller: {image: registry.example.com/dovetail:1}
vpc:
  create:
    cidr: 10.0.0.0/16
    nat: sngle
endpoint:
  vpnCidrs: [10.8.0.1/24]
nodePools:
  - name: a
    capacityTypes: [on_demand]
"""

    assert load_errors(text) == [
        "cluster.yaml:2 region: 'us-esat-1' is not a region; did you mean 'us-east-1'?",
        "cluster.yaml:3 version: EKS does not support 1.12; it supports 1.31 to 1.36",
        "cluster.yaml:6 home.namespace: is not a field here; did you mean 'namespaces'?",
        "cluster.yaml:11 vpc.create.nat: 'sngle' is not a valid value; did you mean 'single'?",
        "cluster.yaml:13 endpoint.vpnCidrs[0]: '10.8.0.1/24' has host bits set; did you mean '10.8.0.0/24'?",
        "cluster.yaml:16 nodePools[0].capacityTypes[0]: 'on_demand' is not a valid value; "
        "did you mean 'on-demand'?",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"region": "us-east-9"}, "region: 'us-east-9' is not a region; did you mean 'us-east-2'?"),
        ({"version": 1.33}, "version: 1.33 must be text: put it in quotes"),
        ({"name": "no spaces"}, "name: 'no spaces' is not a cluster name: letters, digits"),
        ({"name": "c" * 70}, f"name: results in the role name '{'c' * 70}-us-east-1-node-group' of 91"),
        ({"account": "12"}, "account: '12' is not an account id: twelve digits, in quotes"),
        ({"tags": {"aws:x": "y"}}, "tags.aws:x: begins with 'aws:', which is reserved for AWS"),
        (
            {"access": {"roles": [{"roleArn": ROLE, "policies": ["AmazonEKSViewPolcy"]}]}},
            "access.roles[0].policies[0]: 'AmazonEKSViewPolcy' is not an access policy of EKS; did you mean "
            "'AmazonEKSViewPolicy'?",
        ),
        (
            {
                "access": {
                    "mode": "aws-auth",
                    "roles": [{"roleArn": ROLE, "policies": ["AmazonEKSViewPolicy"]}],
                }
            },
            "access.roles[0].policies: requires mode: entries; in aws-auth, groups give permissions",
        ),
        (
            {"access": {"roles": [{"roleArn": ROLE, "groups": ["dev"], "namespaces": ["shop"]}]}},
            "access.roles[0].namespaces: is the scope of policies, and there are none",
        ),
        (
            {"nodeSecurityGroup": {"tags": {"aws:x": "y"}}},
            "nodeSecurityGroup.tags.aws:x: begins with 'aws:', which is reserved for AWS",
        ),
        (
            {"nodeSecurityGroup": {"tags": {"karpenter.sh/discovery": "other"}}},
            "nodeSecurityGroup.tags['karpenter.sh/discovery']: is reserved: node classes select the security "
            "group by this tag; remove it",
        ),
        (
            {
                "nodeSecurityGroup": {"tags": {"team": "a"}},
                "vpc": {
                    "existing": {
                        "subnets": {"ids": ["subnet-1", "subnet-2"]},
                        "securityGroups": {"ids": ["sg-1"]},
                    }
                },
            },
            "nodeSecurityGroup.tags: has no effect: the security groups of nodes exist already; remove it, "
            "or tag them",
        ),
        ({"home": "fargat"}, "home: 'fargat' is not a valid value; did you mean 'fargate'?"),
        ({"home": None}, "home: is missing"),
        ({"nodePools": []}, "nodePools: should have at least 1 item"),
        ({"vpc": {}}, "vpc: must have either create or existing"),
        ({"controller": {}}, "controller.image: is missing: the address of your"),
        ({"objects": [{"kind": "Pod"}]}, "objects[0]: has no apiVersion or no kind"),
        ({"ingress": [{"ports": "high"}]}, "ingress[0].ports: 'high' is neither a port"),
        ({"ingress": [{"ports": "9-1"}]}, "ingress[0].ports: '9-1' ends before it begins"),
        (
            {"endpoint": {"public": False, "private": False}},
            "endpoint: is neither public nor private: the cluster would be unreachable",
        ),
        (
            {"tags": {"note": "see @{iam-role/x:arn}"}},
            "tags.note: must not contain '@{', which starts a reference",
        ),
        (
            {"objects": [{"kind": "Pod", "metadata": {"name": "@{x"}}]},
            "objects[0].metadata.name: must not contain '@{'",
        ),
    ],
)
def test_error_says_what_is_wrong_and_what_would_be_right(fields: dict[str, Any], message: str) -> None:
    assert any(error.startswith(message) for error in field_errors(**fields)), field_errors(**fields)


@pytest.mark.parametrize(
    ("vpc", "message"),
    [
        ({"cidr": "10.0.0.0"}, "vpc.create.cidr: /32 is not a valid VPC size: /16 to /28"),
        ({"cidr": "ten/16"}, "vpc.create.cidr: 'ten/16' is not a CIDR block"),
        ({"cidr": "10.0.0.0/8"}, "vpc.create.cidr: /8 is not a valid VPC size: /16 to /28"),
        ({"cidr": "10.0.0.0/28"}, "vpc.create.cidr: 10.0.0.0/30 is too small for a subnet"),
        ({"zones": ["us-east-1a"]}, "vpc.create.zones: EKS requires at least two zones"),
        (
            {"zones": ["us-east-1a", "us-eats-1b"]},
            "vpc.create.zones[1]: 'us-eats-1b' is not a zone of us-east-1; did you mean",
        ),
        (
            {"zones": 2, "privateSubnets": ["10.0.0.0/24", "10.0.0.128/25"]},
            "vpc.create.privateSubnets[1]: 10.0.0.128/25 overlaps with 10.0.0.0/24",
        ),
        (
            {"zones": 2, "privateSubnets": ["10.0.0.0/24", "10.1.0.0/24"]},
            "vpc.create.privateSubnets[1]: 10.1.0.0/24 is not inside the VPC's 10.0.0.0/16",
        ),
        (
            {"zones": 3, "privateSubnets": ["10.0.0.0/24"]},
            "vpc.create.privateSubnets: has 1 subnet for 3 zones; expected one per zone",
        ),
    ],
)
def test_invalid_network_is_rejected(vpc: dict[str, Any], message: str) -> None:
    errors = field_errors(vpc={"create": vpc})

    assert any(error.startswith(message) for error in errors), errors


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ({"families": ["m5x"]}, "nodePools[0].families[0]: us-east-1 has no 'm5x'; did you mean"),
        ({"sizes": ["huge"]}, "nodePools[0].sizes[0]: us-east-1 has no 'huge'"),
        ({"zones": ["eu-west-1a"]}, "nodePools[0].zones[0]: us-east-1 has no 'eu-west-1a'"),
        (
            {"families": ["m6g"], "architectures": ["amd64"]},
            "nodePools[0]: NodePool p: no instance type in us-east-1 meets its requirements",
        ),
        (
            {"instanceTypes": ["m5.large"], "sizes": ["xlarge"]},
            "nodePools[0]: NodePool p: no instance type in us-east-1 meets its requirements",
        ),
        (
            {"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "Inn"}]},
            "nodePools[0].requirements[0].operator",
        ),
        ({"nodeClass": "defualt"}, "nodePools[0].nodeClass: there is no node class 'defualt'; did"),
        ({"expireAfter": "a month"}, "nodePools[0].expireAfter: 'a month' is not a duration"),
        ({"ttlAfterEmpty": "soon"}, "nodePools[0].ttlAfterEmpty: 'soon' is not a duration"),
        ({"consolidateAfter": "soon"}, "nodePools[0].consolidateAfter: 'soon' is not a duration"),
        ({"limits": {"cpu": "lots"}}, "nodePools[0].limits.cpu: "),
        ({"budget": "some"}, "nodePools[0].budget: "),
    ],
)
def test_nodepool_without_instance_types_is_rejected(pool: dict[str, Any], message: str) -> None:
    errors = field_errors(nodePools=[{"name": "p", **pool}])

    assert any(error.startswith(message) for error in errors), errors


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "k" * 64, "iam": {"prefix": "k"}}, "name: has 64 characters; Kubernetes objects carry it"),
        ({"name": "dev-"}, "name: 'dev-' must end with a letter or digit"),
        ({"name": "sg-dev"}, "name: begins with 'sg-', which EC2 does not allow"),
        ({"iam": {"prefix": "my team/"}}, "iam.prefix: 'my team/' is not valid in IAM names"),
        (
            {"name": "k" * 66, "iam": {"prefix": "k"}, "nodeGroups": [{"name": "g" * 62}]},
            "name: results in the launch template name",
        ),
        ({"tags": {"cost": "<ours>"}}, "tags.cost: is not a valid IAM tag"),
        ({"region": "us-iso-east-1"}, "region: 'us-iso-east-1' is not a region that is supported: isolated"),
        ({"region": "us-gov-wets-1"}, "region: 'us-gov-wets-1' is not a region; did you mean 'us-gov"),
    ],
)
def test_name_that_aws_or_kubernetes_rejects_is_rejected(fields: dict[str, Any], message: str) -> None:
    errors = field_errors(**fields)

    assert any(error.startswith(message) for error in errors), errors


@pytest.mark.parametrize("region", ["us-gov-west-1", "cn-north-1", "mx-central-1"])
def test_region_that_the_catalogue_lacks_needs_the_names_of_its_zones(region: str) -> None:
    zones = [f"{region}a", f"{region}b"]
    wrong = field_errors(region=region, vpc={"create": {"zones": [f"{region}a", "us-east-1b"]}})

    unnamed = f"vpc.create.zones: the catalogue does not have the zones of {region}; name them: ["
    assert any(error.startswith(unnamed) for error in field_errors(region=region))
    assert any(error.startswith("vpc.create.zones[1]: 'us-east-1b' is not a zone of") for error in wrong)
    assert a_cluster(region=region, vpc={"create": {"zones": zones}}).region == region


def test_network_is_checked_if_the_region_is_wrong_or_missing() -> None:
    wrong = {"create": {"cidr": "10.0.0.0/33"}}
    cidr = "vpc.create.cidr: '10.0.0.0/33' is not a CIDR block"

    assert any(error.startswith(cidr) for error in field_errors(region="us-esat-1", vpc=wrong))
    assert any(error.startswith(cidr) for error in field_errors(region=None, vpc=wrong))


def test_errors_in_a_short_node_class_are_at_the_short_field() -> None:
    errors = field_errors(nodeClasses=[{"name": "default", "image": "bottlerocet@latest"}])

    assert errors[0].startswith("nodeClasses[0].image: 'bottlerocet@latest' is not an alias; did you")


def test_errors_in_a_full_nodepool_have_their_own_path() -> None:
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "full"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"name": "default"}}}},
    }

    errors = field_errors(nodePools=[pool])

    assert any(
        error.startswith("nodePools[0].spec.template.spec.nodeClassRef.group: ") for error in errors
    ), errors


def test_node_termination_handler_conflicts_with_the_interruption_queue() -> None:
    errors = field_errors(addons={"node-termination-handler": True})

    assert len(errors) == 1
    assert errors[0].startswith("addons.node-termination-handler: conflicts with the interruption")
    assert "both would drain the same node" in errors[0]
    a_cluster(
        addons={"node-termination-handler": True}, controller={"image": "x/y:1", "interruptionQueue": False}
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"home": "fargate", "identity": "pod-identity"}, "identity: Pod Identity does not work on"),
        (
            {"home": {"kind": "fargate", "namespaces": ["karpenter"]}},
            "home.namespaces: must contain kube-system: CoreDNS runs there",
        ),
        (
            {"home": {"kind": "managed-node-group", "min": 1, "desired": 1}},
            "home.desired: 1 node for 2 replicas of the controller",
        ),
        (
            {"home": {"kind": "managed-node-group", "instanceTypes": ["m5.lrge"]}},
            "home.instanceTypes[0]: 'm5.lrge' is not an instance type; did you mean 'm5.large'?",
        ),
        (
            {"home": {"kind": "managed-node-group", "instanceTypes": ["m6g.large"]}},
            "home.instanceTypes[0]: m6g.large is arm64, the group is amd64; set architecture",
        ),
        (
            {"home": "existing", "nodeGroups": [{"name": "batch"}]},
            "nodeGroups: need the subnets of the existing cluster: set vpc.existing.subnets",
        ),
        (
            {"nodeGroups": [{"name": "controller"}]},
            "nodeGroups[0].name: there are two node groups named controller",
        ),
        (
            {"addons": {"pod-identity-agent": False}},
            "addons.pod-identity-agent: must be enabled: identity is pod-identity",
        ),
        ({"addons": {"vpc-cni": False}}, "addons.vpc-cni: must be enabled"),
        ({"access": {"creatorIsAdmin": False}}, "access.creatorIsAdmin: must be true if admins is empty"),
        ({"access": {"accounts": ["123456789012"]}}, "access.accounts: requires mode"),
        (
            {"home": "existing", "access": {"mode": "aws-auth"}},
            "access.mode: aws-auth of an existing cluster is not rewritten",
        ),
        ({"home": "existing", "vpc": {"create": {}}}, "vpc.create: is not possible for an existing cluster"),
        (
            {"home": "fargate", "iam": {"nodeRole": {"use": "home"}}},
            "iam.nodeRole.use: requires a home of kind managed-node-group",
        ),
        (
            {"iam": {"path": "no-slashes"}},
            "iam.path: 'no-slashes' is not an IAM path: it begins and ends with a slash",
        ),
        (
            {"ingress": [{"ports": 80}, {"ports": "80"}]},
            "ingress[1]: tcp 80 is defined twice; merge the cidrs",
        ),
        ({"access": {"admins": ["alice", "alice"]}}, "access.admins[1]: alice is listed twice"),
        (
            {"objects": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}] * 2},
            "objects[1]: Pod/a is defined twice",
        ),
        (
            {"serviceAccounts": [{"name": "a"}, {"name": "a"}]},
            "serviceAccounts[1]: default/a is defined twice",
        ),
        (
            {"serviceAccounts": [{"name": "a", "statements": [{"Effect": "Allow"}]}]},
            "serviceAccounts[0].statements[0]: must have Effect, Action and Resource",
        ),
    ],
)
def test_conflicting_fields_are_rejected(fields: dict[str, Any], message: str) -> None:
    errors = field_errors(**fields)

    assert any(error.startswith(message) for error in errors), errors


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cluster.yaml is empty; a cluster needs a name, a region, a home"),
        (b"- a\n", "cluster.yaml:1 is a list"),
        (b"hello\n", "cluster.yaml:1 is not a map of fields: name, region, home …"),
        (b"name: a\n---\nname: b\n", "cluster.yaml has 2 documents; expected one"),
        (b"\x1f\x8b\x00", "cluster.yaml is compressed with gzip; unpack it first"),
        (b"name: [", "cluster.yaml:2 is not valid YAML"),
    ],
)
def test_file_that_is_not_a_cluster_file_is_rejected(data: bytes, message: str) -> None:
    assert load_errors(data)[0].startswith(message)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_valid(path: Path) -> None:
    load_config(path.name, path.read_bytes())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted(json_schema()["properties"])), JSON)
def test_any_value_of_a_field_is_loaded_or_rejected(field: str, value: Any) -> None:
    document = yaml.safe_load(a_file())
    document[field] = value

    with suppress(InvalidInputError):
        load_config("cluster.yaml", json.dumps(document).encode())


ODD_VALUES = st.sampled_from(
    ["", "x", "-", "Never", "10.0.0.0/8", "::/0", "arn:x", "subnet-1", "sg-1", "1-", "m5.large"]
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EXAMPLES), st.data())
def test_any_changed_example_is_rejected_or_rendered(path: Path, data: st.DataObject) -> None:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    *parents, last = data.draw(st.sampled_from(list(_paths(document))))
    parent: Any = document
    for step in parents:
        parent = parent[step]
    parent[last] = data.draw(JSON | ODD_VALUES)

    with suppress(InvalidInputError):
        config = load_config("cluster.yaml", json.dumps(document).encode())
        render_files(config, data.draw(st.sampled_from(list(Format))))


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in inside:
        yield (*prefix, step)
        if isinstance(inner, dict | list):
            yield from _paths(inner, (*prefix, step))


def test_published_schema_matches_the_model(golden: Callable[[Path, str], None]) -> None:
    golden(SCHEMA, json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"logging": {"types": ["audit"], "retentionDays": 10}},
            "logging.retentionDays: CloudWatch does not keep logs for 10 days; it does for 7",
        ),
        (
            {"access": {"admins": ["arn:aws:sts::123456789012:assumed-role/ops/me"]}},
            "access.admins[0]: arn:aws:sts::123456789012:assumed-role/ops/me is a session",
        ),
        ({"endpoint": {"publicCidrs": ["10.0.0.0/8"]}}, "endpoint.publicCidrs[0]: 10.0.0.0/8 is private"),
        ({"vpc": {"create": {"cidr": "169.254.0.0/16"}}}, "vpc.create.cidr: 169.254.0.0/16 is reserved"),
        (
            {"vpc": {"create": {"endpoints": ["ecr.apii"]}}},
            "vpc.create.endpoints[0]: 'ecr.apii' is not a service with a VPC endpoint; did you mean",
        ),
        (
            {"serviceAccounts": [{"name": "a", "statements": [STATEMENT | {"Effect": "Alow"}]}]},
            "serviceAccounts[0].statements[0].Effect: 'Alow' is not an effect: Allow or Deny",
        ),
        (
            {"serviceAccounts": [{"name": "dovetail", "namespace": "kube-system"}]},
            "serviceAccounts[0]: kube-system/dovetail is the service account of the controller",
        ),
        (
            {"nodeGroups": [{"name": "batch", "labels": {"kubernetes.io/foo": "x"}}]},
            "nodeGroups[0].labels['kubernetes.io/foo']: EKS does not allow labels of kubernetes.io",
        ),
        (
            {"home": {"kind": "fargate", "namespaces": ["kube-system", "eks-foo"]}},
            "home.namespaces[1]: eks-foo: its Fargate profile would have this name, which begins with 'eks-'",
        ),
        (
            {"nodeClasses": [{"name": "default", "image": "al2@latest"}]},
            "nodeClasses[0]: there are no AL2 AMIs for Kubernetes 1.33; use al2023@latest",
        ),
        (
            {"nodeClasses": [{"name": "default", "image": "bottlerocket@latest", "userData": "echo hello"}]},
            "nodeClasses[0]: userData is not TOML, which Bottlerocket requires",
        ),
        (
            {"nodeClasses": [{"name": "default", "image": "windows2022@latest"}]},
            "nodePools[0].nodeClass: default boots windows, which the NodePool excludes",
        ),
        (
            {"nodePools": [{"name": "p", "ttlAfterEmpty": "30s", "consolidateAfter": "10m"}]},
            "nodePools[0].consolidateAfter: conflicts with ttlAfterEmpty",
        ),
        (
            {"account": "123456789012", "iam": {"permissionsBoundary": "arn:aws:iam::999999999999:policy/b"}},
            "iam.permissionsBoundary: is a policy of account 999999999999, but the cluster is in",
        ),
    ],
)
def test_what_aws_would_reject_is_rejected(fields: dict[str, Any], message: str) -> None:
    errors = field_errors(**fields)

    assert any(error.startswith(message) for error in errors), errors


def test_role_of_nodes_is_not_listed_a_second_time() -> None:
    role = "arn:aws:iam::123456789012:role/Workers"
    access = {"roles": [{"roleArn": role}]}

    assert field_errors(iam={"nodeRole": {"arn": role}}, access=access) == [
        f"access.roles[0]: {role} is the role of nodes (iam.nodeRole.arn), which has its own entry"
    ]


def test_version_of_a_chart_in_a_directory_is_rejected() -> None:
    controller = {"image": "registry.example.com/dovetail:1", "version": "1.2.3"}
    remote = {"chart": "oci://registry.example.com/dovetail"}

    errors = field_errors(controller={**controller, **remote})

    assert errors == [
        "controller.version: has no effect on the chart in the directory deploy/charts/dovetail-crd: "
        "remove it, or set controller.crdChart to an oci:// address"
    ]


def test_what_aws_accepts_is_accepted() -> None:
    load_config(
        "cluster.yaml",
        a_file(
            logging={"types": ["audit"], "retentionDays": 3653},
            endpoint={"publicCidrs": ["192.0.2.0/24", "0.0.0.0/0"]},
            nodeGroups=[{"name": "batch", "labels": {"node.kubernetes.io/role": "batch"}}],
            nodeClasses=[{"name": "default", "image": "bottlerocket@latest", "userData": "[settings]"}],
        ),
    )
