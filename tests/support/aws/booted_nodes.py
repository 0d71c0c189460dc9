"""Simulated kubelets for instances of moto, started from their user data."""

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
from dovetail.model.kube.taints import Taint, TaintEffect
from dovetail.simulator.instance import BootedInstance
from tests.support.simulator.realtime_cluster import Cluster

INTERVAL = 0.15


class InstanceBooter:
    """Polls the account: starts and stops a kubelet with each instance."""

    def __init__(self, ec2: Any, cluster: Cluster, types: Mapping[str, InstanceType]) -> None:
        self._ec2 = ec2
        self._cluster = cluster
        self._types = types

    async def run(self) -> None:
        while True:
            try:
                running = await asyncio.to_thread(self._describe)
            except ClientError:
                running = None  # The account is throttled.
            if running is not None:
                self._sync_kubelets(running)
            await asyncio.sleep(INTERVAL)

    def _describe(self) -> dict[str, dict[str, Any]]:
        """Return provider ID → instance; new ones have their user data."""
        pages = self._ec2.describe_instances(Filters=[{"Name": "instance-state-name", "Values": ["running"]}])
        result: dict[str, dict[str, Any]] = {}
        for reservation in pages["Reservations"]:
            for entry in reservation["Instances"]:
                zone = entry["Placement"]["AvailabilityZone"]
                provider_id = f"aws:///{zone}/{entry['InstanceId']}"
                result[provider_id] = entry
                if provider_id not in self._cluster.instances:
                    attribute = self._ec2.describe_instance_attribute(
                        InstanceId=entry["InstanceId"], Attribute="userData"
                    )
                    entry["UserData"] = b64decode(attribute["UserData"]["Value"]).decode()
        return result

    def _sync_kubelets(self, running: Mapping[str, dict[str, Any]]) -> None:
        cluster = self._cluster
        for provider_id in sorted(cluster.instances - running.keys()):
            cluster.instances.discard(provider_id)
            cluster.kubelets.stop(provider_id)
        for provider_id in sorted(running.keys() - cluster.instances):
            cluster.instances.add(provider_id)
            cluster.kubelets.start(self._instance(provider_id, running[provider_id]))

    def _instance(self, provider_id: str, described: Mapping[str, Any]) -> BootedInstance:
        kind, zone = self._types[described["InstanceType"]], described["Placement"]["AvailabilityZone"]
        name = described["PrivateDnsName"]
        labels, taints = read_user_data(described["UserData"])
        return BootedInstance(
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
    """Return labels and taints, as nodeadm on Amazon Linux 2023 passes them to the kubelet."""
    *_, last = message_from_string(text).walk()
    kubelet = yaml.safe_load(str(last.get_payload()))["spec"]["kubelet"]
    (flag,) = (entry for entry in kubelet["flags"] if entry.startswith("--node-labels="))
    pairs = flag.partition("=")[2].strip('"').split(",")
    labels = {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
    taints = tuple(
        Taint(key=entry["key"], value=entry.get("value", ""), effect=TaintEffect(entry["effect"]))
        for entry in kubelet["config"]["registerWithTaints"]
    )
    return labels, taints
