"""An account in moto, with the existing resources that the examples expect."""

import json
import re
from functools import cache
from typing import Any

import boto3
import botocore.session
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import AWSManagedPolicy, iam_backends

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.validation.load import load_config
from tests.support.eks.configs import EXAMPLES
from tests.support.memory_aws.iam import AWS_POLICIES
from tests.support.moto.server import MotoAws

_ANYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


class MotoAccount:
    """An account, and a boto3 session in it."""

    def __init__(self, moto: MotoAws, session: boto3.Session | None = None) -> None:
        self.moto = moto
        self.session = session or Clients()

    def client(self, service: Any, region: str = "us-east-1") -> Any:
        return self.session.client(service, region_name=region, endpoint_url=self.moto.url)

    def use_managed_policies(self) -> None:
        """Create the AWS managed policies that roles use."""
        for name in AWS_POLICIES:
            _create_managed_policy(name)

    def example_text(self, name: str) -> str:
        """Return an example's text, after creating the resources it expects."""
        text = next(path for path in EXAMPLES if path.stem == name).read_text()
        if "existing:" in text:
            text = self._with_network(text)
        if name == "existing-cluster":
            self._create_cluster(load_config(name, text.encode()))
        if name == "managed-node-group":
            iam = self.client("iam")
            iam.create_role(RoleName="Developers", AssumeRolePolicyDocument="{}")
        return text

    def prepared(self, name: str) -> ClusterConfig:
        """Return an example, after creating the resources it expects."""
        return load_config(name, self.example_text(name).encode())

    def inventory(self, region: str) -> dict[str, Any]:
        """Return the names of all resources in the account."""
        ec2, iam = self.client("ec2", region), self.client("iam")
        sqs, events = self.client("sqs", region), self.client("events", region)
        return {
            "vpcs": sorted(vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"]),
            "subnets": sorted(
                (subnet["SubnetId"], str(subnet.get("Tags", [])))
                for subnet in ec2.describe_subnets()["Subnets"]
            ),
            "groups": sorted(group["GroupId"] for group in ec2.describe_security_groups()["SecurityGroups"]),
            "addresses": ec2.describe_addresses()["Addresses"],
            "gateways": ec2.describe_internet_gateways()["InternetGateways"],
            "nat": [
                gateway
                for gateway in ec2.describe_nat_gateways()["NatGateways"]
                if gateway["State"] != "deleted"
            ],
            "endpoints": [
                endpoint["ServiceName"]
                for endpoint in ec2.describe_vpc_endpoints()["VpcEndpoints"]
                if endpoint["State"] != "deleted"
            ],
            "templates": ec2.describe_launch_templates()["LaunchTemplates"],
            # Service-linked roles belong to the account, not to a cluster.
            "roles": sorted(
                role["RoleName"]
                for role in iam.list_roles()["Roles"]
                if not role["Path"].startswith("/aws-service-role/")
            ),
            "policies": [policy["Arn"] for policy in iam.list_policies(Scope="Local")["Policies"]],
            "profiles": iam.list_instance_profiles()["InstanceProfiles"],
            "providers": iam.list_open_id_connect_providers()["OpenIDConnectProviderList"],
            "instances": sorted(instance["InstanceId"] for instance in self.instances(region)),
            "queues": sqs.list_queues().get("QueueUrls", []),
            "rules": events.list_rules()["Rules"],
            "clusters": self.client("eks", region).list_clusters()["clusters"],
        }

    def instances(self, region: str) -> list[Any]:
        """Return the pending and running instances."""
        states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        response = self.client("ec2", region).describe_instances(Filters=states)
        return [instance for group in response["Reservations"] for instance in group["Instances"]]

    def _with_network(self, text: str) -> str:
        """Create a VPC, and replace the ids in the text by its own."""
        ec2 = self.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
        ids = []
        for number, zone in enumerate("abc"):
            response = ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.9.{number}.0/24", AvailabilityZone=f"us-east-1{zone}"
            )
            ids.append(response["Subnet"]["SubnetId"])
        remaining_ids = iter(ids)
        text = re.sub(r"subnet-0[0-9a-f]+", lambda _: next(remaining_ids), text)
        if "platform-one" in text:
            tag = {"Key": "karpenter.sh/discovery", "Value": "platform-one"}
            ec2.create_tags(Resources=ids, Tags=[tag])
        return re.sub(r"vpc-0[0-9a-f]+", vpc, text)

    def _create_cluster(self, config: ClusterConfig) -> None:
        """Create the existing cluster of an example."""
        iam = self.client("iam")
        by_ec2 = {
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
        trust = json.dumps({"Version": "2012-10-17", "Statement": [by_ec2]})
        iam.create_role(RoleName="platform-one-worker", AssumeRolePolicyDocument=trust)
        iam.create_policy(
            PolicyName="platform-boundary",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [_ANYTHING]}),
        )
        ec2 = self.client("ec2")
        filters = [{"Name": "tag:karpenter.sh/discovery", "Values": ["platform-one"]}]
        subnets = [subnet["SubnetId"] for subnet in ec2.describe_subnets(Filters=filters)["Subnets"]]
        self.client("eks").create_cluster(
            name=config.name,
            version="1.33",
            roleArn="arn:aws:iam::123456789012:role/another",
            resourcesVpcConfig={"subnetIds": subnets},
        )
        cluster = self.client("eks").describe_cluster(name=config.name)["cluster"]
        iam.create_open_id_connect_provider(
            Url=cluster["identity"]["oidc"]["issuer"], ClientIDList=["sts.amazonaws.com"]
        )
        tags = {"karpenter.sh/discovery": "platform-one", "kubernetes.io/cluster/platform-one": "owned"}
        tag_list = [{"Key": key, "Value": value} for key, value in tags.items()]
        ec2.create_security_group(
            GroupName="platform-one-nodes",
            Description="nodes",
            VpcId=cluster["resourcesVpcConfig"]["vpcId"],
            TagSpecifications=[{"ResourceType": "security-group", "Tags": tag_list}],
        )


class Clients(boto3.Session):
    """Creates each client once per account, for all commands run in it."""

    def __init__(self, key: str = "test", secret: str = "test") -> None:  # noqa: S107 - for tests
        super().__init__(
            aws_access_key_id=key, aws_secret_access_key=secret, botocore_session=_service_models()
        )
        self._made: dict[tuple[Any, Any], Any] = {}

    def client(self, service_name: Any, *given: Any, **named: Any) -> Any:
        key = (service_name, named.get("region_name"))
        if key not in self._made:
            self._made[key] = super().client(service_name, *given, **named)
        return self._made[key]


@cache
def _service_models() -> botocore.session.Session:
    """Load the SDK's service models once: they are large."""
    return botocore.session.get_session()


def _create_managed_policy(name: str) -> None:
    backend = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    data = {
        "Arn": f"arn:aws:iam::aws:policy/{name}",
        "Path": "/",
        "DefaultVersionId": "v1",
        "Document": {"Version": "2012-10-17", "Statement": []},
        "CreateDate": "2024-01-01T00:00:00+00:00",
        "UpdateDate": "2024-01-01T00:00:00+00:00",
    }
    policy = AWSManagedPolicy.from_data(name, DEFAULT_ACCOUNT_ID, "us-east-1", data)
    backend.managed_policies[policy.arn] = policy
