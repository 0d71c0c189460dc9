"""Schemas of the launch settings of an EC2NodeClass: disks, network, metadata."""

from typing import Final

from dovetail.codec.crds import schema
from dovetail.codec.crds.schema import Rule, Schema
from dovetail.codec.karpenter.nodeclass_launch_validation import (
    CONNECTION_TIMEOUTS,
    ENABLED_DISABLED,
    HTTP_TOKENS,
    INTERFACE_TYPES,
    MAX_BLOCK_DEVICES,
    MAX_HOP_LIMIT,
    MAX_INITIALIZATION_RATE,
    MAX_NETWORK_INTERFACES,
    MAX_SNAPSHOT_ID_LENGTH,
    MAX_VOLUME_SIZE,
    MIN_INITIALIZATION_RATE,
    VOLUME_TYPES,
)
from dovetail.model.karpenter.ec2nodeclass_launch import MetadataOptions

_USUAL: Final = MetadataOptions()


def block_devices_schema() -> Schema:
    """Return the schema of ``blockDeviceMappings``."""
    disk = schema.struct(
        "The EBS volume.",
        {
            "volumeSize": schema.string("Size, such as 20Gi.", _size()),
            "volumeType": schema.enum("Type of the volume.", VOLUME_TYPES),
            "iops": schema.integer("I/O operations per second, for gp3, io1 and io2.", low=0, size="int64"),
            "throughput": schema.integer("Throughput in MiB per second, for gp3.", low=0, size="int64"),
            "encrypted": schema.boolean("Encrypt the volume."),
            "kmsKeyID": schema.string("KMS key for the encryption."),
            "snapshotID": schema.string(
                "Snapshot to create the volume from.", longest=MAX_SNAPSHOT_ID_LENGTH
            ),
            "volumeInitializationRate": schema.integer(
                "Rate in MiB per second at which the volume is initialized from its snapshot.",
                low=MIN_INITIALIZATION_RATE,
                high=MAX_INITIALIZATION_RATE,
            ),
            "deleteOnTermination": schema.boolean("Delete the volume when the instance terminates."),
        },
        schema.rule(f"{_text('volumeSize')} || {_text('snapshotID')}", "needs volumeSize or snapshotID"),
        schema.rule(
            f"!has(self.volumeInitializationRate) || {_text('snapshotID')}",
            "volumeInitializationRate needs snapshotID",
        ),
    )
    item = schema.struct(
        "A block device.",
        {
            "deviceName": schema.string("Device name, such as /dev/xvda."),
            "rootVolume": schema.boolean("True for the volume that holds the ephemeral storage of pods."),
            "ebs": disk,
        },
    )
    return schema.array(
        "Block devices of instances; they replace the defaults of the AMI family.",
        item,
        schema.rule(
            "self.filter(one, has(one.rootVolume) && one.rootVolume).size() <= 1",
            "only one block device can be the rootVolume",
        ),
        most=MAX_BLOCK_DEVICES,
    )


def _text(field: str) -> str:
    return f"(has(self.{field}) && self.{field} != '')"


def _size() -> Rule:
    """Return the CEL rule for volume sizes, which compares numbers."""
    units = "|".join(MAX_VOLUME_SIZE)
    bounds = [
        f"(self.endsWith('{unit}') && int(self.replace('{unit}', '')) <= {most})"
        for unit, most in MAX_VOLUME_SIZE.items()
    ]
    largest = " or ".join(f"{most}{unit}" for unit, most in MAX_VOLUME_SIZE.items())
    return schema.rule(
        f"self.matches('^[1-9][0-9]{{0,5}}({units})$') && ({' || '.join(bounds)})",
        f"must be the size of a volume, at least 1Gi or 1G and at most {largest}",
    )


def network_interfaces_schema() -> Schema:
    """Return the schema of ``networkInterfaces``."""
    fields = {
        "networkCardIndex": schema.integer("Index of the network card.", low=0),
        "deviceIndex": schema.integer("Index of the interface on that card.", low=0),
        "interfaceType": schema.enum("Type of the interface: with IP address, or EFA only.", INTERFACE_TYPES),
    }
    item = schema.struct("A network interface.", fields, required=tuple(fields))
    same_card = "one.networkCardIndex == other.networkCardIndex"
    return schema.array(
        "Network interfaces of instances; they replace those derived from EFA requests of pods.",
        item,
        schema.rule(
            "size(self) == 0 || self.exists(one, one.networkCardIndex == 0 && "
            "one.deviceIndex == 0 && one.interfaceType == 'interface')",
            "needs the primary interface: networkCardIndex 0, deviceIndex 0, interfaceType interface",
        ),
        schema.rule(
            f"self.all(one, self.exists_one(other, {same_card} && one.deviceIndex == other.deviceIndex))",
            "networkCardIndex and deviceIndex must be unique",
        ),
        schema.rule(
            "self.all(one, one.interfaceType != 'efa-only' || self.exists_one(other, "
            f"{same_card} && other.interfaceType == 'efa-only'))",
            "a network card can have at most one efa-only interface",
        ),
        most=MAX_NETWORK_INTERFACES,
    )


def metadata_options_schema() -> Schema:
    """Return the schema of ``metadataOptions``."""
    return schema.struct(
        "Options of the instance metadata service.",
        {
            "httpEndpoint": schema.enum(
                "Enable the HTTP endpoint.", ENABLED_DISABLED, default=_USUAL.endpoint
            ),
            "httpProtocolIPv6": schema.enum(
                "Enable the IPv6 endpoint.", ENABLED_DISABLED, default=_USUAL.ipv6
            ),
            "httpPutResponseHopLimit": schema.integer(
                "Maximum number of hops; pods without host network need 2.",
                low=1,
                high=MAX_HOP_LIMIT,
                default=_USUAL.hop_limit,
                size="int64",
            ),
            "httpTokens": schema.enum(
                "Whether session tokens (IMDSv2) are required.", HTTP_TOKENS, default=_USUAL.tokens
            ),
        },
        default={},
    )


def connection_tracking_schema() -> Schema:
    """Return the schema of ``connectionTracking``."""
    fields = {
        name: schema.integer("Idle timeout in seconds.", low=low, high=high)
        for name, (low, high) in CONNECTION_TIMEOUTS.items()
    }
    return schema.struct(
        "Idle timeouts of connection tracking.",
        fields,
        schema.rule(" || ".join(f"has(self.{name})" for name in fields), f"needs one of {', '.join(fields)}"),
    )


def cpu_options_schema() -> Schema:
    """Return the schema of ``cpuOptions``."""
    nested = schema.enum("Whether instances can run nested VMs.", ENABLED_DISABLED)
    return schema.struct("CPU options of instances.", {"nestedVirtualization": nested})
