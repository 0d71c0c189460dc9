"""Destroy: leftovers of controllers, and resources of others."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from dovetail.eks.apply.executor import StepError
from dovetail.eks.destroy.destroy import find_leftovers
from dovetail.eks.destroy.preflight import DestroyBlockedError
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, SERVICES
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount

pytestmark = pytest.mark.slow

NODE = {
    "eks:eks-cluster-name": "dev",
    "kubernetes.io/cluster/dev": "owned",
    "karpenter.sh/nodepool": "default",
    "karpenter.k8s.aws/ec2nodeclass": "default",
}
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}


def test_leftovers_of_a_dead_controller_are_deleted_with_the_cluster(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    account.apply(config)
    _create_controller_leftovers(account)

    leftovers = account.destroy(config)

    assert leftovers == []
    assert _live_reservations(account) == []


def test_volume_is_kept_and_reported(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    account.apply(config)
    volume = account.client("ec2").create_volume(
        AvailabilityZone="us-east-1a",
        Size=8,
        TagSpecifications=[_tags("volume", {"kubernetes.io/cluster/dev": "owned"})],
    )

    leftovers = account.destroy(config)

    assert [(leftover.kind, leftover.name) for leftover in leftovers] == [("volume", volume["VolumeId"])]
    assert "8 GiB" in leftovers[0].reason


def test_remaining_control_plane_logs_are_reported(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    account.apply(config)
    account.client("logs").create_log_group(logGroupName="/aws/eks/dev/cluster")

    leftovers = account.destroy(config)

    assert [str(leftover) for leftover in leftovers] == ["log group /aws/eks/dev/cluster"]


def test_nodeclaims_are_deleted_before_the_controller(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    account.apply(config)
    api = account.served.api
    claim = _nodeclaim()
    account.served.call(lambda: api.create(NODE_CLAIMS, claim))

    leftovers = account.destroy(config)

    assert leftovers == []
    assert account.served.call(lambda: api.list(NODE_CLAIMS).items) == []


def test_nodeclaim_stuck_on_a_finalizer_stops_destroy(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    account.apply(config)
    api = account.served.api
    claim = _nodeclaim(finalizers=["karpenter.sh/termination"])
    account.polling = msgspec.structs.replace(account.polling, timeout=timedelta(seconds=0.3))
    account.served.call(lambda: api.create(NODE_CLAIMS, claim))

    with pytest.raises(StepError, match="NodeClaims of default are not deleted"):
        account.destroy(config)

    assert "dev" in account.eks.clusters


def test_existing_cluster_and_its_other_instances_are_kept(account: TestAccount) -> None:
    config = account.prepared("existing-cluster")
    account.apply(config)
    account.client("ec2").run_instances(
        ImageId="ami-12c6146b",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[_tags("instance", {"kubernetes.io/cluster/platform-one": "owned"})],
    )

    leftovers = account.destroy(config)

    assert leftovers == []
    assert "platform-one" in account.eks.clusters
    assert len(_live_reservations(account)) == 1


def test_object_stuck_on_a_finalizer_in_an_existing_cluster_is_reported(account: TestAccount) -> None:
    config = account.prepared("existing-cluster")
    api = account.served.api
    stuck = {
        "metadata": {"name": "old", "finalizers": ["karpenter.k8s.aws/termination"]},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}],
            "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
        },
    }
    account.served.call(lambda: api.create(EC2_NODE_CLASSES, stuck))
    account.served.call(lambda: api.delete(EC2_NODE_CLASSES, "old"))

    leftovers = account.run(config, find_leftovers)

    assert [str(leftover) for leftover in leftovers] == [
        "EC2NodeClass old: kept by karpenter.k8s.aws/termination"
    ]


def test_unowned_objects_and_roles_in_an_existing_cluster_are_kept(account: TestAccount) -> None:
    config = account.prepared("existing-cluster")
    api = account.served.api
    nodes = {"requirements": [], "nodeClassRef": CLASS}
    foreign_pool = {"metadata": {"name": "mine"}, "spec": {"template": {"spec": nodes}}}
    account.served.call(lambda: api.create(NODE_POOLS, foreign_pool))
    account.client("iam").create_role(
        RoleName="platform-one-us-east-1-karpenter-other", AssumeRolePolicyDocument="{}"
    )
    account.apply(config)

    account.destroy(config)

    pools = account.served.call(lambda: api.list(NODE_POOLS).items)
    assert [pool["metadata"]["name"] for pool in pools] == ["mine"]
    assert account.client("iam").get_role(RoleName="platform-one-us-east-1-karpenter-other")


@pytest.mark.parametrize("steps", [1, 14, 27, 40])
def test_half_created_cluster_is_destroyed(account: TestAccount, steps: int) -> None:
    config = a_cluster(vpc=NETWORK, identity="irsa")
    account.apply(config, steps=steps)

    assert account.destroy(config) == []
    assert account.eks.clusters == {}
    roles = account.client("iam").list_roles()["Roles"]
    assert [role for role in roles if role["RoleName"].startswith("dev-")] == []


def test_role_in_a_foreign_instance_profile_is_deleted(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    account.apply(config, steps=30)
    iam = account.client("iam")
    iam.create_instance_profile(InstanceProfileName="theirs")
    iam.add_role_to_instance_profile(InstanceProfileName="theirs", RoleName="dev-us-east-1-node")

    assert account.destroy(config) == []
    assert iam.get_instance_profile(InstanceProfileName="theirs")["InstanceProfile"]["Roles"] == []


def test_role_removed_from_the_file_is_found_by_the_name_prefix(account: TestAccount) -> None:
    reports = {"name": "reports", "policies": ["arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"]}
    prefixed = {"vpc": NETWORK, "iam": {"prefix": "team"}}
    account.apply(a_cluster(**prefixed, serviceAccounts=[reports]))

    plan = account.plan(a_cluster(**prefixed))

    assert "delete iam-role/team-default-reports" in [step.id for step in plan.steps]


def test_foreign_resources_in_our_vpc_block_destroy_before_the_first_step(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    account.apply(config)
    instance, balancer = _create_foreign_resources(account)
    account.client("eks").create_nodegroup(
        clusterName="dev", nodegroupName="by-hand", subnets=[], nodeRole="arn:aws:iam::1:role/x"
    )
    account.moto.middleware.reset()

    with pytest.raises(DestroyBlockedError) as raised:
        account.destroy(config)

    message = str(raised.value)
    assert f"instance {instance}" in message
    assert f"load balancer app/theirs/1: with {balancer}" in message
    assert "managed node group by-hand" in message
    read_prefixes = ("Describe", "Get", "List", "GET ")
    assert [call for call in account.moto.middleware.calls if not call.startswith(read_prefixes)] == []


def test_service_with_a_load_balancer_blocks_destroy(account: TestAccount) -> None:
    config = a_cluster(vpc=NETWORK)
    account.apply(config)
    api = account.served.api
    web = {
        "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}},
    }
    account.served.call(lambda: api.create(SERVICES, web, "default"))

    with pytest.raises(DestroyBlockedError, match="Service default/web: its load balancer would remain"):
        account.destroy(config)
    account.served.call(lambda: api.delete(SERVICES, "web", "default"))

    assert account.destroy(config) == []


def _create_foreign_resources(account: TestAccount) -> tuple[str, str]:
    """Create a foreign instance and a foreign load balancer in our VPC."""
    ec2 = account.client("ec2")
    owned = [{"Name": "tag:dovetail.sh/cluster", "Values": ["dev"]}]
    subnet = ec2.describe_subnets(Filters=owned)["Subnets"][0]["SubnetId"]
    response = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1, SubnetId=subnet)
    balancer = ec2.create_network_interface(SubnetId=subnet, Description="ELB app/theirs/1")
    return response["Instances"][0]["InstanceId"], balancer["NetworkInterface"]["NetworkInterfaceId"]


def _nodeclaim(**metadata: Any) -> dict[str, Any]:
    labels = {"karpenter.sh/nodepool": "default"}
    return {
        "metadata": {"name": "default-x", "labels": labels, **metadata},
        "spec": {"requirements": [], "nodeClassRef": CLASS},
    }


def _create_controller_leftovers(account: TestAccount) -> None:
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
    iam.add_role_to_instance_profile(InstanceProfileName="dev_1", RoleName="dev-us-east-1-node")


def _live_reservations(account: TestAccount) -> list[Any]:
    states = [{"Name": "instance-state-name", "Values": ["running", "pending"]}]
    return list(account.client("ec2").describe_instances(Filters=states)["Reservations"])


def _tags(resource_type: str, tags: dict[str, str]) -> dict[str, Any]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {"ResourceType": resource_type, "Tags": pairs}
