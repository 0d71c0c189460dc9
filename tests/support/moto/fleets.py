"""CreateFleet as EC2 does it: cheapest first, sold-out pools as errors, no token twice."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2 import ec2_backends
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.ec2.utils import convert_tag_spec

from dovetail.simulator.ec2.capacity import Stock


class Shop:
    """What EC2 has left, what it has answered to which token, and what launches said."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.reset()

    def reset(self) -> None:
        self.stock = Stock()
        self.answers: dict[str, tuple[Any, dict[str, Any]]] = {}
        self.errors: dict[tuple[str, str], str] = {}
        """(instance type, zone) → the error code instead of the usual one."""
        self.at_most: int | None = None
        """How many instances one call returns at most."""
        self.requests: list[dict[str, Any]] = []
        self.mute = False
        """Whether a token that is known is answered with nothing."""
        self.full_subnets: set[str] = set()
        """Those in which EC2 has no address left."""
        self.hidden: set[str] = set()
        """Instances that descriptions leave out, as EC2 does with the newest for a moment."""
        self.spot_prices: dict[tuple[str, str], float] = {}
        """(instance type, zone) → price."""

    def age(self, by: timedelta) -> None:
        """Have all instances be older than they are."""
        for account in ec2_backends.values():
            for backend in account.values():
                for one in backend.all_instances():
                    one.launch_time -= by

    def gone(self, instance_ids: Iterable[str]) -> None:
        for one in instance_ids:
            self.stock.give_back(one)


SHOP = Shop()
"""moto itself has one account for the whole process, and so have we."""


class Ec2(EC2Response):
    """moto's EC2, with what launching needs beyond it."""

    def create_fleet(self) -> ActionResult:
        self.error_on_dryrun()
        asked = {
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
        with SHOP.lock:
            SHOP.requests.append(asked)
            token = asked["ClientToken"]
            known = SHOP.answers.get(token)
            if known is not None and known[0] != asked:
                raise EC2ClientError(
                    "IdempotentParameterMismatch", "another request had this token"
                )
            answer = self._fleet(asked) if known is None else known[1]
            if known is not None and SHOP.mute:
                answer = {"FleetId": "fleet-1", "Instances": [], "Errors": []}
            if token and known is None:
                SHOP.answers[token] = (asked, answer)
        return ActionResult(answer)

    def describe_instances(self) -> ActionResult:
        answer = super().describe_instances()
        answer.result["Reservations"] = [
            one
            for one in answer.result["Reservations"]
            if not SHOP.hidden & {instance.id for instance in one.instances}
        ]
        return answer

    def terminate_instances(self) -> ActionResult:
        answer = super().terminate_instances()
        with SHOP.lock:
            SHOP.gone(self._get_param("InstanceIds", []))
        return answer

    def describe_spot_price_history(self) -> ActionResult:
        wanted = self._get_param("InstanceTypes", [])
        history = [
            {
                "InstanceType": name,
                "AvailabilityZone": zone,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": str(price),
                "Timestamp": datetime.now(UTC),  # noqa: TID251 - a stand-in for EC2 has real time
            }
            for (name, zone), price in sorted(SHOP.spot_prices.items())
            if not wanted or name in wanted
        ]
        return ActionResult({"SpotPriceHistory": history})

    def _fleet(self, asked: dict[str, Any]) -> dict[str, Any]:
        target = asked["TargetCapacitySpecification"]
        kind = target["DefaultTargetCapacityType"]
        many = int(target["TotalTargetCapacity"])
        if SHOP.at_most is not None:
            many = min(many, SHOP.at_most)
        tags = convert_tag_spec(asked["TagSpecifications"] or [])
        bought: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        for template, overrides in sorted(self._overrides(asked), key=_price):
            name, zone = overrides["InstanceType"], overrides["AvailabilityZone"]
            shown = {"LaunchTemplateAndOverrides": {**template[0], "Overrides": overrides}}
            is_full = overrides["SubnetId"] in SHOP.full_subnets
            while many and not is_full and SHOP.stock.has(name, zone, kind, now=_now()):
                instance = self._run(template[1], overrides, kind, tags)
                SHOP.stock.take(instance.id, name, zone, kind, now=_now())
                bought.append(
                    {
                        **shown,
                        "InstanceIds": [instance.id],
                        "InstanceType": name,
                        "Lifecycle": "spot" if kind == "spot" else "on-demand",
                    }
                )
                many -= 1
            if not many:
                break
            code = SHOP.errors.get((name, zone), "InsufficientInstanceCapacity")
            if is_full:
                code = "InsufficientFreeAddressesInSubnet"
            errors.append({**shown, "ErrorCode": code, "ErrorMessage": f"no {name} in {zone}"})
        return {"FleetId": "fleet-1", "Instances": bought, "Errors": errors}

    def _overrides(self, asked: dict[str, Any]) -> Iterator[Any]:
        for config in asked["LaunchTemplateConfigs"]:
            named = config["LaunchTemplateSpecification"]
            template = self.ec2_backend.get_launch_template_by_name(named["LaunchTemplateName"])
            data = template.get_version(str(template.latest_version_number)).data
            for overrides in config["Overrides"]:
                yield ({"LaunchTemplateSpecification": named}, data), overrides

    def _run(
        self, data: dict[str, Any], overrides: dict[str, Any], kind: str, tags: dict[str, Any]
    ) -> Any:
        options: dict[str, Any] = {"metadata_options": data.get("MetadataOptions", {})}
        if data.get("BlockDeviceMappings"):
            disks = data["BlockDeviceMappings"]
            options["block_device_mappings"] = [_made_with_a_machine(one) for one in disks]
        groups = [
            group
            for one in data.get("NetworkInterfaces", [])[:1]
            for group in one.get("Groups", [])
        ]
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
        asked = data.get("CapacityReservationSpecification", {})
        held = asked.get("CapacityReservationTarget", {}).get("CapacityReservationId")
        if held:
            instance.capacity_reservation_id = held
            instance.capacity_reservation_specification = asked
        for interface in instance.nics.values():
            # So that terminating gives the address back, as EC2 does.
            interface.delete_on_termination = True
        return instance


def _price(one: Any) -> tuple[float, str, str]:
    overrides = one[1]
    return (
        float(overrides.get("Priority", 0)),
        overrides["InstanceType"],
        overrides["AvailabilityZone"],
    )


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - a stand-in for EC2 has real time


def _made_with_a_machine(disk: dict[str, Any]) -> dict[str, Any]:
    """Return a disk that goes with its machine unless somebody says otherwise, as in EC2."""
    return {**disk, "Ebs": {"DeleteOnTermination": True, **disk["Ebs"]}} if "Ebs" in disk else disk
