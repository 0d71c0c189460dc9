"""The account of the chaos run answers as moto does.

Calls that moto answers otherwise than AWS are left out: a path prefix of instance profiles,
the second deletion of a launch template, the second termination of an instance.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random  # noqa: TID251 - seeds the account
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from dovetail.simulator.clock import VirtualClock
from tests.support.aws.nodeclass_account import Account
from tests.support.aws.provider_process import shared_session
from tests.support.chaos.account import AwsAccount
from tests.support.chaos.cluster import START
from tests.support.chaos.ec2 import REGION
from tests.support.chaos.network import ErrorRates, Network, VirtualSession
from tests.support.moto.server import MotoAws

TAGS = {"eks:eks-cluster-name": "demo", "karpenter.sh/nodepool": "default"}
FIELDS = {"InstanceType", "ImageId", "Placement", "SubnetId", "Tags", "InstanceLifecycle", "SecurityGroups"}
"""Fields of instances that the adapter reads and that both must agree on."""


class Clients:
    """Clients of one account; ``wait`` lets time pass until it is consistent."""

    def __init__(self, client: Callable[[str], Any], wait: Callable[[], None]) -> None:
        self.ec2, self.iam = client("ec2"), client("iam")
        self.wait = wait


@pytest.fixture
def on_moto(moto: MotoAws) -> Clients:
    account = Account(moto)

    def client(service: str) -> Any:
        return shared_session().client(service, region_name=REGION, endpoint_url=moto.url)

    clients = Clients(client, lambda: None)
    account.network(clients.ec2)
    account.role(clients.iam)
    account.image("ami-x86")
    return clients


@pytest.fixture
def in_memory() -> Clients:
    clock, rates = VirtualClock(start=START), ErrorRates()
    account = AwsAccount(clock, Random(1), rates)  # noqa: S311 - repeatable
    session = VirtualSession(Network(clock, Random(1), rates), account.call, region=REGION)  # noqa: S311

    def wait() -> None:
        clock.run(until=clock.now() + timedelta(seconds=90))

    return Clients(lambda service: session.client(service, config=Config(read_timeout=60)), wait)


def outcome(call: Callable[..., Any], *fields: str, **parameters: Any) -> Any:
    """Return fields of a response, or the error code."""
    try:
        response = call(**parameters)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return {name: response[name] for name in fields}


def encode(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def profiles(clients: Clients) -> list[Any]:
    """Create a profile, add its role, and delete both; each step also twice."""
    iam, name = clients.iam, {"InstanceProfileName": "demo_1"}
    role = {**name, "RoleName": "nodes"}
    steps = [
        outcome(iam.get_instance_profile, **name),
        outcome(iam.create_instance_profile, **name, Path="/a/"),
        outcome(iam.create_instance_profile, **name, Path="/a/"),
        outcome(iam.add_role_to_instance_profile, **name, RoleName="typo"),
        outcome(iam.add_role_to_instance_profile, **role),
        outcome(iam.add_role_to_instance_profile, **role),
    ]
    described = iam.get_instance_profile(**name)["InstanceProfile"]
    listed = iam.list_instance_profiles(PathPrefix="/a/")["InstanceProfiles"]
    steps += [
        (described["InstanceProfileName"], described["Path"], [r["RoleName"] for r in described["Roles"]]),
        [entry["InstanceProfileName"] for entry in listed],
        outcome(iam.delete_instance_profile, **name),
        outcome(iam.remove_role_from_instance_profile, **role),
        outcome(iam.delete_instance_profile, **name),
        outcome(iam.delete_instance_profile, **name),
    ]
    return steps


def template_parameters() -> dict[str, Any]:
    data = {
        "ImageId": "ami-x86",
        "UserData": "IyE=",
        "IamInstanceProfile": {"Name": "demo_1"},
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"]}],
    }
    tags = [{"ResourceType": "launch-template", "Tags": encode(TAGS)}]
    return {"LaunchTemplateName": "template", "LaunchTemplateData": data, "TagSpecifications": tags}


def templates(clients: Clients) -> list[Any]:
    """Create a launch template twice, list it and delete it."""
    ec2, parameters = clients.ec2, template_parameters()
    steps = [
        outcome(ec2.create_launch_template, **parameters),
        outcome(ec2.create_launch_template, **parameters),
    ]
    for value in ("demo", "other"):
        filters = [{"Name": "tag:eks:eks-cluster-name", "Values": [value]}]
        listed = ec2.describe_launch_templates(Filters=filters)["LaunchTemplates"]
        steps.append([(entry["LaunchTemplateName"], entry["Tags"]) for entry in listed])
    steps += [
        outcome(ec2.delete_launch_template, LaunchTemplateName="template"),
        ec2.describe_launch_templates()["LaunchTemplates"],
    ]
    return steps


def fleets(clients: Clients) -> list[Any]:
    """Launch, repeat the request, send another with its token, list, tag and terminate."""
    ec2 = clients.ec2
    clients.iam.create_instance_profile(InstanceProfileName="demo_1", Path="/a/")
    clients.iam.add_role_to_instance_profile(InstanceProfileName="demo_1", RoleName="nodes")
    group = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
    parameters = template_parameters()
    parameters["LaunchTemplateData"]["NetworkInterfaces"][0]["Groups"] = [group]
    ec2.create_launch_template(**parameters)
    clients.wait()
    zone = f"{REGION}a"
    subnet = next(
        entry["SubnetId"] for entry in ec2.describe_subnets()["Subnets"] if entry["AvailabilityZone"] == zone
    )
    overrides = [
        {
            "InstanceType": name,
            "SubnetId": subnet,
            "AvailabilityZone": zone,
            "ImageId": "ami-x86",
            "Priority": price,
        }
        for name, price in (("m5.xlarge", 0.2), ("m5.large", 0.1))
    ]
    request = {
        "Type": "instant",
        "ClientToken": "token",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "template", "Version": "$Latest"},
                "Overrides": overrides,
            }
        ],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 2, "DefaultTargetCapacityType": "spot"},
        "TagSpecifications": [{"ResourceType": "instance", "Tags": encode(TAGS)}],
    }
    missing = [{"LaunchTemplateSpecification": {"LaunchTemplateName": "missing", "Version": "$Latest"}}]
    first = ec2.create_fleet(**request)
    again = ec2.create_fleet(**request)
    ids = sorted(name for entry in first["Instances"] for name in entry["InstanceIds"])
    steps: list[Any] = [
        len(ids),
        sorted({(entry["InstanceType"], entry["Lifecycle"]) for entry in first["Instances"]}),
        first["Instances"] == again["Instances"],
        first["Errors"],
        outcome(
            ec2.create_fleet,
            **{**request, "TagSpecifications": [{"ResourceType": "instance", "Tags": encode({"a": "b"})}]},
        ),
        outcome(ec2.create_fleet, DryRun=True, **{**request, "ClientToken": "dry"}),
        outcome(
            ec2.create_fleet,
            **{
                **request,
                "ClientToken": "other",
                "LaunchTemplateConfigs": [{**missing[0], "Overrides": overrides}],
            },
        ),
    ]
    clients.wait()
    for filters in (
        {"tag-key": ["karpenter.sh/nodepool"], "instance-state-name": ["running"]},
        {"tag:eks:eks-cluster-name": ["demo"], "instance-id": ids},
        {"tag:eks:eks-cluster-name": ["other"]},
        {"instance-state-name": ["stopped"]},
    ):
        steps.append([comparable(entry, subnet, group) for entry in described(ec2, filters)])
    ec2.create_tags(Resources=ids[:1], Tags=encode({"Name": "node"}))
    clients.wait()
    steps.append(len(described(ec2, {"tag:Name": ["node"]})))
    steps.append(outcome(ec2.terminate_instances, InstanceIds=["i-0123456789abcdef0"]))
    ec2.terminate_instances(InstanceIds=ids)
    clients.wait()
    steps.append(len(described(ec2, {"instance-state-name": ["terminated"]})))
    steps.append(len(described(ec2, {"instance-state-name": ["pending", "running"]})))
    return steps


def described(ec2: Any, filters: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    query = [{"Name": name, "Values": values} for name, values in filters.items()]
    response = ec2.describe_instances(Filters=query)
    return [entry for group in response["Reservations"] for entry in group["Instances"]]


def comparable(entry: Mapping[str, Any], subnet: str, group: str) -> dict[str, Any]:
    """Return the fields that the adapter reads, without generated ids."""
    fields = {name: entry[name] for name in sorted(FIELDS) if name in entry}
    fields["SubnetId"] = fields["SubnetId"] == subnet
    fields["SecurityGroups"] = [value["GroupId"] == group for value in fields["SecurityGroups"]]
    fields["Placement"] = fields["Placement"]["AvailabilityZone"]
    fields["Tags"] = sorted((tag["Key"], tag["Value"]) for tag in fields["Tags"])
    return {**fields, "State": entry["State"]["Name"]}


@pytest.mark.parametrize("steps", [profiles, templates, fleets])
def test_both_accounts_answer_the_same_calls_alike(
    on_moto: Clients, in_memory: Clients, steps: Callable[[Clients], list[Any]]
) -> None:
    assert steps(in_memory) == steps(on_moto)
