"""EC2 in virtual time: the operations that the AWS adapter uses.

Launches are exact about client tokens: a repeated token gives the first response, with
other parameters it is an error. Descriptions are eventually consistent: each is answered
by a replica that lags behind by up to ten seconds.
``tests/aws/test_chaos_account.py`` compares the responses with those of moto.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec
from botocore import xform_name

from dovetail.simulator.clock import VirtualClock
from tests.support.chaos.network import AwsApiError, ErrorRates

REGION = "eu-west-1"
ZONES = {f"{REGION}a": "euw1-az1", f"{REGION}b": "euw1-az2", f"{REGION}c": "euw1-az3"}
ACCOUNT = "123456789012"
TYPES_PER_PAGE = 3
"""As many pages for the few types here as EC2 has for all of its types."""
_KEPT_AFTER_TERMINATION = timedelta(hours=1)
_MAX_LAGS = ((0.3, 3.0, 10.0), (60, 30, 10))
"""Seconds that a replica lags behind at most, and how often, in per cent."""
_ADDRESSES = 4000
_HEADERS = {"ResponseMetadata": {"HTTPHeaders": {"date": "Thu, 01 Jan 2026 09:00:00 GMT"}}}
_NO_TEMPLATE = "InvalidLaunchTemplateName.NotFoundException"


class Ec2Instance(msgspec.Struct, kw_only=True, eq=False):
    """An instance, also after its termination."""

    id: str
    instance_type: str
    zone: str
    subnet: str
    image: str
    capacity_type: str
    """``on-demand`` or ``spot``."""
    reservation: str
    groups: tuple[str, ...]
    tags: dict[str, str]
    user_data: str
    launched: datetime
    states: list[tuple[datetime, str]]
    """Since when it is in which state, oldest first."""

    @property
    def is_alive(self) -> bool:
        return self.states[-1][1] in ("pending", "running")

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.zone}/{self.id}"

    @property
    def dns_name(self) -> str:
        number = int(self.id[2:], 16)
        return f"ip-10-{number >> 16 & 255}-{number >> 8 & 255}-{number & 255}.{REGION}.compute.internal"

    def state_at(self, moment: datetime) -> str | None:
        """Return the state at a moment; None before the launch, and long after the end."""
        since, last = self.states[-1]
        if last == "terminated" and moment > since + _KEPT_AFTER_TERMINATION:
            return None
        return next((state for start, state in reversed(self.states) if start <= moment), None)

    def describe(self, state: str) -> dict[str, Any]:
        described: dict[str, Any] = {
            "InstanceId": self.id,
            "ImageId": self.image,
            "InstanceType": self.instance_type,
            "LaunchTime": self.launched,
            "Placement": {"AvailabilityZone": self.zone},
            "PrivateDnsName": self.dns_name,
            "SecurityGroups": [{"GroupId": group} for group in self.groups],
            "State": {"Name": state},
            "SubnetId": self.subnet,
            "Tags": encode_tags(self.tags),
        }
        if self.capacity_type == "spot":
            described["InstanceLifecycle"] = "spot"
        if self.reservation:
            described["CapacityReservationId"] = self.reservation
            described["CapacityReservationSpecification"] = {
                "CapacityReservationPreference": "capacity-reservations-only"
            }
        return described


class LaunchTemplateRecord(msgspec.Struct, kw_only=True):
    """A launch template with its only version."""

    name: str
    data: dict[str, Any]
    tags: dict[str, str]
    created: datetime
    usable: datetime


class Fleet(msgspec.Struct, kw_only=True):
    """A CreateFleet request that took effect."""

    parameters: dict[str, Any]
    response: dict[str, Any]
    instances: list[Ec2Instance]
    at: datetime


class Reservation(msgspec.Struct, kw_only=True):
    """A capacity reservation."""

    id: str
    instance_type: str
    zone: str
    total: int


class Ec2Service:
    """EC2 of one account and region; ``call`` runs an operation."""

    def __init__(
        self,
        clock: VirtualClock,
        random: Random,
        rates: ErrorRates,
        *,
        descriptions: Sequence[Mapping[str, Any]],
        prices: Mapping[str, float],
        profile_usable: Callable[[str], bool],
    ) -> None:
        """``profile_usable``: whether EC2 sees an instance profile of IAM yet."""
        self._clock = clock
        self._random = random
        self._rates = rates
        self._descriptions = descriptions
        self._prices = prices
        self._profile_usable = profile_usable
        self.instances: dict[str, Ec2Instance] = {}
        self.templates: dict[str, LaunchTemplateRecord] = {}
        self.fleets: dict[str, Fleet] = {}
        """Client token → fleet."""
        self.reservations: list[Reservation] = []
        self.no_capacity_errors = 0
        self.on_launch: Callable[[Fleet], None] = lambda _: None
        self.on_state: Callable[[Ec2Instance], None] = lambda _: None

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        method: Callable[[Mapping[str, Any]], dict[str, Any]] = getattr(self, f"_{xform_name(operation)}")
        return method(parameters)

    def alive(self) -> list[Ec2Instance]:
        return [instance for instance in self.instances.values() if instance.is_alive]

    def terminate(self, instance: Ec2Instance) -> None:
        """Terminate an instance, as EC2 does by request or on its own."""
        if not instance.is_alive:
            return
        self._set_state(instance, "shutting-down")
        self._later(self._random.uniform(5, 40), lambda: self._set_state(instance, "terminated"))

    def _set_state(self, instance: Ec2Instance, state: str) -> None:
        instance.states.append((self._clock.now(), state))
        self.on_state(instance)

    def _later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._clock.call_later(timedelta(seconds=seconds), callback)

    def _replica_time(self) -> datetime:
        """Return up to when the replica that answers knows everything."""
        (max_lag,) = self._random.choices(*_MAX_LAGS)
        return self._clock.now() - timedelta(seconds=self._random.uniform(0, max_lag))

    # Instance types and prices.

    def _describe_availability_zones(self, _: Mapping[str, Any]) -> dict[str, Any]:
        zones = [{"ZoneName": name, "ZoneId": zone_id} for name, zone_id in ZONES.items()]
        return {"AvailabilityZones": zones, **_HEADERS}

    def _describe_instance_type_offerings(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        offerings = [
            {"InstanceType": entry["InstanceType"], "LocationType": "availability-zone", "Location": zone}
            for entry in self._descriptions
            for zone in ZONES
        ]
        return _page("InstanceTypeOfferings", offerings, parameters, size=TYPES_PER_PAGE * len(ZONES))

    def _describe_instance_types(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return _page("InstanceTypes", self._descriptions, parameters, size=TYPES_PER_PAGE)

    def _describe_spot_price_history(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        hour = int(self._clock.now().timestamp() // 3600)
        history = [
            {
                "InstanceType": name,
                "AvailabilityZone": zone,
                "ProductDescription": "Linux/UNIX",
                # Prices move every hour: the next process plans with others.
                "SpotPrice": f"{price * (0.3 + (hour * 7 + index) % 5 / 50):.6f}",
                "Timestamp": self._clock.now(),
            }
            for name, price in sorted(self._prices.items())
            for index, zone in enumerate(ZONES)
        ]
        return _page("SpotPriceHistory", history, parameters, size=TYPES_PER_PAGE * len(ZONES))

    # Resources that node classes select.

    def _describe_subnets(self, _: Mapping[str, Any]) -> dict[str, Any]:
        used = [instance.subnet for instance in self.alive()]
        return {
            "Subnets": [
                {
                    "SubnetId": subnet_id(zone),
                    "AvailabilityZone": zone,
                    "AvailabilityZoneId": zone_id,
                    "AvailableIpAddressCount": _ADDRESSES - 10 * used.count(subnet_id(zone)),
                }
                for zone, zone_id in ZONES.items()
            ]
        }

    def _describe_security_groups(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"SecurityGroups": [{"GroupId": "sg-1", "GroupName": "nodes"}]}

    def _describe_images(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        images = {"ami-x86": "x86_64", "ami-arm": "arm64"}
        ids = _filter_values(parameters, "image-id") or images
        return {
            "Images": [
                {
                    "ImageId": image,
                    "Name": f"eks-{images[image]}",
                    "Architecture": images[image],
                    "CreationDate": "2026-01-01T00:00:00.000Z",
                }
                for image in ids
                if image in images
            ]
        }

    def _describe_capacity_reservations(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "CapacityReservations": [
                {
                    "CapacityReservationId": reservation.id,
                    "InstanceType": reservation.instance_type,
                    "AvailabilityZone": reservation.zone,
                    "OwnerId": ACCOUNT,
                    "InstanceMatchCriteria": "targeted",
                    "ReservationType": "default",
                    "AvailableInstanceCount": self._free(reservation),
                    "State": "active",
                }
                for reservation in self.reservations
            ]
        }

    def _free(self, reservation: Reservation) -> int:
        used = sum(
            instance.reservation == reservation.id and instance.states[-1][1] != "terminated"
            for instance in self.instances.values()
        )
        return reservation.total - used

    # Launch templates.

    def _create_launch_template(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        name, now = parameters["LaunchTemplateName"], self._clock.now()
        if name in self.templates:
            raise AwsApiError("InvalidLaunchTemplateName.AlreadyExistsException", f"{name} exists")
        tags = decode_tag_specifications(parameters["TagSpecifications"], "launch-template")
        template = LaunchTemplateRecord(
            name=name,
            data=dict(parameters["LaunchTemplateData"]),
            tags=tags,
            created=now,
            usable=now + timedelta(seconds=self._random.uniform(0, 1)),
        )
        self.templates[name] = template
        return {"LaunchTemplate": _describe_template(template)}

    def _describe_launch_templates(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        described = [
            _describe_template(template)
            for template in self.templates.values()
            if _has_tags(template.tags, parameters)
        ]
        return {"LaunchTemplates": described}

    def _delete_launch_template(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        name = parameters["LaunchTemplateName"]
        template = self.templates.pop(name, None)
        if template is None:
            raise AwsApiError(_NO_TEMPLATE, f"there is no launch template {name}")
        return {"LaunchTemplate": _describe_template(template)}

    # Instances.

    def _create_fleet(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        for config in parameters["LaunchTemplateConfigs"]:
            name = config["LaunchTemplateSpecification"]["LaunchTemplateName"]
            template = self.templates.get(name)
            if template is None or template.usable > self._clock.now():
                raise AwsApiError(_NO_TEMPLATE, f"there is no launch template {name}")
        if parameters.get("DryRun"):
            raise AwsApiError("DryRunOperation", status=412)
        token = parameters["ClientToken"]
        known = self.fleets.get(token)
        if known is not None:
            if known.parameters != parameters:
                raise AwsApiError("IdempotentParameterMismatch", "another request had this client token")
            return deepcopy(known.response)
        fleet = self._launch(parameters)
        self.fleets[token] = fleet
        if fleet.instances:
            self.on_launch(fleet)
        return deepcopy(fleet.response)

    def _launch(self, parameters: Mapping[str, Any]) -> Fleet:
        target = parameters["TargetCapacitySpecification"]
        capacity_type = target["DefaultTargetCapacityType"]
        tags = decode_tag_specifications(parameters["TagSpecifications"], "instance")
        left = int(target["TotalTargetCapacity"])
        is_exhausted = self._random.random() < self._rates.no_capacity
        launched: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        instances: list[Ec2Instance] = []
        for specification, overrides in self._overrides(parameters):
            data = self.templates[specification["LaunchTemplateName"]].data
            entry = {
                "LaunchTemplateAndOverrides": {
                    "LaunchTemplateSpecification": specification,
                    "Overrides": overrides,
                }
            }
            is_missing = is_exhausted or self._random.random() < self._rates.no_capacity
            error = self._find_error(data, is_missing=is_missing, needed=left)
            if error is not None:
                code, message = error
                errors.append({**entry, "ErrorCode": code, "ErrorMessage": message})
                continue
            new = [self._create_instance(data, overrides, capacity_type, tags) for _ in range(left)]
            instances += new
            launched.append(
                {
                    **entry,
                    "InstanceIds": [instance.id for instance in new],
                    "InstanceType": overrides["InstanceType"],
                    "Lifecycle": "spot" if capacity_type == "spot" else "on-demand",
                }
            )
            left = 0
            break
        response = {"FleetId": f"fleet-{len(self.fleets) + 1}", "Instances": launched, "Errors": errors}
        return Fleet(
            parameters=dict(parameters), response=response, instances=instances, at=self._clock.now()
        )

    def _overrides(self, parameters: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        """Return the overrides of a request, cheapest first."""
        pairs = [
            (config["LaunchTemplateSpecification"], overrides)
            for config in parameters["LaunchTemplateConfigs"]
            for overrides in config["Overrides"]
        ]
        return sorted(pairs, key=lambda pair: (pair[1]["Priority"], pair[1]["InstanceType"]))

    def _find_error(
        self, data: Mapping[str, Any], *, is_missing: bool, needed: int
    ) -> tuple[str, str] | None:
        if not self._profile_usable(data["IamInstanceProfile"]["Name"]):
            return "InvalidParameterValue", "Invalid IAM Instance Profile name"
        reservation_id = _reservation_of(data)
        reservation = next((entry for entry in self.reservations if entry.id == reservation_id), None)
        if reservation is not None and self._free(reservation) < needed:
            return "ReservationCapacityExceeded", f"{reservation_id} is full"
        if is_missing:
            self.no_capacity_errors += 1
            return "InsufficientInstanceCapacity", "no capacity"
        return None

    def _create_instance(
        self,
        data: Mapping[str, Any],
        overrides: Mapping[str, Any],
        capacity_type: str,
        tags: Mapping[str, str],
    ) -> Ec2Instance:
        now = self._clock.now()
        instance = Ec2Instance(
            id=f"i-{self._random.getrandbits(68):017x}",
            instance_type=overrides["InstanceType"],
            zone=overrides["AvailabilityZone"],
            subnet=overrides["SubnetId"],
            image=overrides["ImageId"],
            capacity_type=capacity_type,
            reservation=_reservation_of(data),
            groups=tuple(data["NetworkInterfaces"][0]["Groups"]),
            tags=dict(tags),
            user_data=data["UserData"],
            launched=now,
            states=[(now, "pending")],
        )
        self.instances[instance.id] = instance

        def run() -> None:
            if instance.is_alive:
                self._set_state(instance, "running")

        self._later(self._random.uniform(3, 15), run)
        return instance

    def _run_instances(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Only dry runs are used."""
        name = parameters["LaunchTemplate"]["LaunchTemplateName"]
        template = self.templates.get(name)
        if template is None or template.usable > self._clock.now():
            raise AwsApiError(_NO_TEMPLATE, f"there is no launch template {name}")
        if not self._profile_usable(template.data["IamInstanceProfile"]["Name"]):
            raise AwsApiError("InvalidParameterValue", "Invalid IAM Instance Profile name")
        raise AwsApiError("DryRunOperation", status=412)

    def _describe_instances(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        moment = self._replica_time()
        states = _filter_values(parameters, "instance-state-name")
        ids = _filter_values(parameters, "instance-id")
        described = []
        for instance in self.instances.values():
            state = instance.state_at(moment)
            if state is None or (states and state not in states) or (ids and instance.id not in ids):
                continue
            if _has_tags(instance.tags, parameters):
                described.append(instance.describe(state))
        return {"Reservations": [{"Instances": [entry]} for entry in described]}

    def _terminate_instances(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        instances = [self._get(instance_id) for instance_id in parameters["InstanceIds"]]
        for instance in instances:
            self.terminate(instance)
        return {"TerminatingInstances": [{"InstanceId": instance.id} for instance in instances]}

    def _create_tags(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        tags = {tag["Key"]: tag["Value"] for tag in parameters["Tags"]}
        for instance_id in parameters["Resources"]:
            self._get(instance_id).tags.update(tags)
        return {}

    def _describe_instance_status(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"InstanceStatuses": []}

    def _get(self, instance_id: str) -> Ec2Instance:
        instance = self.instances.get(instance_id)
        if instance is None or instance.state_at(self._clock.now()) is None:
            raise AwsApiError("InvalidInstanceID.NotFound", f"there is no instance {instance_id}")
        return instance


def subnet_id(zone: str) -> str:
    """Return the only subnet of a zone."""
    return f"subnet-{zone[-1]}"


def encode_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def decode_tag_specifications(specifications: Iterable[Mapping[str, Any]], kind: str) -> dict[str, str]:
    """Return the tags for resources of a kind."""
    return {
        tag["Key"]: tag["Value"]
        for specification in specifications
        if specification["ResourceType"] == kind
        for tag in specification["Tags"]
    }


def _page(field: str, entries: Sequence[Any], parameters: Mapping[str, Any], *, size: int) -> dict[str, Any]:
    start = int(parameters.get("NextToken") or 0)
    page: dict[str, Any] = {field: list(entries[start : start + size])}
    return {**page, "NextToken": str(start + size)} if start + size < len(entries) else page


def _filter_values(parameters: Mapping[str, Any], name: str) -> list[str]:
    return [
        value for entry in parameters.get("Filters", ()) if entry["Name"] == name for value in entry["Values"]
    ]


def _has_tags(tags: Mapping[str, str], parameters: Mapping[str, Any]) -> bool:
    for entry in parameters.get("Filters", ()):
        kind, _, key = entry["Name"].partition(":")
        if kind == "tag" and tags.get(key) not in entry["Values"]:
            return False
        if kind == "tag-key" and not tags.keys() & set(entry["Values"]):
            return False
    return True


def _reservation_of(data: Mapping[str, Any]) -> str:
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    reservation_id: str = target.get("CapacityReservationId", "")
    return reservation_id


def _describe_template(template: LaunchTemplateRecord) -> dict[str, Any]:
    return {
        "LaunchTemplateName": template.name,
        "CreateTime": template.created,
        "Tags": encode_tags(template.tags),
    }
