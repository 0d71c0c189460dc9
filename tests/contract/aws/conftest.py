"""Clients of the emulator without retries, and an account to launch in."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.aws.provider_process import shared_session
from tests.support.moto.server import MotoAws, moto_without_amis

REGION = "eu-west-1"
IMAGE = "ami-12c6146b"


def a_client(moto: MotoAws, service: Any) -> Any:
    config = Config(retries={"total_max_attempts": 1})
    return shared_session().client(service, region_name=REGION, endpoint_url=moto.url, config=config)


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoAws]:
    with moto_without_amis() as running:
        yield running


@pytest.fixture
def ec2(moto: MotoAws) -> Iterator[Any]:
    moto.reset()
    yield a_client(moto, "ec2")
    moto.reset()


class Launchpad(msgspec.Struct, frozen=True, kw_only=True):
    """An account with a subnet, an instance profile, and calls that launch in it."""

    ec2: Any
    subnet: str

    def template(self, name: str = "usual", **data: Any) -> str:
        """Create a launch template."""
        usual = {"ImageId": IMAGE, "IamInstanceProfile": {"Name": "nodes"}}
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={**usual, **data})
        return name

    def dry_run(self, instance_type: str, template: str, **parameters: Any) -> str:
        """Return the error code of a RunInstances dry run."""
        with pytest.raises(ClientError) as raised:
            self.ec2.run_instances(
                DryRun=True,
                MinCount=1,
                MaxCount=1,
                InstanceType=instance_type,
                LaunchTemplate={"LaunchTemplateName": template},
                **parameters,
            )
        return error_code(raised.value)

    def fleet(self, *types: str, count: int = 1, kind: str = "on-demand", **parameters: Any) -> Any:
        """Create a fleet of type instant."""
        overrides = [
            {"InstanceType": name, "SubnetId": self.subnet, "AvailabilityZone": f"{REGION}a"}
            for name in types
        ]
        template = {"LaunchTemplateName": parameters.pop("template", "usual"), "Version": "$Latest"}
        return self.ec2.create_fleet(
            Type=parameters.pop("fleet_type", "instant"),
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": template, "Overrides": overrides}],
            TargetCapacitySpecification={"TotalTargetCapacity": count, "DefaultTargetCapacityType": kind},
            **parameters,
        )


@pytest.fixture
def launchpad(moto: MotoAws, ec2: Any) -> Launchpad:
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/28", AvailabilityZone=f"{REGION}a")
    a_client(moto, "iam").create_instance_profile(InstanceProfileName="nodes")
    return Launchpad(ec2=ec2, subnet=subnet["Subnet"]["SubnetId"])


def error_code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


def launched_ids(response: Any) -> list[str]:
    return [instance_id for group in response["Instances"] for instance_id in group["InstanceIds"]]


def fleet_errors(response: Any) -> list[tuple[str, str]]:
    """Return instance type and error code of each override that was not launched."""
    return [
        (error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"], error["ErrorCode"])
        for error in response["Errors"]
    ]
