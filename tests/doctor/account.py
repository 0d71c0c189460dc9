"""A healthy account in moto: network, roles, queue, cluster and one instance."""

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import boto3
import msgspec
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import AWSManagedPolicy, iam_backends

from dovetail.aws.session import AwsSession, RetryPolicy
from dovetail.doctor.facts import Facts
from dovetail.doctor.gather import add_aws_facts
from dovetail.doctor.sources.iam import SPOT_ROLE
from dovetail.eks.desired.interruption_queue import RULES
from dovetail.eks.iam.controller_policies import controller_policies
from dovetail.eks.iam.documents import pod_identity_trust_policy, service_trust_policy
from dovetail.eks.iam.other_policies import queue_policy
from dovetail.eks.plan.references import Reference, resolve_references
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from tests.support.moto.eks import Eks
from tests.support.moto.server import MotoAws

CLUSTER, REGION, NUMBER = "demo", "us-east-1", "123456789012"
NODES, CONTROLLER = "demo-node", "demo-karpenter"
DISCOVERY = {"karpenter.sh/discovery": CLUSTER}
OWNED = {f"kubernetes.io/cluster/{CLUSTER}": "owned"}
_RETRY_POLICY = RetryPolicy(
    max_throttle_retries=1, max_transient_retries=1, initial_delay=timedelta(milliseconds=5)
)
_MANAGED = ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly")
_CREATED = "2024-01-01T00:00:00+00:00"


def add_managed_policies() -> None:
    """Add the AWS managed policies that nodes need; moto is slow to load all of them."""
    backend = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for name in (*_MANAGED, "AmazonEC2ContainerRegistryReadOnly"):
        data = {
            "Arn": f"arn:aws:iam::aws:policy/{name}",
            "Path": "/",
            "DefaultVersionId": "v1",
            "Document": {"Version": "2012-10-17", "Statement": []},
            "CreateDate": _CREATED,
            "UpdateDate": _CREATED,
        }
        policy = AWSManagedPolicy.from_data(name, DEFAULT_ACCOUNT_ID, REGION, data)
        backend.managed_policies[policy.arn] = policy


def tagged(kind: str, tags: dict[str, str]) -> list[dict[str, Any]]:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed}]


class Account:
    """AWS resources of the cluster; tests break single ones."""

    def __init__(self, moto: MotoAws, eks: Eks, session: boto3.Session) -> None:
        self.moto, self._eks_server, self._session = moto, eks, session
        moto.middleware.reset()
        moto.reset()
        moto.middleware.responses.clear()
        eks.reset()
        self._reservations: list[dict[str, str]] = []
        moto.middleware.responses["DescribeCapacityReservations"] = self._reservations_response
        self.default_key = "alias/aws/ebs"
        moto.middleware.responses["GetEbsDefaultKmsKeyId"] = self._default_key_response
        self.ec2, self.iam = self._client("ec2"), self._client("iam")
        self.eks, self.sqs = self._client("eks"), self._client("sqs")
        self.events, self.kms = self._client("events"), self._client("kms")
        self._network()
        self._roles()
        self._queue()
        self._cluster()
        self._instance()

    def _client(self, service: Any) -> Any:
        return self._session.client(service, region_name=REGION, endpoint_url=self.moto.url)

    def _network(self) -> None:
        ec2 = self.ec2
        self.vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = [
            ec2.create_subnet(
                VpcId=self.vpc,
                AvailabilityZone=f"{REGION}{zone}",
                CidrBlock=f"10.0.{number * 16}.0/20",
                TagSpecifications=tagged("subnet", DISCOVERY),
            )["Subnet"]["SubnetId"]
            for number, zone in enumerate("abc")
        ]
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=self.vpc)
        filters = [{"Name": "vpc-id", "Values": [self.vpc]}]
        table = ec2.describe_route_tables(Filters=filters)["RouteTables"][0]["RouteTableId"]
        self.default_route = {"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0"}
        ec2.create_route(**self.default_route, GatewayId=gateway)
        self.group = self.security_group("nodes", {**DISCOVERY, **OWNED})

    def security_group(self, name: str, tags: dict[str, str]) -> str:
        response = self.ec2.create_security_group(
            VpcId=self.vpc, GroupName=name, Description=name, TagSpecifications=tagged("security-group", tags)
        )
        return str(response["GroupId"])

    def _roles(self) -> None:
        iam = self.iam
        trusts = {NODES: service_trust_policy("ec2"), CONTROLLER: pod_identity_trust_policy()}
        for name, trust in trusts.items():
            iam.create_role(RoleName=name, AssumeRolePolicyDocument=_text(trust))
        add_managed_policies()
        for policy in _MANAGED:
            iam.attach_role_policy(RoleName=NODES, PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
        iam.create_role(RoleName=SPOT_ROLE, AssumeRolePolicyDocument=_text(service_trust_policy("spot")))
        documents = controller_policies(
            cluster=CLUSTER,
            cluster_arn=f"arn:aws:eks:{REGION}:{NUMBER}:cluster/{CLUSTER}",
            node_role_arn=f"arn:aws:iam::{NUMBER}:role/{NODES}",
            queue_arn=f"arn:aws:sqs:{REGION}:{NUMBER}:{CLUSTER}",
        )
        for name, document in documents.items():
            self.allow(name, resolve_references(document, _resolve))

    def allow(self, name: str, document: dict[str, Any]) -> None:
        """Attach a managed policy to the controller's role."""
        response = self.iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(document))
        self.iam.attach_role_policy(RoleName=CONTROLLER, PolicyArn=response["Policy"]["Arn"])

    def add_inline_policy(self) -> None:
        """Add an inline policy to the controller's role."""
        reads = {"Effect": "Allow", "Action": "ec2:DescribeVpcs", "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [reads]})
        self.iam.put_role_policy(RoleName=CONTROLLER, PolicyName="own", PolicyDocument=document)

    def detach_policy(self, name: str) -> None:
        """Detach one of the policies of the controller's role."""
        arn = f"arn:aws:iam::{NUMBER}:policy/{name}"
        self.iam.detach_role_policy(RoleName=CONTROLLER, PolicyArn=arn)

    def _queue(self) -> None:
        arn = f"arn:aws:sqs:{REGION}:{NUMBER}:{CLUSTER}"
        policy = {"Policy": _text(queue_policy(arn))}
        self.queue_url = self.sqs.create_queue(QueueName=CLUSTER, Attributes=policy)["QueueUrl"]
        for short, source, detail in RULES:
            pattern = {"source": [source], "detail-type": [detail]}
            self.events.put_rule(Name=f"demo-{short}", EventPattern=json.dumps(pattern))
            self.events.put_targets(Rule=f"demo-{short}", Targets=[{"Id": "queue", "Arn": arn}])

    def _cluster(self) -> None:
        self.eks.create_cluster(
            name=CLUSTER,
            version="1.33",
            roleArn=f"arn:aws:iam::{NUMBER}:role/cluster",
            resourcesVpcConfig={"subnetIds": self.subnets},
            accessConfig={"authenticationMode": "API"},
        )
        self.add_access_entry("EC2_LINUX")
        self.eks.create_pod_identity_association(
            clusterName=CLUSTER,
            namespace="kube-system",
            serviceAccount="karpenter",
            roleArn=f"arn:aws:iam::{NUMBER}:role/{CONTROLLER}",
        )

    @property
    def node_role_arn(self) -> str:
        return f"arn:aws:iam::{NUMBER}:role/{NODES}"

    def add_access_entry(self, kind: str) -> None:
        """Create an access entry for the node role."""
        self.eks.create_access_entry(clusterName=CLUSTER, principalArn=self.node_role_arn, type=kind)

    def delete_access_entry(self) -> None:
        self.eks.delete_access_entry(clusterName=CLUSTER, principalArn=self.node_role_arn)

    def use_aws_auth(self) -> None:
        """Authenticate nodes by the ConfigMap aws-auth only."""
        self._eks_server.clusters[CLUSTER]["accessConfig"] = {"authenticationMode": "CONFIG_MAP"}

    def _instance(self) -> None:
        self.instance = self.run_instance()

    def run_instance(self) -> str:
        """Launch an instance with the tags of the controller."""
        tags = {**OWNED, "karpenter.sh/nodepool": "default", "eks:eks-cluster-name": CLUSTER}
        response = self.ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType="m5.large",
            MinCount=1,
            MaxCount=1,
            SubnetId=self.subnets[0],
            TagSpecifications=tagged("instance", tags),
        )
        self.moto.capacity.age(timedelta(hours=1))
        return str(response["Instances"][0]["InstanceId"])

    def reserve(self, instance_type: str, *, free: int) -> None:
        """Add an open capacity reservation; moto does not support them."""
        self._reservations.append(
            {
                "capacityReservationId": "cr-1",
                "instanceType": instance_type,
                "state": "active",
                "instanceMatchCriteria": "open",
                "totalInstanceCount": "4",
                "availableInstanceCount": str(free),
            }
        )

    def encrypt_by_default(self, key: str) -> None:
        """Encrypt every EBS volume with a key; moto does not store the key."""
        self.ec2.enable_ebs_encryption_by_default()
        self.default_key = key

    def _default_key_response(self, _: bytes) -> tuple[str, bytes]:
        return "text/xml", f"<Response><kmsKeyId>{self.default_key}</kmsKeyId></Response>".encode()

    def _reservations_response(self, _: bytes) -> tuple[str, bytes]:
        items = "".join(
            "<item>" + "".join(f"<{key}>{value}</{key}>" for key, value in reservation.items()) + "</item>"
            for reservation in self._reservations
        )
        body = f"<capacityReservationSet>{items}</capacityReservationSet>"
        return "text/xml", f"<Response>{body}</Response>".encode()


def _resolve(reference: Reference) -> str:
    values = {"account": NUMBER, "region": REGION, "partition": "aws", "dns-suffix": "amazonaws.com"}
    return values[reference.attribute]


def _text(document: dict[str, Any]) -> str:
    return json.dumps(resolve_references(document, _resolve))


class Calls:
    """Counts the AWS calls of a session by operation."""

    def __init__(self, session: boto3.Session) -> None:
        self.counts: Counter[str] = Counter()
        session.events.register("before-call", self._count)

    def _count(self, model: Any, **_: Any) -> None:
        self.counts[model.name] += 1


async def gather_aws(facts: Facts, moto: MotoAws, session: boto3.Session) -> Facts:
    """Return the facts with those from AWS, gathered as by the command."""
    threads = ThreadExecutor(8)
    try:
        aws = AwsSession(
            loop=AsyncioEventLoop(),
            executor=threads,
            random=SystemRandomSource(),
            region=REGION,
            endpoint_url=moto.url,
            retry_policy=_RETRY_POLICY,
            session=session,
        )
        return await add_aws_facts(facts, aws)
    finally:
        threads.close()


def with_aws_facts(facts: Facts, other: Facts) -> Facts:
    """Return facts with the AWS facts of others."""
    return msgspec.structs.replace(facts, aws=other.aws, region=other.region)
