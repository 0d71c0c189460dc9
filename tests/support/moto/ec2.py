"""moto's EC2 with CreateFleet, and with corrected descriptions.

CreateFleet launches the cheapest overrides first, reports pools without capacity as
errors, and answers a repeated client token with the first response.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2 import ec2_backends
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.ec2.utils import convert_tag_spec

from dovetail.simulator.ec2.capacity import CapacityPools
from tests.support.moto.behaviour import FailureInjector


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
        self.error_on_dryrun()
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

    def describe_instances(self) -> ActionResult:
        response = super().describe_instances()
        response.result["Reservations"] = [
            reservation
            for reservation in response.result["Reservations"]
            if not CAPACITY.hidden & {instance.id for instance in reservation.instances}
        ]
        return response

    def terminate_instances(self) -> ActionResult:
        response = super().terminate_instances()
        with CAPACITY.lock:
            CAPACITY.release(self._get_param("InstanceIds", []))
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

    def describe_launch_template_versions(self) -> ActionResult:
        """Omit the tags of the template itself, which moto adds to its data."""
        response = super().describe_launch_template_versions()
        for version in response.result["LaunchTemplateVersions"]:
            data = dict(version["LaunchTemplateData"])
            tags = data.get("TagSpecifications") or []
            kept = [tag for tag in tags if tag["ResourceType"] != "launch-template"]
            version["LaunchTemplateData"] = {**data, "TagSpecifications": kept}
        return response

    def _fleet(self, request: dict[str, Any]) -> dict[str, Any]:
        target = request["TargetCapacitySpecification"]
        kind = target["DefaultTargetCapacityType"]
        count = int(target["TotalTargetCapacity"])
        if CAPACITY.max_instances is not None:
            count = min(count, CAPACITY.max_instances)
        tags = convert_tag_spec(request["TagSpecifications"] or [])
        launched: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        for template, overrides in sorted(self._overrides(request), key=_price):
            name, zone = overrides["InstanceType"], overrides["AvailabilityZone"]
            shown = {"LaunchTemplateAndOverrides": {**template[0], "Overrides": overrides}}
            is_full = overrides["SubnetId"] in CAPACITY.full_subnets
            shortage = CAPACITY.failures().shortage(name, zone, kind)
            while (
                count
                and not is_full
                and not shortage
                and CAPACITY.pools.has_capacity(name, zone, kind, now=_now())
            ):
                instance = self._run(template[1], overrides, kind, tags)
                CAPACITY.pools.allocate(instance.id, name, zone, kind, now=_now())
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
            code = CAPACITY.errors.get((name, zone), "InsufficientInstanceCapacity")
            if shortage is not None:
                code = shortage.code
            if is_full:
                code = "InsufficientFreeAddressesInSubnet"
            errors.append({**shown, "ErrorCode": code, "ErrorMessage": f"no {name} in {zone}"})
        return {"FleetId": "fleet-1", "Instances": launched, "Errors": errors}

    def _overrides(self, request: dict[str, Any]) -> Iterator[Any]:
        for config in request["LaunchTemplateConfigs"]:
            named = config["LaunchTemplateSpecification"]
            template = self.ec2_backend.get_launch_template_by_name(named["LaunchTemplateName"])
            data = template.get_version(str(template.latest_version_number)).data
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
