"""``home: existing``: what the file relies on is checked before the first change."""

from collections.abc import Callable
from typing import Any

import pytest

from dovetail.eks.apply.existing_cluster import ExistingClusterError
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.ports.api_resources import DEPLOYMENTS, NODES
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount

NODE_ROLE = "workers"


class ExistingHome:
    """An existing cluster "dev" with nodes, add-ons and discovery tags of its own."""

    def __init__(self, account: TestAccount) -> None:
        self.account = account
        self.ec2, self.eks, self.iam = (account.client(name) for name in ("ec2", "eks", "iam"))
        self.vpc = self.ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
        self.subnets = [
            self.ec2.create_subnet(
                VpcId=self.vpc, CidrBlock=f"10.9.{number}.0/24", AvailabilityZone=f"us-east-1{zone}"
            )["Subnet"]["SubnetId"]
            for number, zone in enumerate("ab")
        ]
        self.group = self.security_group("nodes", self.vpc)
        self.ec2.create_tags(Resources=[*self.subnets, self.group], Tags=_discovery())
        self.iam.create_role(RoleName=NODE_ROLE, AssumeRolePolicyDocument="{}")
        self.eks.create_cluster(
            name="dev",
            version="1.33",
            roleArn="arn:aws:iam::123456789012:role/cluster",
            resourcesVpcConfig={"subnetIds": self.subnets},
            accessConfig={"authenticationMode": "API"},
        )
        self.eks.describe_cluster(name="dev")
        self.eks.create_addon(clusterName="dev", addonName="eks-pod-identity-agent")
        self.create(NODES, _node())

    def security_group(self, name: str, vpc: str) -> str:
        response = self.ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)
        return str(response["GroupId"])

    def use_mode(self, mode: str) -> None:
        self.account.eks.clusters["dev"]["accessConfig"] = {"authenticationMode": mode}

    def create(self, kind: Any, obj: dict[str, Any]) -> None:
        served = self.account.served
        namespace = obj["metadata"].get("namespace", "")
        created = served.call(lambda: served.api.create(kind, obj, namespace))
        if "status" in obj:
            full = {**created, "status": obj["status"]}
            served.call(lambda: served.api.update(kind, full, subresource="status"))

    def errors(self, config: ClusterConfig) -> list[str]:
        """Return the errors of a plan, after checking that nothing was written."""
        self.account.moto.middleware.reset()
        with pytest.raises(ExistingClusterError) as raised:
            self.account.plan(config)
        *errors, last = str(raised.value).splitlines()
        assert last == "nothing was changed"
        return errors


@pytest.fixture
def home(account: TestAccount) -> ExistingHome:
    return ExistingHome(account)


def a_config(**fields: Any) -> ClusterConfig:
    return a_cluster(home="existing", **fields)


def _discovery() -> list[dict[str, str]]:
    return [{"Key": "karpenter.sh/discovery", "Value": "dev"}]


def _node() -> dict[str, Any]:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": "worker-1"}, "status": ready}


def _deployment(name: str, replicas: int = 1) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
    return {"metadata": {"name": name, "namespace": "kube-system"}, "spec": spec}


def test_cluster_with_everything_is_planned_without_advice(home: ExistingHome) -> None:
    plan = home.account.plan(a_config())

    assert plan.steps
    assert plan.advice == ()


def _use_config_map(home: ExistingHome) -> None:
    home.use_mode("CONFIG_MAP")


def _remove_agent(home: ExistingHome) -> None:
    home.eks.delete_addon(clusterName="dev", addonName="eks-pod-identity-agent")


def _untag_subnets(home: ExistingHome) -> None:
    home.ec2.delete_tags(Resources=home.subnets, Tags=_discovery())


def _untag_group(home: ExistingHome) -> None:
    home.ec2.delete_tags(Resources=[home.group], Tags=_discovery())


def _tag_group_of_another_vpc(home: ExistingHome) -> None:
    other = home.ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
    home.ec2.create_tags(Resources=[home.security_group("other", other)], Tags=_discovery())


def _nothing(home: ExistingHome) -> None:
    """Leave the cluster as it is."""


@pytest.mark.parametrize(
    ("break_it", "fields", "message"),
    [
        (_use_config_map, {}, "access.mode: cluster dev has authentication mode CONFIG_MAP"),
        (
            _nothing,
            {"access": {"mode": "aws-auth"}, "home": {"kind": "existing", "nodeRole": NODE_ROLE}},
            "access.mode: cluster dev has authentication mode API, which ignores aws-auth",
        ),
        (
            _nothing,
            {"home": {"kind": "existing", "nodeRole": NODE_ROLE}},
            "home.nodeRole: role workers has no access entry in cluster dev",
        ),
        (_remove_agent, {}, "identity: cluster dev has no Pod Identity agent"),
        (_nothing, {"identity": "irsa"}, "home.oidcProvider: IAM has no OIDC provider for https://oidc.eks."),
        (
            _untag_subnets,
            {},
            "vpc.existing (not set): subnetSelectorTerms tags karpenter.sh/discovery=dev of node class "
            "default match nothing",
        ),
        (
            _untag_group,
            {},
            "vpc.existing (not set): securityGroupSelectorTerms tags karpenter.sh/discovery=dev of node "
            "class default match nothing",
        ),
        (_tag_group_of_another_vpc, {}, "but the cluster is in vpc-"),
    ],
)
def test_cluster_that_lacks_something_is_rejected_with_field_and_fix(
    break_it: Callable[[ExistingHome], None], fields: dict[str, Any], message: str, home: ExistingHome
) -> None:
    break_it(home)

    (error,) = home.errors(a_cluster(**{"home": "existing", **fields}))

    assert message in error


def test_all_errors_of_an_existing_cluster_are_reported_at_once(home: ExistingHome) -> None:
    for break_it in (_use_config_map, _remove_agent, _untag_subnets, _untag_group):
        break_it(home)

    errors = home.errors(a_config())

    assert [error.partition(":")[0] for error in errors] == [
        "access.mode",
        "identity",
        "vpc.existing (not set)",
        "vpc.existing (not set)",
    ]


def test_agent_that_the_file_installs_is_not_missing(home: ExistingHome) -> None:
    _remove_agent(home)

    assert home.account.plan(a_config(addons={"pod-identity-agent": True})).steps


def test_provider_that_the_file_creates_is_not_missing(home: ExistingHome) -> None:
    config = a_cluster(home={"kind": "existing", "oidcProvider": "create"}, identity="irsa")

    assert home.account.plan(config).steps


def test_other_autoscalers_and_missing_nodes_are_advice(home: ExistingHome) -> None:
    home.create(DEPLOYMENTS, _deployment("karpenter"))
    home.create(DEPLOYMENTS, _deployment("cluster-autoscaler"))
    home.account.served.call(lambda: home.account.served.api.delete(NODES, "worker-1"))

    plan = home.account.plan(a_config())

    assert plan.steps
    starts = [
        "Deployment kube-system/cluster-autoscaler (cluster-autoscaler) runs in cluster dev",
        "Deployment kube-system/karpenter (karpenter) runs in cluster dev",
        "cluster dev has no ready node outside NodePools",
    ]
    assert [line[: len(start)] for line, start in zip(plan.advice, starts, strict=True)] == starts


def test_autoscaler_that_is_scaled_to_zero_is_no_advice(home: ExistingHome) -> None:
    home.create(DEPLOYMENTS, _deployment("karpenter", replicas=0))

    assert home.account.plan(a_config()).advice == ()
