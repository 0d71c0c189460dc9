"""The ground that clusters are made on: an account in moto, with what the examples expect."""

import json
import re
from functools import cache
from typing import Any

import boto3
import botocore.session
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import AWSManagedPolicy, iam_backends

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.validation.load import read_spec
from tests.support.clusters import EXAMPLES
from tests.support.moto.server import MotoAws

_MANAGED = (
    "AmazonEKSClusterPolicy",
    "AmazonEKSVPCResourceController",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
    "AmazonEKSFargatePodExecutionRolePolicy",
    "CloudWatchAgentServerPolicy",
)

_ANYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


class Ground:
    """An account, and who uses it."""

    def __init__(self, moto: MotoAws, session: boto3.Session | None = None) -> None:
        self.moto = moto
        self.session = session or Clients()

    def client(self, service: Any, region: str = "us-east-1") -> Any:
        return self.session.client(service, region_name=region, endpoint_url=self.moto.url)

    def use_managed_policies(self) -> None:
        """Have the policies of AWS's own that roles are given."""
        for name in _MANAGED:
            _make_managed(name)

    def written(self, name: str) -> str:
        """Return an example's text, with what it expects to find made for it."""
        text = next(one for one in EXAMPLES if one.stem == name).read_text()
        if "existing:" in text:
            text = self._with_network(text)
        if name == "existing-cluster":
            self._make_cluster(read_spec(name, text.encode()))
        if name == "managed-node-group":
            iam = self.client("iam")
            iam.create_role(RoleName="Developers", AssumeRolePolicyDocument="{}")
        return text

    def prepared(self, name: str) -> ClusterSpec:
        """Return an example, with what it expects to find made for it."""
        return read_spec(name, self.written(name).encode())

    def inventory(self, region: str) -> dict[str, Any]:
        """Return the names of all that the account holds."""
        ec2, iam = self.client("ec2", region), self.client("iam")
        sqs, events = self.client("sqs", region), self.client("events", region)
        return {
            "vpcs": sorted(one["VpcId"] for one in ec2.describe_vpcs()["Vpcs"]),
            "subnets": sorted(
                (one["SubnetId"], str(one.get("Tags", [])))
                for one in ec2.describe_subnets()["Subnets"]
            ),
            "groups": sorted(
                one["GroupId"] for one in ec2.describe_security_groups()["SecurityGroups"]
            ),
            "addresses": ec2.describe_addresses()["Addresses"],
            "gateways": ec2.describe_internet_gateways()["InternetGateways"],
            "nat": [
                one
                for one in ec2.describe_nat_gateways()["NatGateways"]
                if one["State"] != "deleted"
            ],
            "templates": ec2.describe_launch_templates()["LaunchTemplates"],
            "roles": sorted(one["RoleName"] for one in iam.list_roles()["Roles"]),
            "policies": [one["Arn"] for one in iam.list_policies(Scope="Local")["Policies"]],
            "profiles": iam.list_instance_profiles()["InstanceProfiles"],
            "providers": iam.list_open_id_connect_providers()["OpenIDConnectProviderList"],
            "instances": sorted(one["InstanceId"] for one in self.machines(region)),
            "queues": sqs.list_queues().get("QueueUrls", []),
            "rules": events.list_rules()["Rules"],
            "clusters": self.client("eks", region).list_clusters()["clusters"],
        }

    def machines(self, region: str) -> list[Any]:
        """Return the instances that are there and not on their way out."""
        states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        told = self.client("ec2", region).describe_instances(Filters=states)
        return [one for group in told["Reservations"] for one in group["Instances"]]

    def _with_network(self, text: str) -> str:
        """Make a VPC, and name its ids where the file names others."""
        ec2 = self.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
        ids = []
        for number, zone in enumerate("abc"):
            made = ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.9.{number}.0/24", AvailabilityZone=f"us-east-1{zone}"
            )
            ids.append(made["Subnet"]["SubnetId"])
        known = iter(ids)
        text = re.sub(r"subnet-0[0-9a-f]+", lambda _: next(known), text)
        if "platform-one" in text:
            tag = {"Key": "karpenter.sh/discovery", "Value": "platform-one"}
            ec2.create_tags(Resources=ids, Tags=[tag])
        return re.sub(r"vpc-0[0-9a-f]+", vpc, text)

    def _make_cluster(self, spec: ClusterSpec) -> None:
        """Make the cluster that an example is to be put onto, by other hands."""
        iam = self.client("iam")
        iam.create_role(RoleName="platform-one-worker", AssumeRolePolicyDocument="{}")
        iam.create_policy(
            PolicyName="platform-boundary",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [_ANYTHING]}),
        )
        ec2 = self.client("ec2")
        filters = [{"Name": "tag:karpenter.sh/discovery", "Values": ["platform-one"]}]
        subnets = [one["SubnetId"] for one in ec2.describe_subnets(Filters=filters)["Subnets"]]
        self.client("eks").create_cluster(
            name=spec.name,
            version="1.33",
            roleArn="arn:aws:iam::123456789012:role/another",
            resourcesVpcConfig={"subnetIds": subnets},
        )
        self.client("eks").describe_cluster(name=spec.name)


class Clients(boto3.Session):
    """Makes each client once for an account, however many commands are run in it."""

    def __init__(self, key: str = "test", secret: str = "test") -> None:  # noqa: S107 - for tests
        super().__init__(
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            botocore_session=_descriptions(),
        )
        self._made: dict[tuple[Any, Any], Any] = {}

    def client(self, service_name: Any, *given: Any, **named: Any) -> Any:
        key = (service_name, named.get("region_name"))
        if key not in self._made:
            self._made[key] = super().client(service_name, *given, **named)
        return self._made[key]


@cache
def _descriptions() -> botocore.session.Session:
    """Read the SDK's descriptions of services once: they are large."""
    return botocore.session.get_session()


def _make_managed(name: str) -> None:
    backend = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    data = {
        "Arn": f"arn:aws:iam::aws:policy/{name}",
        "Path": "/",
        "DefaultVersionId": "v1",
        "Document": {"Version": "2012-10-17", "Statement": []},
        "CreateDate": "2024-01-01T00:00:00+00:00",
        "UpdateDate": "2024-01-01T00:00:00+00:00",
    }
    made = AWSManagedPolicy.from_data(name, DEFAULT_ACCOUNT_ID, "us-east-1", data)
    backend.managed_policies[made.arn] = made
