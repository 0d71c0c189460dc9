"""How the instances of an EC2NodeClass are started: disks, network, metadata."""

from typing import Final

from dovetail.codec.crds.schema import (
    Rule,
    Schema,
    choice,
    listing,
    record,
    rule,
    switch,
    text,
    whole,
)
from dovetail.codec.karpenter.nodeclass_launch_validation import (
    FASTEST_RATE,
    INTERFACE_TYPES,
    LARGEST_VOLUME,
    MOST_DEVICES,
    MOST_HOPS,
    MOST_INTERFACES,
    SLOWEST_RATE,
    SWITCH,
    TIMEOUTS,
    TOKENS,
    VOLUME_TYPES,
)
from dovetail.model.karpenter.ec2nodeclass_launch import MetadataOptions

_USUAL: Final = MetadataOptions()


def block_devices() -> Schema:
    """Return the schema of the disks of an instance."""
    disk = record(
        "The EBS volume.",
        {
            "volumeSize": text("How large, as in 20Gi.", _size()),
            "volumeType": choice("Which kind of volume.", VOLUME_TYPES),
            "iops": whole("Operations a second, for gp3, io1 and io2.", low=0, size="int64"),
            "throughput": whole("MiB a second, for gp3.", low=0, size="int64"),
            "encrypted": switch("Whether it is encrypted."),
            "kmsKeyID": text("The key that it is encrypted with."),
            "snapshotID": text("The snapshot that it is made from.", longest=256),
            "volumeInitializationRate": whole(
                "MiB a second at which it is filled from its snapshot.",
                low=SLOWEST_RATE,
                high=FASTEST_RATE,
            ),
            "deleteOnTermination": switch("Whether it goes with its instance."),
        },
        rule(f"{_text('volumeSize')} || {_text('snapshotID')}", "needs volumeSize or snapshotID"),
        rule(
            f"!has(self.volumeInitializationRate) || {_text('snapshotID')}",
            "volumeInitializationRate goes with snapshotID only",
        ),
    )
    one = record(
        "One disk.",
        {
            "deviceName": text("Where it is attached, as in /dev/xvda."),
            "rootVolume": switch("Whether pods have their scratch space on it."),
            "ebs": disk,
        },
    )
    return listing(
        "Disks of an instance, instead of those that its image family has.",
        one,
        rule(
            "self.filter(one, has(one.rootVolume) && one.rootVolume).size() <= 1",
            "only one disk can be the rootVolume",
        ),
        most=MOST_DEVICES,
    )


def _text(field: str) -> str:
    return f"(has(self.{field}) && self.{field} != '')"


def _size() -> Rule:
    """Return the rule for sizes; the API server compares numbers, not spellings."""
    units = "|".join(LARGEST_VOLUME)
    bounds = [
        f"(self.endsWith('{unit}') && int(self.replace('{unit}', '')) <= {most})"
        for unit, most in LARGEST_VOLUME.items()
    ]
    largest = " or ".join(f"{most}{unit}" for unit, most in LARGEST_VOLUME.items())
    return rule(
        f"self.matches('^[1-9][0-9]{{0,5}}({units})$') && ({' || '.join(bounds)})",
        f"must be the size of a volume, at least 1Gi or 1G and at most {largest}",
    )


def interfaces() -> Schema:
    """Return the schema of the network interfaces of an instance."""
    fields = {
        "networkCardIndex": whole("The network card.", low=0),
        "deviceIndex": whole("The place on that card.", low=0),
        "interfaceType": choice("For IP, or for EFA alone.", INTERFACE_TYPES),
    }
    one = record("One network interface.", fields, required=tuple(fields))
    same_card = "one.networkCardIndex == other.networkCardIndex"
    return listing(
        "Network interfaces of an instance, instead of those that pods ask for.",
        one,
        rule(
            "size(self) == 0 || self.exists(one, one.networkCardIndex == 0 && "
            "one.deviceIndex == 0 && one.interfaceType == 'interface')",
            "needs the primary one: networkCardIndex 0, deviceIndex 0, interfaceType interface",
        ),
        rule(
            f"self.all(one, self.exists_one(other, {same_card} && "
            "one.deviceIndex == other.deviceIndex))",
            "no two can have the same networkCardIndex and deviceIndex",
        ),
        rule(
            "self.all(one, one.interfaceType != 'efa-only' || self.exists_one(other, "
            f"{same_card} && other.interfaceType == 'efa-only'))",
            "a network card has one efa-only interface at most",
        ),
        most=MOST_INTERFACES,
    )


def metadata_options() -> Schema:
    """Return the schema of how instances reach the metadata service."""
    return record(
        "How programs on an instance reach its metadata.",
        {
            "httpEndpoint": choice("Whether they do at all.", SWITCH, default=_USUAL.endpoint),
            "httpProtocolIPv6": choice("Whether by IPv6 too.", SWITCH, default=_USUAL.ipv6),
            "httpPutResponseHopLimit": whole(
                "Over how many hops; pods with a network of their own are one more away.",
                low=1,
                high=MOST_HOPS,
                default=_USUAL.hop_limit,
                size="int64",
            ),
            "httpTokens": choice(
                "Whether they need a token first (IMDSv2).", TOKENS, default=_USUAL.tokens
            ),
        },
        default={},
    )


def connection_tracking() -> Schema:
    """Return the schema of when idle connections are forgotten."""
    fields = {
        name: whole("Seconds after which an idle one is forgotten.", low=low, high=high)
        for name, (low, high) in TIMEOUTS.items()
    }
    return record(
        "How long idle connections are tracked.",
        fields,
        rule(
            " || ".join(f"has(self.{name})" for name in fields),
            f"needs one of {', '.join(fields)}",
        ),
    )


def cpu_options() -> Schema:
    """Return the schema of what is switched on in the CPU."""
    nested = choice("Whether virtual machines can run inside.", SWITCH)
    return record("What is switched on in the CPU.", {"nestedVirtualization": nested})
