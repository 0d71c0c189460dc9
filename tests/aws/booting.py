"""Kubelets for what moto launched, each started by the user data of its machine."""

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from email import message_from_string
from typing import Any

import yaml
from botocore.exceptions import ClientError

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.taints import Effect, Taint
from dovetail.simulator.instance import Machine
from tests.support.living import Cluster

EVERY = 0.15


class Booting:
    """Looks at the account again and again: what runs has a kubelet, what has ended has none."""

    def __init__(self, ec2: Any, cluster: Cluster, types: Mapping[str, InstanceType]) -> None:
        self._ec2 = ec2
        self._cluster = cluster
        self._types = types

    async def run(self) -> None:
        while True:
            try:
                running = await asyncio.to_thread(self._look)
            except ClientError:
                running = None  # The account is throttled, and we with it.
            if running is not None:
                self._boot_and_halt(running)
            await asyncio.sleep(EVERY)

    def _look(self) -> dict[str, dict[str, Any]]:
        """Provider id → instance; user data is added to those that are new."""
        pages = self._ec2.describe_instances(
            Filters=[{"Name": "instance-state-name", "Values": ["running"]}]
        )
        found: dict[str, dict[str, Any]] = {}
        for reservation in pages["Reservations"]:
            for one in reservation["Instances"]:
                zone = one["Placement"]["AvailabilityZone"]
                provider_id = f"aws:///{zone}/{one['InstanceId']}"
                found[provider_id] = one
                if provider_id not in self._cluster.machines:
                    told = self._ec2.describe_instance_attribute(
                        InstanceId=one["InstanceId"], Attribute="userData"
                    )
                    one["UserData"] = b64decode(told["UserData"]["Value"]).decode()
        return found

    def _boot_and_halt(self, running: Mapping[str, dict[str, Any]]) -> None:
        cluster = self._cluster
        for provider_id in sorted(cluster.machines - running.keys()):
            cluster.machines.discard(provider_id)
            cluster.kubelets.halt(provider_id)
        for provider_id in sorted(running.keys() - cluster.machines):
            cluster.machines.add(provider_id)
            cluster.kubelets.boot(self._machine(provider_id, running[provider_id]))

    def _machine(self, provider_id: str, told: Mapping[str, Any]) -> Machine:
        kind, zone = self._types[told["InstanceType"]], told["Placement"]["AvailabilityZone"]
        name = told["PrivateDnsName"]
        labels, taints = read_user_data(told["UserData"])
        return Machine(
            name=name,
            provider_id=provider_id,
            labels=FrozenDict(
                {
                    **labels,
                    label_keys.ARCH: "amd64",
                    label_keys.OS: "linux",
                    label_keys.INSTANCE_TYPE: kind.name,
                    label_keys.ZONE: zone,
                    label_keys.REGION: zone[:-1],
                    label_keys.HOSTNAME: name,
                }
            ),
            taints=taints,
            capacity=kind.capacity.without_zeros(),
            allocatable=kind.allocatable.without_zeros(),
        )


def read_user_data(text: str) -> tuple[dict[str, str], tuple[Taint, ...]]:
    """Return labels and taints, as nodeadm on Amazon Linux 2023 would hand them to a kubelet."""
    *_, last = message_from_string(text).walk()
    kubelet = yaml.safe_load(str(last.get_payload()))["spec"]["kubelet"]
    (flag,) = (one for one in kubelet["flags"] if one.startswith("--node-labels="))
    pairs = flag.partition("=")[2].strip('"').split(",")
    labels = {key: value for key, _, value in (one.partition("=") for one in pairs)}
    taints = tuple(
        Taint(key=one["key"], value=one.get("value", ""), effect=Effect(one["effect"]))
        for one in kubelet["config"]["registerWithTaints"]
    )
    return labels, taints
