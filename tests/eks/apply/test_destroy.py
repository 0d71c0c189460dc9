"""What controllers and others left behind when a cluster goes."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from dovetail.eks.apply.executor import StepFailed
from dovetail.eks.destroy.destroy import proof
from dovetail.eks.destroy.preflight import InTheWay
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, SERVICES
from tests.support.clusters import a_cluster
from tests.support.moto.account import TestAccount

pytestmark = pytest.mark.slow

NODE = {
    "eks:eks-cluster-name": "dev",
    "kubernetes.io/cluster/dev": "owned",
    "karpenter.sh/nodepool": "default",
    "karpenter.k8s.aws/ec2nodeclass": "default",
}
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}


def test_machines_templates_and_profiles_that_a_dead_controller_left_go_with_the_cluster(
    account: TestAccount,
) -> None:
    spec = a_cluster(vpc=NETWORK)
    account.apply(spec)
    _left_by_a_controller(account)

    left = account.destroy(spec)

    assert left == []
    assert _alive(account) == []


def test_a_volume_is_left_to_its_owner_and_named(account: TestAccount) -> None:
    spec = a_cluster(vpc=NETWORK)
    account.apply(spec)
    volume = account.client("ec2").create_volume(
        AvailabilityZone="us-east-1a",
        Size=8,
        TagSpecifications=[_tags("volume", {"kubernetes.io/cluster/dev": "owned"})],
    )

    left = account.destroy(spec)

    assert [(one.what, one.name) for one in left] == [("volume", volume["VolumeId"])]
    assert "8 GiB" in left[0].why


def test_the_control_planes_logs_are_named_when_they_are_left(account: TestAccount) -> None:
    spec = a_cluster(vpc=NETWORK)
    account.apply(spec)
    account.client("logs").create_log_group(logGroupName="/aws/eks/dev/cluster")

    left = account.destroy(spec)

    assert [str(one) for one in left] == ["log group /aws/eks/dev/cluster"]


def test_a_pools_claims_go_before_the_controller_does(account: TestAccount) -> None:
    spec = a_cluster(vpc=NETWORK)
    account.apply(spec)
    api = account.served.api
    claim = _a_claim()
    account.served.call(lambda: api.create(NODE_CLAIMS, claim))

    left = account.destroy(spec)

    assert left == []
    assert account.served.call(lambda: api.list(NODE_CLAIMS).items) == []


def test_a_claim_that_nobody_lets_go_stops_everything_below_it(account: TestAccount) -> None:
    spec = a_cluster(vpc=NETWORK)
    account.apply(spec)
    api = account.served.api
    claim = _a_claim(finalizers=["karpenter.sh/termination"])
    account.pace = msgspec.structs.replace(account.pace, patience=timedelta(seconds=0.3))
    account.served.call(lambda: api.create(NODE_CLAIMS, claim))

    with pytest.raises(StepFailed, match="NodeClaims of default do not go"):
        account.destroy(spec)

    assert "dev" in account.eks.clusters


def test_a_guest_leaves_the_house_and_its_other_machines_alone(account: TestAccount) -> None:
    spec = account.prepared("existing-cluster")
    account.apply(spec)
    account.client("ec2").run_instances(
        ImageId="ami-12c6146b",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[_tags("instance", {"kubernetes.io/cluster/platform-one": "owned"})],
    )

    left = account.destroy(spec)

    assert left == []
    assert "platform-one" in account.eks.clusters
    assert len(_alive(account)) == 1


def test_what_a_finalizer_keeps_in_a_cluster_that_stays_is_named(account: TestAccount) -> None:
    spec = account.prepared("existing-cluster")
    api = account.served.api
    kept = {
        "metadata": {"name": "old", "finalizers": ["karpenter.k8s.aws/termination"]},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}],
            "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
        },
    }
    account.served.call(lambda: api.create(EC2_NODE_CLASSES, kept))
    account.served.call(lambda: api.delete(EC2_NODE_CLASSES, "old"))

    left = account.do(spec, proof)

    assert [str(one) for one in left] == ["EC2NodeClass old: kept by karpenter.k8s.aws/termination"]


def test_what_was_there_before_and_only_looks_like_ours_stays(account: TestAccount) -> None:
    spec = account.prepared("existing-cluster")
    api = account.served.api
    nodes = {"requirements": [], "nodeClassRef": CLASS}
    mine = {"metadata": {"name": "mine"}, "spec": {"template": {"spec": nodes}}}
    account.served.call(lambda: api.create(NODE_POOLS, mine))
    account.client("iam").create_role(
        RoleName="platform-one-karpenter-other", AssumeRolePolicyDocument="{}"
    )
    account.apply(spec)

    account.destroy(spec)

    pools = account.served.call(lambda: api.list(NODE_POOLS).items)
    assert [one["metadata"]["name"] for one in pools] == ["mine"]
    assert account.client("iam").get_role(RoleName="platform-one-karpenter-other")


@pytest.mark.parametrize("steps", [1, 14, 27, 40])
def test_a_cluster_that_was_only_half_made_is_taken_away_all_the_same(
    account: TestAccount, steps: int
) -> None:
    spec = a_cluster(vpc=NETWORK, identity="irsa")
    account.apply(spec, steps=steps)

    assert account.destroy(spec) == []
    assert account.eks.clusters == {}
    roles = account.client("iam").list_roles()["Roles"]
    assert [one for one in roles if one["RoleName"].startswith("dev-")] == []


def test_a_role_of_ours_goes_although_somebody_put_it_into_a_profile(account: TestAccount) -> None:
    spec = a_cluster(vpc=NETWORK)
    account.apply(spec, steps=30)
    iam = account.client("iam")
    iam.create_instance_profile(InstanceProfileName="theirs")
    iam.add_role_to_instance_profile(InstanceProfileName="theirs", RoleName="dev-node")

    assert account.destroy(spec) == []
    assert iam.get_instance_profile(InstanceProfileName="theirs")["InstanceProfile"]["Roles"] == []


def test_what_a_file_no_longer_names_is_found_by_the_prefix_that_it_names(
    account: TestAccount,
) -> None:
    reports = {"name": "reports", "policies": ["arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"]}
    prefixed = {"vpc": NETWORK, "iam": {"prefix": "team"}}
    account.apply(a_cluster(**prefixed, serviceAccounts=[reports]))

    without = account.plan(a_cluster(**prefixed))

    assert "remove iam-role/team-default-reports" in [one.id for one in without.steps]


def test_what_others_made_in_our_vpc_is_named_before_anything_goes(account: TestAccount) -> None:
    spec = a_cluster(vpc=NETWORK)
    account.apply(spec)
    machine, balancer = _of_others(account)
    account.client("eks").create_nodegroup(
        clusterName="dev", nodegroupName="by-hand", subnets=[], nodeRole="arn:aws:iam::1:role/x"
    )
    account.moto.door.reset()

    with pytest.raises(InTheWay) as refused:
        account.destroy(spec)

    told = str(refused.value)
    assert f"instance {machine}" in told
    assert f"load balancer app/theirs/1: with {balancer}" in told
    assert "managed node group by-hand" in told
    reading = ("Describe", "Get", "List", "GET ")
    assert [one for one in account.moto.door.calls if not one.startswith(reading)] == []


def test_a_service_whose_load_balancer_nobody_would_remove_is_named(account: TestAccount) -> None:
    spec = a_cluster(vpc=NETWORK)
    account.apply(spec)
    api = account.served.api
    web = {
        "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}},
    }
    account.served.call(lambda: api.create(SERVICES, web, "default"))

    with pytest.raises(InTheWay, match="Service default/web: its load balancer would stay"):
        account.destroy(spec)
    account.served.call(lambda: api.delete(SERVICES, "web", "default"))

    assert account.destroy(spec) == []


def _of_others(account: TestAccount) -> tuple[str, str]:
    """Have a machine and a load balancer of somebody else in our VPC."""
    ec2 = account.client("ec2")
    ours = [{"Name": "tag:dovetail.sh/cluster", "Values": ["dev"]}]
    subnet = ec2.describe_subnets(Filters=ours)["Subnets"][0]["SubnetId"]
    made = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1, SubnetId=subnet)
    balancer = ec2.create_network_interface(SubnetId=subnet, Description="ELB app/theirs/1")
    return made["Instances"][0]["InstanceId"], balancer["NetworkInterface"]["NetworkInterfaceId"]


def _a_claim(**meta: Any) -> dict[str, Any]:
    labels = {"karpenter.sh/nodepool": "default"}
    return {
        "metadata": {"name": "default-x", "labels": labels, **meta},
        "spec": {"requirements": [], "nodeClassRef": CLASS},
    }


def _left_by_a_controller(account: TestAccount) -> None:
    ec2, iam = account.client("ec2"), account.client("iam")
    ec2.run_instances(
        ImageId="ami-12c6146b", MinCount=2, MaxCount=2, TagSpecifications=[_tags("instance", NODE)]
    )
    ec2.create_launch_template(
        LaunchTemplateName="karpenter.k8s.aws/1",
        LaunchTemplateData={"ImageId": "ami-12c6146b"},
        TagSpecifications=[_tags("launch-template", NODE)],
    )
    iam.create_instance_profile(InstanceProfileName="dev_1", Path="/karpenter/us-east-1/dev/1234/")
    iam.add_role_to_instance_profile(InstanceProfileName="dev_1", RoleName="dev-node")


def _alive(account: TestAccount) -> list[Any]:
    states = [{"Name": "instance-state-name", "Values": ["running", "pending"]}]
    return list(account.client("ec2").describe_instances(Filters=states)["Reservations"])


def _tags(what: str, tags: dict[str, str]) -> dict[str, Any]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {"ResourceType": what, "Tags": pairs}
