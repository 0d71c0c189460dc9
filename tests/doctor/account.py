"""A healthy account: network, roles, queue, cluster and one bought instance, all in moto."""

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import boto3
import msgspec
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import AWSManagedPolicy, iam_backends

from dovetail.aws.session import Aws, Patience
from dovetail.doctor.facts import Facts
from dovetail.doctor.gather import facts_with_aws
from dovetail.doctor.sources.iam import SPOT_ROLE
from dovetail.eks.desired.interruption_queue import RULES
from dovetail.eks.iam.controller_policies import controller_policies
from dovetail.eks.plan.references import Reference, resolved
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from tests.support.moto.eks import Eks
from tests.support.moto.server import MotoAws

CLUSTER, REGION, NUMBER = "demo", "us-east-1", "123456789012"
NODES, CONTROLLER = "demo-node", "demo-karpenter"
DISCOVERY = {"karpenter.sh/discovery": CLUSTER}
OWNED = {f"kubernetes.io/cluster/{CLUSTER}": "owned"}
_TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
_QUICK = Patience(throttled=1, transient=1, first=timedelta(milliseconds=5))
_MANAGED = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
)
_BEGINNING = "2024-01-01T00:00:00+00:00"


def have_managed_policies() -> None:
    """Have the few of AWS's own policies that nodes need; moto would make a thousand, slowly."""
    backend = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for name in (*_MANAGED, "AmazonEC2ContainerRegistryReadOnly"):
        data = {
            "Arn": f"arn:aws:iam::aws:policy/{name}",
            "Path": "/",
            "DefaultVersionId": "v1",
            "Document": {"Version": "2012-10-17", "Statement": []},
            "CreateDate": _BEGINNING,
            "UpdateDate": _BEGINNING,
        }
        made = AWSManagedPolicy.from_data(name, DEFAULT_ACCOUNT_ID, REGION, data)
        backend.managed_policies[made.arn] = made


def tagged(kind: str, tags: dict[str, str]) -> list[dict[str, Any]]:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed}]


class Account:
    """What AWS has for the cluster; tests break single things of it."""

    def __init__(self, moto: MotoAws, eks: Eks, session: boto3.Session) -> None:
        self.moto, self._eks_server, self._session = moto, eks, session
        moto.door.reset()
        moto.reset()
        moto.door.answering.clear()
        eks.reset()
        self._reserved: list[dict[str, str]] = []
        moto.door.answering["DescribeCapacityReservations"] = self._answer_reservations
        self.default_key = "alias/aws/ebs"
        moto.door.answering["GetEbsDefaultKmsKeyId"] = self._answer_default_key
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
        mine = [{"Name": "vpc-id", "Values": [self.vpc]}]
        table = ec2.describe_route_tables(Filters=mine)["RouteTables"][0]["RouteTableId"]
        self.way_out = {"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0"}
        ec2.create_route(**self.way_out, GatewayId=gateway)
        self.group = self.security_group("nodes", {**DISCOVERY, **OWNED})

    def security_group(self, name: str, tags: dict[str, str]) -> str:
        made = self.ec2.create_security_group(
            VpcId=self.vpc,
            GroupName=name,
            Description=name,
            TagSpecifications=tagged("security-group", tags),
        )
        return str(made["GroupId"])

    def _roles(self) -> None:
        iam = self.iam
        for name in (NODES, CONTROLLER):
            iam.create_role(RoleName=name, AssumeRolePolicyDocument=_TRUST)
        have_managed_policies()
        for policy in _MANAGED:
            iam.attach_role_policy(RoleName=NODES, PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
        iam.create_role(RoleName=SPOT_ROLE, AssumeRolePolicyDocument=_TRUST)
        documents = controller_policies(
            cluster=CLUSTER,
            cluster_arn=f"arn:aws:eks:{REGION}:{NUMBER}:cluster/{CLUSTER}",
            node_role_arn=f"arn:aws:iam::{NUMBER}:role/{NODES}",
            queue_arn=f"arn:aws:sqs:{REGION}:{NUMBER}:{CLUSTER}",
        )
        for name, document in documents.items():
            self.allow(name, resolved(document, _fact))

    def allow(self, name: str, document: dict[str, Any]) -> None:
        """Give the controller a managed policy."""
        made = self.iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(document))
        self.iam.attach_role_policy(RoleName=CONTROLLER, PolicyArn=made["Policy"]["Arn"])

    def write_inline(self) -> None:
        """Give the controller a policy of its role's own."""
        reads = {"Effect": "Allow", "Action": "ec2:DescribeVpcs", "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [reads]})
        self.iam.put_role_policy(RoleName=CONTROLLER, PolicyName="own", PolicyDocument=document)

    def forbid(self, name: str) -> None:
        """Take one of the controller's policies away."""
        arn = f"arn:aws:iam::{NUMBER}:policy/{name}"
        self.iam.detach_role_policy(RoleName=CONTROLLER, PolicyArn=arn)

    def _queue(self) -> None:
        url = self.sqs.create_queue(QueueName=CLUSTER)["QueueUrl"]
        self.queue_url = url
        arn = f"arn:aws:sqs:{REGION}:{NUMBER}:{CLUSTER}"
        for short, source, detail in RULES:
            pattern = {"source": [source], "detail-type": [detail]}
            self.events.put_rule(Name=f"demo-{short}", EventPattern=json.dumps(pattern))
            self.events.put_targets(Rule=f"demo-{short}", Targets=[{"Id": "queue", "Arn": arn}])

    def _cluster(self) -> None:
        self.eks.create_cluster(
            name=CLUSTER,
            roleArn=f"arn:aws:iam::{NUMBER}:role/cluster",
            resourcesVpcConfig={"subnetIds": self.subnets},
            accessConfig={"authenticationMode": "API"},
        )
        self.let_in("EC2_LINUX")
        self.eks.create_pod_identity_association(
            clusterName=CLUSTER,
            namespace="kube-system",
            serviceAccount="karpenter",
            roleArn=f"arn:aws:iam::{NUMBER}:role/{CONTROLLER}",
        )

    @property
    def node_role_arn(self) -> str:
        return f"arn:aws:iam::{NUMBER}:role/{NODES}"

    def let_in(self, kind: str) -> None:
        """Have an access entry for the nodes' role."""
        self.eks.create_access_entry(
            clusterName=CLUSTER, principalArn=self.node_role_arn, type=kind
        )

    def keep_out(self) -> None:
        self.eks.delete_access_entry(clusterName=CLUSTER, principalArn=self.node_role_arn)

    def use_aws_auth(self) -> None:
        """Have the cluster go by its ConfigMap alone."""
        self._eks_server.clusters[CLUSTER]["accessConfig"] = {"authenticationMode": "CONFIG_MAP"}

    def _instance(self) -> None:
        self.instance = self.run_instance()

    def run_instance(self) -> str:
        """Have an instance as the controller buys them."""
        tags = {**OWNED, "karpenter.sh/nodepool": "default", "eks:eks-cluster-name": CLUSTER}
        made = self.ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType="m5.large",
            MinCount=1,
            MaxCount=1,
            SubnetId=self.subnets[0],
            TagSpecifications=tagged("instance", tags),
        )
        self.moto.shop.age(timedelta(hours=1))
        return str(made["Instances"][0]["InstanceId"])

    def reserve(self, kind: str, *, left: int) -> None:
        """Have an open capacity reservation; moto has none."""
        self._reserved.append(
            {
                "capacityReservationId": "cr-1",
                "instanceType": kind,
                "state": "active",
                "instanceMatchCriteria": "open",
                "totalInstanceCount": "4",
                "availableInstanceCount": str(left),
            }
        )

    def encrypt_by_default(self, key: str) -> None:
        """Have EBS encrypt every volume with a key; moto does not know which."""
        self.ec2.enable_ebs_encryption_by_default()
        self.default_key = key

    def _answer_default_key(self, _: bytes) -> tuple[str, bytes]:
        told = f"<kmsKeyId>{self.default_key}</kmsKeyId>"
        return "text/xml", f"<Response>{told}</Response>".encode()

    def _answer_reservations(self, _: bytes) -> tuple[str, bytes]:
        items = "".join(
            "<item>" + "".join(f"<{key}>{value}</{key}>" for key, value in one.items()) + "</item>"
            for one in self._reserved
        )
        told = f"<capacityReservationSet>{items}</capacityReservationSet>"
        return "text/xml", f"<Response>{told}</Response>".encode()


def _fact(reference: Reference) -> str:
    return {"account": NUMBER, "region": REGION, "partition": "aws", "dns-suffix": "aws"}[
        reference.attribute
    ]


class Calls:
    """Counts the operations that a session asks for, as its user names them."""

    def __init__(self, session: boto3.Session) -> None:
        self.made: Counter[str] = Counter()
        session.events.register("before-call", self._note)

    def _note(self, model: Any, **_: Any) -> None:
        self.made[model.name] += 1


async def asked_of_aws(facts: Facts, moto: MotoAws, session: boto3.Session) -> Facts:
    """Return facts with what AWS says, asked as the command asks."""
    threads = ThreadOffload(8)
    try:
        aws = Aws(
            loop=AsyncioLoop(),
            offload=threads,
            chance=RealChance(),
            region=REGION,
            endpoint_url=moto.url,
            patience=_QUICK,
            session=session,
        )
        return await facts_with_aws(facts, aws)
    finally:
        threads.close()


def with_aws_of(facts: Facts, other: Facts) -> Facts:
    """Return facts with what AWS said at another time."""
    return msgspec.structs.replace(facts, aws=other.aws, region=other.region)
