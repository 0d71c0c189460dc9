"""An AWS account in virtual time: EC2, and the small services around it."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec
from botocore import xform_name
from moto.ec2.models.instance_types import INSTANCE_TYPES

from dovetail.aws.instancetype.descriptions import decode_instance_type
from dovetail.core.instancetypes.build import build_instance_types
from dovetail.data.bundled import bundled_prices
from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.simulator.clock import VirtualClock
from tests.support.aws.pricelists import METAL, product
from tests.support.chaos.ec2 import ACCOUNT, REGION, ZONES, Ec2Service
from tests.support.chaos.network import AwsApiError, ErrorRates, NotYet

CLUSTER, ROLE, QUEUE = "demo", "nodes", "interruptions"
TYPES = (
    *("c5.large", "c5.xlarge", "c5.2xlarge", "c6g.large", "c6g.xlarge", "c6i.large", "c6i.xlarge"),
    *("m5.large", "m5.xlarge", "m5.2xlarge", "m6g.large", "m6g.xlarge", "m6i.large", "m6i.xlarge"),
    *("r5.large", "r5.xlarge", "r6g.large", "r6i.large", "t3.large", "t3.xlarge", "m5.metal"),
)


class ProfileRecord(msgspec.Struct, kw_only=True):
    """An instance profile."""

    name: str
    path: str
    created: datetime
    usable: datetime
    """From when on EC2 sees it with its role."""
    roles: list[str] = []


class AwsAccount:
    """All services; ``call`` runs an operation of one of them."""

    def __init__(self, clock: VirtualClock, random: Random, rates: ErrorRates) -> None:
        self._clock = clock
        self._random = random
        descriptions = [INSTANCE_TYPES[name] for name in sorted(TYPES)]
        self.instance_types = _build_types(descriptions)
        self.prices = {
            name: min(offering.price for offering in built.offerings)
            for name, built in self.instance_types.items()
        }
        self.ec2 = Ec2Service(
            clock,
            random,
            rates,
            descriptions=descriptions,
            prices=self.prices,
            profile_usable=self._is_profile_usable,
        )
        self.profiles: dict[str, ProfileRecord] = {}
        self._messages: dict[str, tuple[str, datetime]] = {}
        """Receipt handle → body, and from when on it is visible."""

    def call(self, service: str, operation: str, parameters: Mapping[str, Any]) -> Any:
        if service == "ec2":
            return self.ec2.call(operation, parameters)
        method: Callable[[Mapping[str, Any]], Any] = getattr(self, f"_{xform_name(operation)}")
        return method(parameters)

    def send_message(self, body: str) -> None:
        """Send an event to the interruption queue."""
        self._messages[f"{self._random.getrandbits(64):016x}"] = (body, self._clock.now())

    # IAM.

    def _is_profile_usable(self, name: str) -> bool:
        profile = self.profiles.get(name)
        return profile is not None and bool(profile.roles) and profile.usable <= self._clock.now()

    def _profile(self, name: str) -> ProfileRecord:
        if name not in self.profiles:
            raise AwsApiError("NoSuchEntity", f"there is no instance profile {name}", status=404)
        return self.profiles[name]

    def _get_instance_profile(self, parameters: Mapping[str, Any]) -> Any:
        return {"InstanceProfile": _describe_profile(self._profile(parameters["InstanceProfileName"]))}

    def _create_instance_profile(self, parameters: Mapping[str, Any]) -> Any:
        name, now = parameters["InstanceProfileName"], self._clock.now()
        if name in self.profiles:
            raise AwsApiError("EntityAlreadyExists", f"{name} exists", status=409)
        profile = ProfileRecord(name=name, path=parameters["Path"], created=now, usable=now)
        self.profiles[name] = profile
        return {"InstanceProfile": _describe_profile(profile)}

    def _add_role_to_instance_profile(self, parameters: Mapping[str, Any]) -> Any:
        profile = self._profile(parameters["InstanceProfileName"])
        if parameters["RoleName"] != ROLE:
            raise AwsApiError("NoSuchEntity", "there is no such role", status=404)
        if profile.roles:
            message = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1"
            raise AwsApiError("LimitExceeded", message, status=409)
        profile.roles.append(ROLE)
        profile.usable = self._clock.now() + timedelta(seconds=self._random.uniform(1, 12))
        return {}

    def _remove_role_from_instance_profile(self, parameters: Mapping[str, Any]) -> Any:
        profile = self._profile(parameters["InstanceProfileName"])
        if parameters["RoleName"] not in profile.roles:
            raise AwsApiError("NoSuchEntity", "the profile has no such role", status=404)
        profile.roles.remove(parameters["RoleName"])
        return {}

    def _delete_instance_profile(self, parameters: Mapping[str, Any]) -> Any:
        profile = self._profile(parameters["InstanceProfileName"])
        if profile.roles:
            raise AwsApiError("DeleteConflict", "remove the roles first", status=409)
        del self.profiles[profile.name]
        return {}

    def _list_instance_profiles(self, parameters: Mapping[str, Any]) -> Any:
        return {
            "IsTruncated": False,
            "InstanceProfiles": [
                _describe_profile(profile)
                for profile in self.profiles.values()
                if profile.path.startswith(parameters["PathPrefix"])
            ],
        }

    # EKS, STS, SSM and the Pricing API.

    def _describe_cluster(self, _: Mapping[str, Any]) -> Any:
        return {
            "cluster": {
                "name": CLUSTER,
                "arn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{CLUSTER}",
                "endpoint": "https://demo.example.com",
                "version": "1.34",
                "certificateAuthority": {"data": "Y2E="},
                "kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16"},
            }
        }

    def _get_caller_identity(self, _: Mapping[str, Any]) -> Any:
        return {"Account": ACCOUNT, "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/controller/1"}

    def _get_parameter(self, parameters: Mapping[str, Any]) -> Any:
        name = parameters["Name"]
        if "/standard/" not in name:
            raise AwsApiError("ParameterNotFound", name)
        return {"Parameter": {"Name": name, "Value": "ami-arm" if "arm64" in name else "ami-x86"}}

    def _get_products(self, parameters: Mapping[str, Any]) -> Any:
        wants_metal = any(entry["Value"] == METAL for entry in parameters["Filters"])
        products = [
            product(name, f"{price:.6f}")
            for name, price in self.prices.items()
            if wants_metal == name.endswith(".metal")
        ]
        return {"PriceList": products}

    # SQS.

    def _get_queue_url(self, parameters: Mapping[str, Any]) -> Any:
        return {"QueueUrl": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{parameters['QueueName']}"}

    def _receive_message(self, parameters: Mapping[str, Any]) -> Any:
        now = self._clock.now()
        visible = [handle for handle, (_, since) in self._messages.items() if since <= now]
        if not visible and parameters["WaitTimeSeconds"]:
            raise NotYet
        received = visible[: parameters["MaxNumberOfMessages"]]
        hidden_until = now + timedelta(seconds=parameters["VisibilityTimeout"])
        for handle in received:
            self._messages[handle] = (self._messages[handle][0], hidden_until)
        return {
            "Messages": [
                {"MessageId": handle, "ReceiptHandle": handle, "Body": self._messages[handle][0]}
                for handle in received
            ]
        }

    def _delete_message_batch(self, parameters: Mapping[str, Any]) -> Any:
        for entry in parameters["Entries"]:
            self._messages.pop(entry["ReceiptHandle"], None)
        return {"Successful": [{"Id": entry["Id"]} for entry in parameters["Entries"]]}


def _describe_profile(profile: ProfileRecord) -> dict[str, Any]:
    return {
        "InstanceProfileName": profile.name,
        "Path": profile.path,
        "CreateDate": profile.created,
        "Roles": [{"RoleName": role} for role in profile.roles],
    }


def _build_types(descriptions: list[Any]) -> dict[str, InstanceType]:
    offered = {entry["InstanceType"]: frozenset(ZONES) for entry in descriptions}
    built = build_instance_types(
        tuple(decode_instance_type(entry) for entry in descriptions),
        region=Region(name=REGION, zones=FrozenDict(ZONES), offered_zones=FrozenDict(offered)),
        node_class=EC2NodeClass(),
        prices=bundled_prices(),
    )
    return {instance_type.name: instance_type for instance_type in built}
