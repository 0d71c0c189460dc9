"""Rules of AWS that the account in memory and moto share: the same calls, the same refusals."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.memory_aws.account import MemoryAccount
from tests.support.memory_aws.landscape import TRUST
from tests.support.moto.account import MotoAccount
from tests.support.moto.server import MotoAws

Client = Callable[[str], Any]
ALLOW = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
DOCUMENT = json.dumps({"Version": "2012-10-17", "Statement": [ALLOW]})
TRUST_TEXT = json.dumps(TRUST)


@pytest.fixture(params=["memory", "moto"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    if request.param == "memory":
        yield MemoryAccount().client
        return
    moto: MotoAws = request.getfixturevalue("moto")
    moto.reset()
    yield MotoAccount(moto).client
    moto.reset()


def refused(call: Callable[..., Any], **parameters: Any) -> str:
    """Return the code of the error response."""
    with pytest.raises(ClientError) as raised:
        call(**parameters)
    return str(raised.value.response["Error"]["Code"])


def a_network(ec2: Any) -> tuple[str, str]:
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24", AvailabilityZone="us-east-1a")
    return vpc, subnet["Subnet"]["SubnetId"]


def a_group(ec2: Any, vpc: str, name: str) -> str:
    return str(ec2.create_security_group(GroupName=name, Description="d", VpcId=vpc)["GroupId"])


def test_vpc_in_use_is_not_deleted(client: Client) -> None:
    vpc, subnet = a_network(client("ec2"))

    assert refused(client("ec2").delete_vpc, VpcId=vpc) == "DependencyViolation"
    client("ec2").delete_subnet(SubnetId=subnet)
    client("ec2").delete_vpc(VpcId=vpc)
    assert refused(client("ec2").delete_vpc, VpcId=vpc) == "InvalidVpcID.NotFound"


@pytest.mark.parametrize(
    ("block", "code"), [("10.0.0.128/25", "InvalidSubnet.Conflict"), ("10.1.0.0/24", "InvalidSubnet.Range")]
)
def test_subnet_must_fit(client: Client, block: str, code: str) -> None:
    vpc, _ = a_network(client("ec2"))
    zone = "us-east-1b"

    assert refused(client("ec2").create_subnet, VpcId=vpc, CidrBlock=block, AvailabilityZone=zone) == code


def test_security_group_rules(client: Client) -> None:
    ec2 = client("ec2")
    vpc, _ = a_network(ec2)
    first, second = a_group(ec2, vpc, "first"), a_group(ec2, vpc, "second")
    pairs = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": second}]}]
    ec2.authorize_security_group_ingress(GroupId=first, IpPermissions=pairs)

    assert (
        refused(ec2.authorize_security_group_ingress, GroupId=first, IpPermissions=pairs)
        == "InvalidPermission.Duplicate"
    )
    assert (
        refused(ec2.create_security_group, GroupName="first", Description="d", VpcId=vpc)
        == "InvalidGroup.Duplicate"
    )
    ec2.delete_security_group(GroupId=first)
    ec2.delete_security_group(GroupId=second)


def test_routes_and_associations(client: Client) -> None:
    ec2 = client("ec2")
    vpc, subnet = a_network(ec2)
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    route = {"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0", "GatewayId": gateway}
    ec2.create_route(**route)
    association = ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)["AssociationId"]

    assert refused(ec2.create_route, **route) == "RouteAlreadyExists"
    assert refused(ec2.delete_internet_gateway, InternetGatewayId=gateway) == "DependencyViolation"
    assert refused(ec2.delete_route_table, RouteTableId=table) == "DependencyViolation"
    ec2.disassociate_route_table(AssociationId=association)
    ec2.delete_route_table(RouteTableId=table)


def test_launch_template_names_are_unique(client: Client) -> None:
    template = {"LaunchTemplateName": "t-t", "LaunchTemplateData": {"EbsOptimized": True}}
    client("ec2").create_launch_template(**template)

    code = refused(client("ec2").create_launch_template, **template)

    assert code == "InvalidLaunchTemplateName.AlreadyExistsException"


def test_role_in_use_is_not_deleted(client: Client) -> None:
    iam = client("iam")
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST_TEXT)
    arn = iam.create_policy(PolicyName="p", PolicyDocument=DOCUMENT)["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="r", PolicyArn=arn)
    iam.create_instance_profile(InstanceProfileName="i")
    iam.add_role_to_instance_profile(InstanceProfileName="i", RoleName="r")

    assert (
        refused(iam.create_role, RoleName="r", AssumeRolePolicyDocument=TRUST_TEXT) == "EntityAlreadyExists"
    )
    assert refused(iam.delete_role, RoleName="r") == "DeleteConflict"
    assert refused(iam.delete_instance_profile, InstanceProfileName="i") == "DeleteConflict"
    iam.remove_role_from_instance_profile(InstanceProfileName="i", RoleName="r")
    iam.detach_role_policy(RoleName="r", PolicyArn=arn)
    iam.delete_role(RoleName="r")
    assert refused(iam.get_role, RoleName="r") == "NoSuchEntity"


def test_policy_has_at_most_five_versions(client: Client) -> None:
    iam = client("iam")
    arn = iam.create_policy(PolicyName="p", PolicyDocument=DOCUMENT)["Policy"]["Arn"]
    version = {"PolicyArn": arn, "PolicyDocument": DOCUMENT, "SetAsDefault": True}
    for _ in range(4):
        iam.create_policy_version(**version)

    assert refused(iam.create_policy_version, **version) == "LimitExceeded"
    default = next(
        entry for entry in iam.list_policy_versions(PolicyArn=arn)["Versions"] if entry["IsDefaultVersion"]
    )
    assert (
        refused(iam.delete_policy_version, PolicyArn=arn, VersionId=default["VersionId"]) == "DeleteConflict"
    )


def test_policy_that_is_not_there_is_not_attached(client: Client) -> None:
    iam = client("iam")
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST_TEXT)
    arn = "arn:aws:iam::123456789012:policy/none"

    assert refused(iam.attach_role_policy, RoleName="r", PolicyArn=arn) == "NoSuchEntity"


def test_queue_rule_and_log_group(client: Client) -> None:
    sqs, events, logs = client("sqs"), client("events"), client("logs")
    sqs.create_queue(QueueName="q", Attributes={"MessageRetentionPeriod": "300"}, tags={"a": "b"})
    events.put_rule(Name="r", EventPattern='{"source": ["aws.ec2"]}', State="ENABLED")
    events.put_targets(Rule="r", Targets=[{"Id": "q", "Arn": "arn:aws:sqs:us-east-1:123456789012:q"}])
    logs.create_log_group(logGroupName="/g")

    assert refused(logs.create_log_group, logGroupName="/g") == "ResourceAlreadyExistsException"
    assert refused(events.delete_rule, Name="r") == "ValidationException"
    url = sqs.list_queues(QueueNamePrefix="q")["QueueUrls"][0]
    sqs.delete_queue(QueueUrl=url)
    assert refused(sqs.list_queue_tags, QueueUrl=url) == "AWS.SimpleQueueService.NonExistentQueue"


def test_what_aws_refuses_and_moto_does_not_is_refused_in_memory() -> None:
    account = MemoryAccount()
    ec2, iam = account.client("ec2"), account.client("iam")
    vpc, subnet = a_network(ec2)
    first, second = a_group(ec2, vpc, "first"), a_group(ec2, vpc, "second")
    pairs = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": second}]}]
    ec2.authorize_security_group_ingress(GroupId=first, IpPermissions=pairs)
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address)
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST_TEXT)
    arn = iam.create_policy(PolicyName="p", PolicyDocument=DOCUMENT)["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="r", PolicyArn=arn)

    assert refused(ec2.delete_security_group, GroupId=second) == "DependencyViolation"
    assert refused(ec2.delete_subnet, SubnetId=subnet) == "DependencyViolation"
    assert refused(ec2.detach_internet_gateway, InternetGatewayId=gateway, VpcId=vpc) == "DependencyViolation"
    assert refused(ec2.release_address, AllocationId=address) == "InvalidIPAddress.InUse"
    assert refused(iam.delete_policy, PolicyArn=arn) == "DeleteConflict"
