"""Every mistake in a cluster.yaml, at once, with its line and what would be right."""

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
from dovetail.eks.render.formats import Format, rendered
from dovetail.eks.validation.load import read_spec
from dovetail.errors import BadInput
from tests.support.clusters import EXAMPLES, a_cluster, a_file

SCHEMA = Path(__file__).parents[3] / "docs" / "cluster.schema.json"


def mistakes(data: bytes) -> list[str]:
    with pytest.raises(BadInput) as raised:
        read_spec("cluster.yaml", data)
    return [str(one) for one in raised.value.mistakes]


def mistakes_of(**fields: Any) -> list[str]:
    return [one.partition(" ")[2] for one in mistakes(a_file(**fields))]


def test_all_mistakes_of_a_file_come_at_once_with_their_lines() -> None:
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

    assert mistakes(text) == [
        "cluster.yaml:2 region: 'us-esat-1' is no region; did you mean 'us-east-1'?",
        "cluster.yaml:3 version: EKS does not have 1.12; it has 1.31 to 1.36",
        "cluster.yaml:6 home.namespace: is no field here; did you mean 'namespaces'?",
        "cluster.yaml:11 vpc.create.nat: 'sngle' is not known; did you mean 'single'?",
        "cluster.yaml:13 endpoint.vpnCidrs[0]: '10.8.0.1/24' does not begin where its block "
        "begins; did you mean '10.8.0.0/24'?",
        "cluster.yaml:16 nodePools[0].capacityTypes[0]: 'on_demand' is not known; "
        "did you mean 'on-demand'?",
    ]


@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        ({"region": "us-east-9"}, "region: 'us-east-9' is no region; did you mean 'us-east-2'?"),
        ({"version": 1.33}, "version: 1.33 must be text: put it in quotes"),
        ({"name": "no spaces"}, "name: 'no spaces' is no name for a cluster: letters, digits"),
        ({"name": "c" * 70}, f"name: makes the role name '{'c' * 70}-node-group' of 81"),
        ({"account": "12"}, "account: '12' is no account number: twelve digits, in quotes"),
        ({"tags": {"aws:x": "y"}}, "tags.aws:x: begins with 'aws:', which AWS keeps for itself"),
        ({"home": "fargat"}, "home: 'fargat' is not known; did you mean 'fargate'?"),
        ({"home": None}, "home: is missing"),
        ({"nodePools": []}, "nodePools: should have at least 1 item"),
        ({"vpc": {}}, "vpc: must have either create or existing"),
        ({"controller": {}}, "controller.image: is missing: where you keep"),
        ({"objects": [{"kind": "Pod"}]}, "objects[0]: has no apiVersion or no kind"),
        ({"ingress": [{"ports": "high"}]}, "ingress[0].ports: 'high' is no port"),
        ({"ingress": [{"ports": "9-1"}]}, "ingress[0].ports: '9-1' goes backwards"),
        (
            {"endpoint": {"public": False, "private": False}},
            "endpoint: is neither public nor private: nobody could reach the cluster",
        ),
        (
            {"tags": {"note": "see @{iam-role/x:arn}"}},
            "tags.note: may not hold '@{', which stands for a reference here",
        ),
        (
            {"objects": [{"kind": "Pod", "metadata": {"name": "@{x"}}]},
            "objects[0].metadata.name: may not hold '@{'",
        ),
    ],
)
def test_a_mistake_says_what_is_wrong_and_what_would_be_right(
    fields: dict[str, Any], mistake: str
) -> None:
    assert any(one.startswith(mistake) for one in mistakes_of(**fields)), mistakes_of(**fields)


@pytest.mark.parametrize(
    ("vpc", "mistake"),
    [
        ({"cidr": "10.0.0.0"}, "vpc.create.cidr: /32 is no size for a VPC: /16 to /28"),
        ({"cidr": "ten/16"}, "vpc.create.cidr: 'ten/16' is no block of addresses"),
        ({"cidr": "10.0.0.0/8"}, "vpc.create.cidr: /8 is no size for a VPC: /16 to /28"),
        ({"cidr": "10.0.0.0/28"}, "vpc.create.cidr: 10.0.0.0/30 is too small for a subnet"),
        ({"zones": ["us-east-1a"]}, "vpc.create.zones: EKS wants two zones at least"),
        (
            {"zones": ["us-east-1a", "us-east-1x"]},
            "vpc.create.zones[1]: 'us-east-1x' is no zone of us-east-1; did you mean",
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
            "vpc.create.privateSubnets: has 1 subnets for 3 zones; one a zone",
        ),
    ],
)
def test_a_network_that_cannot_be_made_is_refused(vpc: dict[str, Any], mistake: str) -> None:
    found = mistakes_of(vpc={"create": vpc})

    assert any(one.startswith(mistake) for one in found), found


@pytest.mark.parametrize(
    ("pool", "mistake"),
    [
        ({"families": ["m5x"]}, "nodePools[0].families[0]: us-east-1 has no 'm5x'; did you mean"),
        ({"sizes": ["huge"]}, "nodePools[0].sizes[0]: us-east-1 has no 'huge'"),
        (
            {"zones": ["eu-west-1a"]},
            "nodePools[0].zones[0]: us-east-1 has no 'eu-west-1a'",
        ),
        (
            {"families": ["m6g"], "architectures": ["amd64"]},
            "nodePools[0]: NodePool p: no instance type of us-east-1 does all that",
        ),
        (
            {"instanceTypes": ["m5.large"], "sizes": ["xlarge"]},
            "nodePools[0]: NodePool p: no instance type of us-east-1 does all that",
        ),
        (
            {"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "Inn"}]},
            "nodePools[0].requirements[0].operator",
        ),
        ({"nodeClass": "defualt"}, "nodePools[0].nodeClass: there is no node class 'defualt'; did"),
        ({"expireAfter": "a month"}, "nodePools[0].expireAfter: 'a month' is no duration"),
        ({"ttlAfterEmpty": "soon"}, "nodePools[0].ttlAfterEmpty: 'soon' is no duration"),
        ({"consolidateAfter": "soon"}, "nodePools[0].consolidateAfter: 'soon' is no duration"),
        ({"limits": {"cpu": "lots"}}, "nodePools[0].limits.cpu: "),
        ({"budget": "some"}, "nodePools[0].budget: "),
    ],
)
def test_a_nodepool_that_could_buy_nothing_is_refused(pool: dict[str, Any], mistake: str) -> None:
    found = mistakes_of(nodePools=[{"name": "p", **pool}])

    assert any(one.startswith(mistake) for one in found), found


@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        ({"name": "k" * 64}, "name: has 64 characters; our objects in the cluster carry it"),
        ({"name": "dev-"}, "name: 'dev-' must end with a letter or digit"),
        ({"name": "sg-dev"}, "name: begins with 'sg-', and no security group may be called so"),
        ({"iam": {"prefix": "my team/"}}, "iam.prefix: 'my team/' is no part of a name for IAM"),
        (
            {"name": "k" * 66, "nodeGroups": [{"name": "g" * 62}]},
            "name: makes the launch template",
        ),
        ({"tags": {"cost": "<ours>"}}, "tags.cost: is no tag for IAM"),
        ({"region": "cn-north-1"}, "region: 'cn-north-1' is no region that is known here: regions"),
        ({"region": "us-gov-west-1"}, "region: 'us-gov-west-1' is no region that is known here"),
    ],
)
def test_a_name_that_something_will_not_take_is_refused(
    fields: dict[str, Any], mistake: str
) -> None:
    found = mistakes_of(**fields)

    assert any(one.startswith(mistake) for one in found), found


def test_a_network_is_checked_even_where_the_region_is_wrong_or_missing() -> None:
    wrong = {"create": {"cidr": "10.0.0.0/33"}}
    cidr = "vpc.create.cidr: '10.0.0.0/33' is no block of addresses"

    assert any(one.startswith(cidr) for one in mistakes_of(region="us-esat-1", vpc=wrong))
    assert any(one.startswith(cidr) for one in mistakes_of(region=None, vpc=wrong))


def test_mistakes_in_a_short_node_class_stand_at_the_field_that_was_written() -> None:
    found = mistakes_of(nodeClasses=[{"name": "default", "image": "bottlerocet@latest"}])

    assert found[0].startswith("nodeClasses[0].image: 'bottlerocet@latest' is no alias; did you")


def test_mistakes_in_a_full_nodepool_have_their_own_lines() -> None:
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "full"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"name": "default"}}}},
    }

    found = mistakes_of(nodePools=[pool])

    assert any(
        one.startswith("nodePools[0].spec.template.spec.nodeClassRef.group: ") for one in found
    ), found


def test_the_termination_handler_is_refused_beside_the_interruption_queue() -> None:
    found = mistakes_of(addons={"node-termination-handler": True})

    assert len(found) == 1
    assert found[0].startswith("addons.node-termination-handler: does not go with the interruption")
    assert "both would drain the same node" in found[0]
    a_cluster(
        addons={"node-termination-handler": True},
        controller={"image": "x/y:1", "interruptionQueue": False},
    )


@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        (
            {"home": "fargate", "identity": "pod-identity"},
            "identity: Pod Identity does not work on",
        ),
        (
            {"home": {"kind": "fargate", "namespaces": ["karpenter"]}},
            "home.namespaces: must hold kube-system: CoreDNS runs there",
        ),
        (
            {"home": {"kind": "managed-node-group", "min": 1, "desired": 1}},
            "home.desired: 1 nodes for 2 replicas of the controller",
        ),
        (
            {"home": {"kind": "managed-node-group", "instanceTypes": ["m5.lrge"]}},
            "home.instanceTypes[0]: 'm5.lrge' is no instance type; did you mean 'm5.large'?",
        ),
        (
            {"home": {"kind": "managed-node-group", "instanceTypes": ["m6g.large"]}},
            "home.instanceTypes[0]: m6g.large is arm64, the group amd64: set architecture",
        ),
        (
            {"nodeGroups": [{"name": "controller"}]},
            "nodeGroups[0].name: there are two node groups named controller",
        ),
        (
            {"addons": {"pod-identity-agent": False}},
            "addons.pod-identity-agent: must be on: identity is pod-identity",
        ),
        ({"addons": {"vpc-cni": False}}, "addons.vpc-cni: must be on"),
        (
            {"access": {"creatorIsAdmin": False}},
            "access.creatorIsAdmin: with nobody in admins, nobody could put anything",
        ),
        ({"access": {"accounts": ["123456789012"]}}, "access.accounts: whole accounts need mode"),
        (
            {"home": "existing", "access": {"mode": "aws-auth"}},
            "access.mode: aws-auth of an existing cluster is not ours to rewrite",
        ),
        (
            {"home": "existing", "vpc": {"create": {}}},
            "vpc.create: makes no sense for an existing cluster",
        ),
        (
            {"home": "fargate", "iam": {"nodeRole": {"use": "home"}}},
            "iam.nodeRole.use: needs a home of kind managed-node-group",
        ),
        (
            {"iam": {"path": "no-slashes"}},
            "iam.path: 'no-slashes' is no IAM path: it begins and ends with a slash",
        ),
        (
            {"ingress": [{"ports": 80}, {"ports": "80"}]},
            "ingress[1]: tcp 80 is there twice; join the cidrs",
        ),
        ({"access": {"admins": ["alice", "alice"]}}, "access.admins[1]: alice is there twice"),
        (
            {"objects": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}] * 2},
            "objects[1]: Pod/a is there twice",
        ),
        (
            {"serviceAccounts": [{"name": "a"}, {"name": "a"}]},
            "serviceAccounts[1]: default/a is there twice",
        ),
        (
            {"serviceAccounts": [{"name": "a", "statements": [{"Effect": "Allow"}]}]},
            "serviceAccounts[0].statements[0]: must have Effect, Action and Resource",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(fields: dict[str, Any], mistake: str) -> None:
    found = mistakes_of(**fields)

    assert any(one.startswith(mistake) for one in found), found


@pytest.mark.parametrize(
    ("data", "mistake"),
    [
        (b"", "cluster.yaml is empty; a cluster has a name, a region, a home"),
        (b"- a\n", "cluster.yaml:1 is a list"),
        (b"hello\n", "cluster.yaml:1 is no map of fields: name, region, home …"),
        (b"name: a\n---\nname: b\n", "cluster.yaml holds 2 documents; one is right"),
        (b"\x1f\x8b\x00", "cluster.yaml is compressed with gzip; unpack it first"),
        (b"name: [", "cluster.yaml:2 is no valid YAML"),
    ],
)
def test_what_is_no_cluster_file_at_all_is_refused(data: bytes, mistake: str) -> None:
    assert mistakes(data)[0].startswith(mistake)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda one: one.stem)
def test_the_examples_have_no_mistakes(path: Path) -> None:
    read_spec(path.name, path.read_bytes())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted(json_schema()["properties"])), JSON)
def test_whatever_stands_in_a_field_it_is_read_or_refused_and_nothing_else(
    field: str, value: Any
) -> None:
    whole = yaml.safe_load(a_file())
    whole[field] = value

    with suppress(BadInput):
        read_spec("cluster.yaml", json.dumps(whole).encode())


WORDS = st.sampled_from(
    ["", "x", "-", "Never", "10.0.0.0/8", "::/0", "arn:x", "subnet-1", "sg-1", "1-", "m5.large"]
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EXAMPLES), st.data())
def test_an_example_with_anything_changed_in_it_is_refused_or_rendered(
    path: Path, data: st.DataObject
) -> None:
    whole = yaml.safe_load(path.read_text(encoding="utf-8"))
    *way, last = data.draw(st.sampled_from(list(_places(whole))))
    here: Any = whole
    for step in way:
        here = here[step]
    here[last] = data.draw(JSON | WORDS)

    with suppress(BadInput):
        spec = read_spec("cluster.yaml", json.dumps(whole).encode())
        rendered(spec, data.draw(st.sampled_from(list(Format))))


def _places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in inside:
        yield (*before, step)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*before, step))


def test_the_published_schema_is_that_of_the_model(golden: Callable[[Path, str], None]) -> None:
    golden(SCHEMA, json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n")
