"""Validation of EC2NodeClasses: block devices, network, metadata options, kubelet."""

import re

from dovetail.codec.fields import MAX_INT32, Field
from dovetail.codec.karpenter.nodeclass_kubelet import check_kubelet_rules

MAX_BLOCK_DEVICES = 50
MAX_NETWORK_INTERFACES = 150
VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")
_VOLUME_SIZE = re.compile(r"([1-9][0-9]*)(Gi|G|Ti|T)")
MAX_VOLUME_SIZE = {"Gi": 59000, "G": 64000, "Ti": 58, "T": 64}
MIN_INITIALIZATION_RATE, MAX_INITIALIZATION_RATE = 100, 300
"""Limits of volumeInitializationRate in MiB per second."""
MAX_HOP_LIMIT = 64
MAX_SNAPSHOT_ID_LENGTH = 256
NETWORK_INTERFACE_FIELDS = ("networkCardIndex", "deviceIndex", "interfaceType")
INTERFACE_TYPES = ("interface", "efa-only")
HTTP_TOKENS = ("required", "optional")
CONNECTION_TIMEOUTS = {
    "tcpEstablishedTimeout": (60, 432_000),
    "udpStreamTimeout": (60, 180),
    "udpTimeout": (30, 60),
}
ENABLED_DISABLED = ("enabled", "disabled")
_UNITS = {"s": 1, "m": 60, "h": 3600}


def check_launch_spec(spec: Field) -> None:
    """Add errors for launch settings that the CRD rejects."""
    _check_block_devices(spec["blockDeviceMappings"])
    _check_network_interfaces(spec["networkInterfaces"])
    _check_connection_tracking(spec["connectionTracking"])
    _check_metadata_options(spec["metadataOptions"])
    check_kubelet_rules(spec["kubelet"])
    spec["ipPrefixCount"].integer(low=0, high=MAX_INT32)
    for name in ("detailedMonitoring", "associatePublicIPAddress"):
        spec[name].boolean()
    spec["cpuOptions"].check_known_keys(("nestedVirtualization",))
    nested = spec["cpuOptions"]["nestedVirtualization"]
    if nested:
        nested.choice(ENABLED_DISABLED, "enabled", "setting")


def _check_block_devices(devices: Field) -> None:
    devices.check_length(MAX_BLOCK_DEVICES)
    roots = [device for device in devices.items() if device["rootVolume"].value is True]
    if len(roots) > 1:
        roots[1]["rootVolume"].add_error("only one device can be the root volume")
    for device in devices.items():
        _check_ebs(device["ebs"])


def _check_ebs(ebs: Field) -> None:
    if not ebs:
        return
    size, snapshot, rate = ebs["volumeSize"], ebs["snapshotID"], ebs["volumeInitializationRate"]
    snapshot.check_text_length(MAX_SNAPSHOT_ID_LENGTH)
    if not snapshot.value and not size.value:
        ebs.add_error("needs volumeSize or snapshotID")
    if size.text():
        match = _VOLUME_SIZE.fullmatch(size.text())
        if not match or int(match[1]) > MAX_VOLUME_SIZE[match[2]]:
            size.add_error(f"{size.value!r} is not a volume size: 1Gi to 59000Gi, or up to 64T")
    if ebs["volumeType"]:
        ebs["volumeType"].choice(VOLUME_TYPES, "gp3", "type of volume")
    if rate:
        rate.integer(low=MIN_INITIALIZATION_RATE, high=MAX_INITIALIZATION_RATE)
        if not snapshot.value:
            rate.add_error("needs snapshotID")


def _check_network_interfaces(interfaces: Field) -> None:
    interfaces.check_length(MAX_NETWORK_INTERFACES)
    indexes: set[tuple[int | None, int | None]] = set()
    efa_cards: set[int | None] = set()
    primary = False
    for interface in interfaces.items():
        interface.check_known_keys(NETWORK_INTERFACE_FIELDS)
        for name in NETWORK_INTERFACE_FIELDS:
            interface[name].check_required()
        card = interface["networkCardIndex"].integer(low=0)
        device = interface["deviceIndex"].integer(low=0)
        kind = interface["interfaceType"].choice(INTERFACE_TYPES, "interface", "interface type")
        if (card, device) in indexes:
            interface.add_error(f"duplicate card {card}, device {device}")
        if kind == "efa-only" and card in efa_cards:
            interface.add_error(f"card {card} can have at most one efa-only interface")
        indexes.add((card, device))
        efa_cards.update({card} if kind == "efa-only" else ())
        primary = primary or (card, device, kind) == (0, 0, "interface")
    if indexes and not primary:
        interfaces.add_error("needs the primary interface: card 0, device 0, type interface")


def _check_connection_tracking(tracking: Field) -> None:
    if not tracking:
        return
    tracking.check_known_keys(CONNECTION_TIMEOUTS)
    if not any(tracking[name] for name in CONNECTION_TIMEOUTS):
        tracking.add_error(f"needs one of {', '.join(CONNECTION_TIMEOUTS)}")
    for name, (low, high) in CONNECTION_TIMEOUTS.items():
        _check_timeout(tracking[name], low, high)


def _check_timeout(field: Field, low: int, high: int) -> None:
    """Check a timeout, which can be an integer in seconds or a duration."""
    value = field.value
    match = re.fullmatch(r"([0-9]+)(s|m|h)", value) if isinstance(value, str) else None
    if match is None:
        field.integer(low=low, high=high)
    elif not low <= int(match[1]) * _UNITS[match[2]] <= high:
        field.add_error(f"is {value}, but must be {low} to {high} seconds")


def _check_metadata_options(options: Field) -> None:
    if not options:
        return
    names = ("httpEndpoint", "httpProtocolIPv6", "httpPutResponseHopLimit", "httpTokens")
    options.check_known_keys(names)
    options["httpPutResponseHopLimit"].integer(low=1, high=MAX_HOP_LIMIT)
    for name, choices in (
        ("httpEndpoint", ENABLED_DISABLED),
        ("httpProtocolIPv6", ENABLED_DISABLED),
        ("httpTokens", HTTP_TOKENS),
    ):
        if options[name]:
            options[name].choice(choices, choices[0], "setting")
