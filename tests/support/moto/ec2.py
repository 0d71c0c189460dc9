"""moto's EC2 with CreateFleet, refusals, and corrected descriptions.

CreateFleet launches the cheapest overrides first, reports pools without capacity as
errors, and answers a repeated client token with the first response. New instances and
profiles appear after the delays of the ``Behaviour``; terminated instances disappear.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.ec2 import ec2_backends
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response
from moto.ec2.utils import convert_tag_spec
from moto.iam.models import iam_backends

from dovetail.simulator.ec2.capacity import CapacityPools
from tests.support.moto import ec2_refusals as refusals
from tests.support.moto.behaviour import Behaviour, FailureInjector


class Capacity:
    """Capacity of EC2, scripted errors, and all CreateFleet requests and responses."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.failures: Callable[[], FailureInjector] = FailureInjector
        """Return the failures of the server that runs."""
        self.reset()

    def reset(self) -> None:
        self.pools = CapacityPools()
        self.responses: dict[str, tuple[Any, dict[str, Any]]] = {}
        self.errors: dict[tuple[str, str], str] = {}
        """(instance type, zone) → error code; the default is a capacity error."""
        self.max_instances: int | None = None
        """Maximum number of instances that one call launches."""
        self.requests: list[dict[str, Any]] = []
        self.empty_retries = False
        """Answer a repeated client token with an empty response."""
        self.full_subnets: set[str] = set()
        """Subnets without a free address."""
        self.hidden: set[str] = set()
        """Instances that DescribeInstances omits, as EC2 does briefly with new ones."""
        self.spot_prices: dict[tuple[str, str], float] = {}
        """(instance type, zone) → price."""
        self.placement_groups: dict[str, str] = {}
        """Name or id of a placement group → strategy."""
        self.launched: dict[str, float] = {}
        """Instance → when it was launched."""
        self.terminated: dict[str, float] = {}
        """Instance → when it was terminated."""
        self.spot_requests: dict[str, str] = {}
        """Spot request → instance; requests stay behind, closed."""

    @property
    def behaviour(self) -> Behaviour:
        return self.failures().behaviour

    def now(self) -> float:
        return self.failures().clock()

    def is_unknown(self, instance_id: str) -> bool:
        """Return True if EC2 does not know an instance: not yet, or not any more."""
        now = self.now()
        launched, terminated = self.launched.get(instance_id), self.terminated.get(instance_id)
        return (
            instance_id in self.hidden
            or (launched is not None and now - launched < self.behaviour.instance_delay)
            or (terminated is not None and now - terminated > self.behaviour.terminated_visible)
        )

    def age(self, by: timedelta) -> None:
        """Move the launch times of all instances into the past."""
        for account in ec2_backends.values():
            for backend in account.values():
                for instance in backend.all_instances():
                    instance.launch_time -= by

    def release(self, instance_ids: Iterable[str]) -> None:
        for instance_id in instance_ids:
            self.pools.release(instance_id)


CAPACITY = Capacity()
"""Global, as moto has one account per process."""


class Ec2(EC2Response):
    """moto's EC2 responses with additions and corrections."""

    def create_fleet(self) -> ActionResult:
        request = {
            name: self._get_param(name)
            for name in (
                "LaunchTemplateConfigs",
                "TargetCapacitySpecification",
                "SpotOptions",
                "OnDemandOptions",
                "TagSpecifications",
                "Context",
                "ClientToken",
                "Type",
            )
        }
        if CAPACITY.behaviour.limits:
            refusals.check_fleet(request)
        self.error_on_dryrun()
        with CAPACITY.lock:
            CAPACITY.requests.append(request)
            token = request["ClientToken"]
            earlier = CAPACITY.responses.get(token)
            if earlier is not None and earlier[0] != request:
                raise EC2ClientError("IdempotentParameterMismatch", "another request had this token")
            response = self._fleet(request) if earlier is None else earlier[1]
            if earlier is not None and CAPACITY.empty_retries:
                response = {"FleetId": "fleet-1", "Instances": [], "Errors": []}
            if token and earlier is None:
                CAPACITY.responses[token] = (request, response)
        return ActionResult(response)

    def run_instances(self) -> ActionResult:
        """Refuse what EC2 refuses, also in a dry run, before moto handles the rest."""
        named = self._get_param("LaunchTemplate", {})
        data = self._template_data(named["LaunchTemplateName"]) if named.get("LaunchTemplateName") else {}
        own = ("ImageId", "NetworkInterfaces", "CpuOptions", "Placement", "BlockDeviceMappings")
        given = {name: value for name in own if (value := self._get_param(name))}
        if CAPACITY.behaviour.limits:
            refusals.check_tags(self._get_param("TagSpecifications"))
            refusals.check_user_data(self._get_param("UserData"))
        self._check_launch(self._get_param("InstanceType", "m1.small"), {**data, **given})
        return super().run_instances()

    def create_launch_template(self) -> ActionResult:
        if CAPACITY.behaviour.limits:
            refusals.check_template(
                self._get_param("LaunchTemplateName"),
                self._get_param("LaunchTemplateData", {}),
                self._get_param("TagSpecifications"),
            )
        return super().create_launch_template()

    def create_tags(self) -> ActionResult:
        self._check_known(self._get_param("Resources", []))
        if CAPACITY.behaviour.limits:
            for tag in self._get_param("Tags", []):
                refusals.check_tag(tag["Key"], tag.get("Value") or "")
        return super().create_tags()

    def describe_instances(self) -> ActionResult:
        self._check_known(self._get_param("InstanceIds", []))
        response = super().describe_instances()
        response.result["Reservations"] = [
            reservation
            for reservation in response.result["Reservations"]
            if not any(CAPACITY.is_unknown(instance.id) for instance in reservation.instances)
        ]
        return response

    def terminate_instances(self) -> ActionResult:
        """Terminate instances; those that have terminated before are no error."""
        ids = self._get_param("InstanceIds", [])
        self._check_known(ids)
        gone = {"Code": 48, "Name": "terminated"}
        repeated = [
            {"InstanceId": name, "CurrentState": gone, "PreviousState": gone}
            for name in ids
            if name in CAPACITY.terminated
        ]
        self.params["InstanceIds"] = [name for name in ids if name not in CAPACITY.terminated]
        if not self.params["InstanceIds"]:
            return ActionResult({"TerminatingInstances": repeated})
        response = super().terminate_instances()
        response.result["TerminatingInstances"] += repeated
        with CAPACITY.lock:
            CAPACITY.release(ids)
            for instance_id in ids:
                CAPACITY.terminated.setdefault(instance_id, CAPACITY.now())
        return response

    def describe_spot_price_history(self) -> ActionResult:
        wanted = self._get_param("InstanceTypes", [])
        history = [
            {
                "InstanceType": name,
                "AvailabilityZone": zone,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": str(price),
                "Timestamp": datetime.now(UTC),  # noqa: TID251 - a fake EC2 in real time
            }
            for (name, zone), price in sorted(CAPACITY.spot_prices.items())
            if not wanted or name in wanted
        ]
        return ActionResult({"SpotPriceHistory": history})

    def describe_spot_instance_requests(self) -> ActionResult:
        """Describe the one-time requests of fleets; termination closes them."""
        requests = [
            {
                "SpotInstanceRequestId": name,
                "InstanceId": instance_id,
                "Type": "one-time",
                "State": "closed" if instance_id in CAPACITY.terminated else "active",
            }
            for name, instance_id in CAPACITY.spot_requests.items()
        ]
        return ActionResult({"SpotInstanceRequests": requests})

    def describe_security_group_rules(self) -> ActionResult:
        response = super().describe_security_group_rules()
        response.result["SecurityGroupRules"] = [
            _rule(rule) for rule in response.result["SecurityGroupRules"]
        ]
        return response

    def revoke_security_group_ingress(self) -> ActionResult:
        ids = self._get_param("SecurityGroupRuleIds", [])
        if not ids:
            return super().revoke_security_group_ingress()
        for groups in self.ec2_backend.groups.values():
            for group in groups.values():
                group.ingress_rules = [rule for rule in group.ingress_rules if rule.id not in ids]
        return ActionResult({"Return": True})

    def describe_egress_only_internet_gateways(self) -> ActionResult:
        """Return the gateways that have the tags of the filters, which moto ignores."""
        response: Any = super().describe_egress_only_internet_gateways()  # type: ignore[misc]
        gateways = response.result["EgressOnlyInternetGateways"]
        wanted = {
            name.removeprefix("tag:"): values
            for name, values in (self._filters_from_querystring() or {}).items()
            if name.startswith("tag:")
        }
        matching = [
            gateway
            for gateway in gateways
            if all(
                any(tag["key"] == key and tag["value"] in values for tag in gateway.get_tags())
                for key, values in wanted.items()
            )
        ]
        return ActionResult({"EgressOnlyInternetGateways": matching})

    def describe_launch_template_versions(self) -> ActionResult:
        """Omit the tags of the template itself, which moto adds to its data."""
        response = super().describe_launch_template_versions()
        for version in response.result["LaunchTemplateVersions"]:
            data = dict(version["LaunchTemplateData"])
            tags = data.get("TagSpecifications") or []
            kept = [tag for tag in tags if tag["ResourceType"] != "launch-template"]
            version["LaunchTemplateData"] = {**data, "TagSpecifications": kept}
        return response

    def _filters_from_querystring(self) -> Any:
        filters: Any = super()._filters_from_querystring()
        if CAPACITY.behaviour.limits:
            refusals.check_filters(filters)
        return filters

    def _check_known(self, resources: Iterable[str]) -> None:
        unknown = [name for name in resources if CAPACITY.is_unknown(name)]
        if unknown:
            message = f"The instance ID '{', '.join(unknown)}' does not exist"
            raise EC2ClientError("InvalidInstanceID.NotFound", message)

    def _template_data(self, name: str) -> dict[str, Any]:
        template = self.ec2_backend.get_launch_template_by_name(name)
        data: dict[str, Any] = template.get_version(str(template.latest_version_number)).data
        return data

    def _check_launch(self, instance_type: str, data: dict[str, Any]) -> None:
        """Refuse a launch that can never succeed, or not yet."""
        if not CAPACITY.behaviour.unsupported_settings:
            return
        refusals.check_profile(data, self._new_profiles())
        placement = data.get("Placement") or {}
        group = placement.get("GroupId") or placement.get("GroupName") or ""
        strategy = CAPACITY.placement_groups.get(group, "")
        refusals.check_instance_type(instance_type, data, strategy=strategy)
        image = self.ec2_backend.amis.get(data.get("ImageId"))
        root = (image.root_device_name, getattr(image, "root_gib", 0)) if image else ("", 0)
        named = {(disk.get("Ebs") or {}).get("SnapshotId") for disk in data.get("BlockDeviceMappings") or []}
        existing = self.ec2_backend.snapshots
        snapshots = {name: int(existing[name].volume.size) for name in named if name in existing}
        refusals.check_disks(data, snapshots, root)

    def _new_profiles(self) -> set[str]:
        """Return the instance profiles that IAM created too recently for EC2."""
        since = _now() - timedelta(seconds=CAPACITY.behaviour.profile_delay)
        return {
            profile.name
            for backend in iam_backends[DEFAULT_ACCOUNT_ID].values()
            for profile in backend.instance_profiles.values()
            if profile.create_date.replace(tzinfo=UTC) > since
        }

    def _shortage(self, override: dict[str, Any], kind: str, free: dict[str, int]) -> str:
        """Return the error code of an override that cannot be launched now, or empty.

        ``free`` is subnet → addresses, for one request: moto counts all interfaces.
        """
        name, zone, subnet_id = override["InstanceType"], override["AvailabilityZone"], override["SubnetId"]
        if subnet_id not in free:
            free[subnet_id] = self.ec2_backend.get_subnet(subnet_id).available_ip_address_count
        if subnet_id in CAPACITY.full_subnets or free[subnet_id] < 1:
            return "InsufficientFreeAddressesInSubnet"
        if code := self._exceeded_quota(name, kind):
            return code
        if not CAPACITY.pools.has_capacity(name, zone, kind, now=_now()):
            return CAPACITY.errors.get((name, zone), "InsufficientInstanceCapacity")
        return ""

    def _exceeded_quota(self, instance_type: str, kind: str) -> str:
        """Return the error code if one more instance exceeds a quota, or empty."""
        behaviour = CAPACITY.behaviour
        quota = behaviour.max_spot_instances if kind == "spot" else behaviour.max_on_demand_vcpus
        if quota is None:
            return ""
        running = [instance for instance in self.ec2_backend.all_instances() if instance.state == "running"]
        if kind == "spot":
            used = sum(instance.lifecycle == "spot" for instance in running)
            return "MaxSpotInstanceCountExceeded" if used + 1 > quota else ""
        used = sum(_vcpus(instance.instance_type) for instance in running if instance.lifecycle != "spot")
        return "VcpuLimitExceeded" if used + _vcpus(instance_type) > quota else ""

    def _fleet(self, request: dict[str, Any]) -> dict[str, Any]:
        target = request["TargetCapacitySpecification"]
        kind = target["DefaultTargetCapacityType"]
        count = int(target["TotalTargetCapacity"])
        if CAPACITY.max_instances is not None:
            count = min(count, CAPACITY.max_instances)
        tags = convert_tag_spec(request["TagSpecifications"] or [])
        launched: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        free: dict[str, int] = {}
        for template, overrides in sorted(self._overrides(request), key=_price):
            name, zone = overrides["InstanceType"], overrides["AvailabilityZone"]
            shown = {"LaunchTemplateAndOverrides": {**template[0], "Overrides": overrides}}
            try:
                self._check_launch(name, {**template[1], "ImageId": overrides.get("ImageId")})
            except EC2ClientError as error:
                errors.append({**shown, "ErrorCode": error.code, "ErrorMessage": error.message})
                continue
            drawn = CAPACITY.failures().shortage(name, zone, kind)
            code = drawn.code if drawn is not None else ""
            while count and not code and not (code := self._shortage(overrides, kind, free)):
                instance = self._run(template[1], overrides, kind, tags)
                free[overrides["SubnetId"]] -= 1
                CAPACITY.pools.allocate(instance.id, name, zone, kind, now=_now())
                CAPACITY.launched[instance.id] = CAPACITY.now()
                if kind == "spot":
                    instance.spot_instance_request_id = f"sir-{instance.id.removeprefix('i-')}"
                    CAPACITY.spot_requests[instance.spot_instance_request_id] = instance.id
                launched.append(
                    {
                        **shown,
                        "InstanceIds": [instance.id],
                        "InstanceType": name,
                        "Lifecycle": "spot" if kind == "spot" else "on-demand",
                    }
                )
                count -= 1
            if not count:
                break
            errors.append({**shown, "ErrorCode": code, "ErrorMessage": f"no {name} in {zone}"})
        return {"FleetId": "fleet-1", "Instances": launched, "Errors": errors}

    def _overrides(self, request: dict[str, Any]) -> Iterator[Any]:
        for config in request["LaunchTemplateConfigs"]:
            named = config["LaunchTemplateSpecification"]
            data = self._template_data(named["LaunchTemplateName"])
            for overrides in config["Overrides"]:
                yield ({"LaunchTemplateSpecification": named}, data), overrides

    def _run(self, data: dict[str, Any], overrides: dict[str, Any], kind: str, tags: dict[str, Any]) -> Any:
        options: dict[str, Any] = {"metadata_options": data.get("MetadataOptions", {})}
        if data.get("BlockDeviceMappings"):
            disks = data["BlockDeviceMappings"]
            options["block_device_mappings"] = [_deleted_on_termination(disk) for disk in disks]
        interfaces = data.get("NetworkInterfaces", [])[:1]
        groups = [group for interface in interfaces for group in interface.get("Groups", [])]
        reservation = self.ec2_backend.run_instances(
            overrides.get("ImageId") or data["ImageId"],
            1,
            data.get("UserData"),
            [],
            instance_type=overrides["InstanceType"],
            is_instance_type_default=False,
            region_name=self.region,
            subnet_id=overrides["SubnetId"],
            security_group_ids=groups,
            tags=tags,
            lifecycle="spot" if kind == "spot" else None,
            **options,
        )
        instance = reservation.instances[0]
        spec = data.get("CapacityReservationSpecification", {})
        reservation_id = spec.get("CapacityReservationTarget", {}).get("CapacityReservationId")
        if reservation_id:
            instance.capacity_reservation_id = reservation_id
            instance.capacity_reservation_specification = spec
        for interface in instance.nics.values():
            # Termination releases the address, as in EC2.
            interface.delete_on_termination = True
        return instance


def _price(entry: Any) -> tuple[float, str, str]:
    overrides = entry[1]
    return (float(overrides.get("Priority", 0)), overrides["InstanceType"], overrides["AvailabilityZone"])


def _vcpus(instance_type: str) -> int:
    return int(INSTANCE_TYPES[instance_type]["VCpuInfo"]["DefaultVCpus"])


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - a fake EC2 in real time


def _deleted_on_termination(disk: dict[str, Any]) -> dict[str, Any]:
    """Return a disk that is deleted with its instance by default, as in EC2."""
    return {**disk, "Ebs": {"DeleteOnTermination": True, **disk["Ebs"]}} if "Ebs" in disk else disk


def _rule(rule: Any) -> dict[str, Any]:
    source = rule.source_group or {}
    return {
        "SecurityGroupRuleId": rule.id,
        "GroupId": rule.group_id,
        "IsEgress": rule.is_egress,
        "IpProtocol": rule.ip_protocol,
        "FromPort": rule.from_port,
        "ToPort": rule.to_port,
        "CidrIpv4": rule.cidr_ipv4,
        "ReferencedGroupInfo": {"GroupId": source["GroupId"]} if source else None,
        "Description": rule.description or source.get("Description"),
        "Tags": rule.get_tags(),
    }
