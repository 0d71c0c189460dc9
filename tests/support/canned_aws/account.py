"""An account with fixed contents: VPC, AMIs, reservations, placement groups."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

import msgspec
from botocore import xform_name

from tests.support.canned_aws.instance_types import ZONES, PricedType, priced_types
from tests.support.canned_aws.wire import AwsRequest, ErrorResponse

Params = Mapping[str, Any]
Resource = dict[str, Any]
ACCOUNT = "123456789012"
CLUSTER = "rec"
_CREATED = datetime(2026, 1, 1, tzinfo=UTC)
_DISCOVERY = {"karpenter.sh/discovery": CLUSTER}
_PRICE_QUERIES = {"Compute Instance": False, "Compute Instance (bare metal)": True}
_CACHED = (
    "DescribeInstanceTypes",
    "DescribeInstanceTypeOfferings",
    "DescribeSpotPriceHistory",
    "GetProducts",
)
_FILTER_FIELDS = {
    "subnet-id": "SubnetId",
    "group-id": "GroupId",
    "group-name": "GroupName",
    "image-id": "ImageId",
    "name": "Name",
    "state": "State",
    "owner-id": "OwnerId",
    "instance-match-criteria": "InstanceMatchCriteria",
    "instance-id": "InstanceId",
    "instance-state-name": "State",
}


class FleetErrors(msgspec.Struct, kw_only=True):
    """Errors of the next CreateFleet calls: one code per override, in turn."""

    codes: Sequence[str] = ()
    times: int = 0
    only: str = ""
    """Capacity type of the calls that fail; empty for all."""


class CannedAccount:
    """State and answers; ``answer`` calls the method named like the operation."""

    def __init__(
        self,
        *,
        whole_catalog: bool = False,
        ipv6: bool = False,
        fleet_errors: FleetErrors | None = None,
        messages: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._types = priced_types(whole_catalog=whole_catalog)
        self._whole_catalog = whole_catalog
        self._ipv6 = ipv6
        self._fleet_errors = fleet_errors or FleetErrors()
        self._messages = list(messages)
        self._images = {image["ImageId"]: image for image in _own_images()}
        self._templates: dict[str, Resource] = {}
        self._profiles: dict[str, Resource] = {}
        self._instances: dict[str, Resource] = {}

    def answer(self, request: AwsRequest) -> Mapping[str, Any]:
        if request.params.get("DryRun"):
            raise ErrorResponse("DryRunOperation", "the request would have succeeded", status=412)
        operation: Callable[[Params], Mapping[str, Any]] | None = getattr(
            self, xform_name(request.operation), None
        )
        if operation is None:
            raise ErrorResponse("InvalidAction", f"{request.operation} is not in the canned account")
        return operation(request.params)

    def cache_key(self, request: AwsRequest) -> object | None:
        if request.operation not in _CACHED or request.params.get("DryRun"):
            return None
        metal = "bare metal" in json.dumps(request.params)
        return request.operation, self._whole_catalog, metal, request.params.get("NextToken")

    # Network, images and cluster.

    def describe_subnets(self, params: Params) -> Resource:
        free = (("a", "a", 200), ("b", "b", 240), ("c", "c", 100), ("a2", "a", 90))
        subnets = [
            {
                "SubnetId": f"subnet-{number:016}",
                "AvailabilityZone": f"us-west-2{zone}",
                "AvailabilityZoneId": ZONES[f"us-west-2{zone}"],
                "AvailableIpAddressCount": count,
                "State": "available",
                "VpcId": "vpc-0000000000000001",
                "Tags": _encode_tags({**_DISCOVERY, "Name": name}),
            }
            for number, (name, zone, count) in enumerate(free, 1)
        ]
        return {"Subnets": _select(subnets, params)}

    def describe_security_groups(self, params: Params) -> Resource:
        tags = {"nodes": _DISCOVERY, "shared": _DISCOVERY, "efa": {"use": "efa"}}
        groups = [
            {"GroupId": f"sg-{number:016}", "GroupName": name, "Tags": _encode_tags(of_group)}
            for number, (name, of_group) in enumerate(tags.items(), 1)
        ]
        return {"SecurityGroups": _select(groups, params)}

    def describe_images(self, params: Params) -> Resource:
        return {"Images": _select(list(self._images.values()), params)}

    def get_parameter(self, params: Params) -> Resource:
        name = params["Name"]
        image_id = f"ami-{sha256(name.encode()).hexdigest()[:17]}"
        arch = "arm64" if "arm64" in name else "x86_64"
        self._images[image_id] = _image(image_id, name.strip("/").replace("/", "-"), arch)
        return {"Parameter": {"Name": name, "Type": "String", "Value": image_id}}

    def describe_cluster(self, params: Params) -> Resource:
        if params["name"] != CLUSTER:
            raise ErrorResponse("ResourceNotFoundException", "no such cluster", status=404)
        network = {"serviceIpv4Cidr": "10.100.0.0/16", "ipFamily": "ipv4"}
        if self._ipv6:
            network = {"serviceIpv6Cidr": "fd30:1c53:5f8a::/108", "ipFamily": "ipv6"}
        return {
            "cluster": {
                "name": CLUSTER,
                "arn": f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/{CLUSTER}",
                "endpoint": "https://rec.example.com",
                "version": "1.34",
                "certificateAuthority": {"data": "Y2EtYnVuZGxlCg=="},
                "kubernetesNetworkConfig": network,
            }
        }

    def get_caller_identity(self, _: Params) -> Resource:
        return {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:role/controller", "UserId": "AROA"}

    def describe_availability_zones(self, _: Params) -> Resource:
        raise ErrorResponse("UnauthorizedOperation", "Karpenter's policy does not allow it", status=403)

    def describe_capacity_reservations(self, params: Params) -> Resource:
        ids = params.get("CapacityReservationIds")
        if ids is None:
            return {"CapacityReservations": _select(_RESERVATIONS[:_LISTED_RESERVATIONS], params)}
        by_id = [entry for entry in _RESERVATIONS if entry["CapacityReservationId"] in ids]
        return {"CapacityReservations": _select(by_id, params)}

    def describe_placement_groups(self, params: Params) -> Resource:
        names, ids = params.get("GroupNames", ()), params.get("GroupIds", ())
        return {
            "PlacementGroups": [
                group for group in _GROUPS if group["GroupName"] in names or group["GroupId"] in ids
            ]
        }

    # Instance types and prices.

    def describe_instance_types(self, _: Params) -> Resource:
        return {"InstanceTypes": [priced.description for priced in self._types]}

    def describe_instance_type_offerings(self, _: Params) -> Resource:
        return {
            "InstanceTypeOfferings": [
                {"InstanceType": priced.name, "LocationType": "availability-zone", "Location": zone}
                for priced in self._types
                for zone in priced.zones
            ]
        }

    def describe_spot_price_history(self, _: Params) -> Resource:
        return {
            "SpotPriceHistory": [
                {
                    "InstanceType": priced.name,
                    "AvailabilityZone": zone,
                    "ProductDescription": "Linux/UNIX",
                    "SpotPrice": price,
                    "Timestamp": _CREATED,
                }
                for priced in self._types
                for zone, price in priced.spot.items()
            ]
        }

    def get_products(self, params: Params) -> Resource:
        fields = {entry["Field"]: entry["Value"] for entry in params["Filters"]}
        metal = _PRICE_QUERIES[fields["productFamily"]]
        return {
            "PriceList": [
                _product(priced) for priced in self._types if priced.description["BareMetal"] == metal
            ]
        }

    # Instance profiles.

    def get_instance_profile(self, params: Params) -> Resource:
        return {"InstanceProfile": self._profile(params)}

    def create_instance_profile(self, params: Params) -> Resource:
        name = params["InstanceProfileName"]
        self._profiles[name] = {
            "InstanceProfileName": name,
            "InstanceProfileId": name,
            "Arn": f"arn:aws:iam::{ACCOUNT}:instance-profile/{name}",
            "Path": params.get("Path", "/"),
            "Tags": params.get("Tags", []),
            "Roles": [],
            "CreateDate": _CREATED,
        }
        return {"InstanceProfile": self._profiles[name]}

    def add_role_to_instance_profile(self, params: Params) -> Resource:
        name = params["RoleName"]
        role = {"RoleName": name, "RoleId": name, "Path": "/", "CreateDate": _CREATED}
        self._profile(params)["Roles"] = [{**role, "Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}"}]
        return {}

    def remove_role_from_instance_profile(self, params: Params) -> Resource:
        self._profile(params)["Roles"] = []
        return {}

    def delete_instance_profile(self, params: Params) -> Resource:
        del self._profiles[self._profile(params)["InstanceProfileName"]]
        return {}

    def list_instance_profiles(self, params: Params) -> Resource:
        prefix = params.get("PathPrefix", "/")
        selected = [profile for profile in self._profiles.values() if profile["Path"].startswith(prefix)]
        return {"InstanceProfiles": selected, "IsTruncated": False}

    def _profile(self, params: Params) -> Resource:
        profile = self._profiles.get(params["InstanceProfileName"])
        if profile is None:
            raise ErrorResponse("NoSuchEntity", "no such instance profile", status=404)
        return profile

    # Launch templates and instances.

    def create_launch_template(self, params: Params) -> Resource:
        name = params["LaunchTemplateName"]
        if name in self._templates:
            raise ErrorResponse("InvalidLaunchTemplateName.AlreadyExistsException")
        template = {"LaunchTemplateName": name, "LaunchTemplateId": f"lt-{len(self._templates):017}"}
        tags = params["TagSpecifications"][0]["Tags"]
        self._templates[name] = {**template, "Tags": tags, "data": params["LaunchTemplateData"]}
        return {"LaunchTemplate": {**template, "Tags": tags}}

    def describe_launch_templates(self, params: Params) -> Resource:
        return {"LaunchTemplates": _select(list(self._templates.values()), params)}

    def delete_launch_template(self, params: Params) -> Resource:
        template = self._templates.pop(params["LaunchTemplateName"], None)
        if template is None:
            raise ErrorResponse("InvalidLaunchTemplateName.NotFoundException")
        return {"LaunchTemplate": template}

    def create_fleet(self, params: Params) -> Resource:
        """Launch the override with the lowest priority, as often as asked for."""
        target = params["TargetCapacitySpecification"]
        options = [
            (override["Priority"], override["AvailabilityZone"], override["InstanceType"], config, override)
            for config in params["LaunchTemplateConfigs"]
            for override in config["Overrides"]
        ]
        script = self._fleet_errors
        if script.times and script.only in ("", target["DefaultTargetCapacityType"]):
            script.times -= 1
            return {"Errors": _fleet_errors(options, script.codes), "Instances": []}
        *_, config, override = min(options, key=lambda option: option[:3])
        name = config["LaunchTemplateSpecification"]["LaunchTemplateName"]
        ids = [
            self._launch(override, self._templates[name]["data"], params)
            for _ in range(target["TotalTargetCapacity"])
        ]
        return {
            "FleetId": "fleet-1",
            "Errors": [],
            "Instances": [
                {
                    "InstanceIds": ids,
                    "InstanceType": override["InstanceType"],
                    "LaunchTemplateAndOverrides": {"Overrides": override},
                    "Lifecycle": "spot" if target["DefaultTargetCapacityType"] == "spot" else "on-demand",
                }
            ],
        }

    def _launch(self, override: Params, template: Params, params: Params) -> str:
        number = len(self._instances)
        instance_id = f"i-{sha256(f'{params}{number}'.encode()).hexdigest()[:17]}"
        preference = template.get("CapacityReservationSpecification", {})
        partition = template.get("Placement", {}).get("PartitionNumber")
        tags = next(
            spec["Tags"] for spec in params["TagSpecifications"] if spec["ResourceType"] == "instance"
        )
        self._instances[instance_id] = {
            "InstanceId": instance_id,
            "InstanceType": override["InstanceType"],
            "ImageId": override["ImageId"],
            "SubnetId": override["SubnetId"],
            "LaunchTime": _CREATED,
            "Placement": {"AvailabilityZone": override["AvailabilityZone"]}
            | ({"PartitionNumber": partition} if partition else {}),
            "SecurityGroups": [
                {"GroupId": group} for group in template["NetworkInterfaces"][0].get("Groups", ())
            ],
            "State": {"Name": "running", "Code": 16},
            "Tags": tags,
            "CapacityReservationSpecification": preference,
            **preference.get("CapacityReservationTarget", {}),
        }
        return instance_id

    def describe_instances(self, params: Params) -> Resource:
        selected = _select(list(self._instances.values()), params)
        return {"Reservations": [{"ReservationId": "r-1", "Instances": selected}] if selected else []}

    def describe_instance_status(self, _: Params) -> Resource:
        return {"InstanceStatuses": []}

    def create_tags(self, params: Params) -> Resource:
        for instance_id in params["Resources"]:
            instance = self._instances[instance_id]
            kept = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
            kept |= {tag["Key"]: tag["Value"] for tag in params["Tags"]}
            instance["Tags"] = _encode_tags(kept)
        return {}

    def terminate_instances(self, params: Params) -> Resource:
        for instance_id in params["InstanceIds"]:
            self._instances[instance_id]["State"] = {"Name": "shutting-down", "Code": 32}
        changes = [
            {"InstanceId": instance_id, "CurrentState": {"Name": "shutting-down", "Code": 32}}
            for instance_id in params["InstanceIds"]
        ]
        return {"TerminatingInstances": changes}

    # Queue.

    def get_queue_url(self, params: Params) -> Resource:
        return {"QueueUrl": f"https://sqs.us-west-2.amazonaws.com/{ACCOUNT}/{params['QueueName']}"}

    def receive_message(self, params: Params) -> Resource:
        count = params.get("MaxNumberOfMessages", 1)
        received, self._messages = self._messages[:count], self._messages[count:]
        return {
            "Messages": [
                {"MessageId": name, "ReceiptHandle": f"rh-{name}", "Body": body} for name, body in received
            ]
        }

    def delete_message_batch(self, params: Params) -> Resource:
        return {"Successful": [{"Id": entry["Id"]} for entry in params["Entries"]], "Failed": []}


def _encode_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _image(image_id: str, name: str, arch: str, **more: Any) -> Resource:
    fields = {"ImageId": image_id, "Name": name, "Architecture": arch, "State": "available"}
    return {**fields, "CreationDate": "2026-01-01T00:00:00.000Z", "OwnerId": ACCOUNT, **more}


def _own_images() -> list[Resource]:
    images = (("own-x86-1", "x86_64", 1), ("own-x86-2", "x86_64", 2), ("own-arm-1", "arm64", 1))
    return [
        _image(
            f"ami-own{number:014}",
            name,
            arch,
            CreationDate=f"2026-0{month}-01T00:00:00.000Z",
            Tags=_encode_tags({"team": "a"}),
        )
        for number, (name, arch, month) in enumerate(images, 1)
    ]


def _product(priced: PricedType) -> str:
    """Return an entry of the price list: JSON in a string."""
    dimension = {"priceDimensions": {"d": {"pricePerUnit": {"USD": priced.on_demand}}}}
    attributes = {"instanceType": priced.name}
    return json.dumps({"product": {"attributes": attributes}, "terms": {"OnDemand": {"t": dimension}}})


def _reservation(number: int, instance_type: str, zone: str, available: int, **more: Any) -> Resource:
    return {
        "CapacityReservationId": f"cr-{number:017}",
        "InstanceType": instance_type,
        "AvailabilityZone": zone,
        "OwnerId": ACCOUNT,
        "State": "active",
        "InstanceMatchCriteria": "targeted",
        "ReservationType": "default",
        "TotalInstanceCount": available,
        "AvailableInstanceCount": available,
        "Interruptible": False,
        "Tags": _encode_tags({"use": more.pop("use")}),
        **more,
    }


_RESERVATIONS = (
    _reservation(1, "m5.large", "us-west-2a", 3, use="targeted"),
    _reservation(2, "m5.xlarge", "us-west-2b", 5, use="open", InstanceMatchCriteria="open"),
    _reservation(
        3,
        "p4d.24xlarge",
        "us-west-2a",
        2,
        use="block",
        ReservationType="capacity-block",
        EndDate=datetime(2027, 11, 20, tzinfo=UTC),
    ),
    _reservation(4, "c5.large", "us-west-2a", 3, use="interruptible", Interruptible=True),
)
_LISTED_RESERVATIONS = 3
"""The others are found by id only."""
_GROUPS = (
    {"GroupName": "pg-part", "GroupId": "pg-00000000000000001", "Strategy": "partition", "PartitionCount": 3},
    {"GroupName": "pg-cluster", "GroupId": "pg-00000000000000002", "Strategy": "cluster"},
    {"GroupName": "pg-spread", "GroupId": "pg-00000000000000003", "Strategy": "spread"},
)


def _fleet_errors(options: Sequence[tuple[Any, ...]], codes: Sequence[str]) -> list[Resource]:
    """Return an error per override; the overrides are in order of price."""
    ordered = sorted(options, key=lambda option: option[:3])
    return [
        {
            "ErrorCode": codes[number % len(codes)],
            "ErrorMessage": "scripted",
            "LaunchTemplateAndOverrides": {"Overrides": option[-1]},
        }
        for number, option in enumerate(ordered)
    ]


def _select(resources: Sequence[Resource], params: Params) -> list[Resource]:
    """Return the resources that meet all filters and ids of a Describe request."""
    ids = params.get("InstanceIds")
    return [
        resource
        for resource in resources
        if (ids is None or resource["InstanceId"] in ids)
        and all(_matches(resource, entry) for entry in params.get("Filters", ()))
    ]


def _matches(resource: Resource, entry: Mapping[str, Any]) -> bool:
    name, patterns = entry["Name"], entry["Values"]
    tags = {tag["Key"]: tag["Value"] for tag in resource.get("Tags", ())}
    if name == "tag-key":
        texts = list(tags)
    elif name.startswith("tag:"):
        key = name.removeprefix("tag:")
        texts = [tags[key]] if key in tags else []
    else:
        field = resource[_FILTER_FIELDS[name]]
        texts = [field["Name"] if isinstance(field, dict) else field]
    return any(fnmatchcase(text, pattern) for text in texts for pattern in patterns)
