"""What the CRD of EC2NodeClasses forbids about disks, network, metadata and kubelet."""

import re

from dovetail.codec.fields import Field

MOST_DEVICES = 50
MOST_INTERFACES = 150
VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")
_VOLUME_SIZE = re.compile(r"([1-9][0-9]*)(Gi|G|Ti|T)")
LARGEST_VOLUME = {"Gi": 59000, "G": 64000, "Ti": 58, "T": 64}
SLOWEST_RATE, FASTEST_RATE = 100, 300
"""MiB a second at which a volume is filled from its snapshot."""
MOST_HOPS = 64
PLACE = ("networkCardIndex", "deviceIndex", "interfaceType")
INTERFACE_TYPES = ("interface", "efa-only")
TOKENS = ("required", "optional")
TIMEOUTS = {
    "tcpEstablishedTimeout": (60, 432_000),
    "udpStreamTimeout": (60, 180),
    "udpTimeout": (30, 60),
}
SWITCH = ("enabled", "disabled")
_UNITS = {"s": 1, "m": 60, "h": 3600}


def check_launch_spec(spec: Field) -> None:
    """Note all that the CRD refuses about how instances are started."""
    _check_devices(spec["blockDeviceMappings"])
    _check_interfaces(spec["networkInterfaces"])
    _check_tracking(spec["connectionTracking"])
    _check_metadata(spec["metadataOptions"])
    _check_images(spec["kubelet"])
    spec["ipPrefixCount"].whole(low=0)
    for name in ("detailedMonitoring", "associatePublicIPAddress"):
        spec[name].boolean()
    spec["cpuOptions"].known_keys(("nestedVirtualization",))
    nested = spec["cpuOptions"]["nestedVirtualization"]
    if nested:
        nested.choice(SWITCH, "enabled", "setting")


def _check_devices(devices: Field) -> None:
    devices.at_most(MOST_DEVICES)
    roots = [one for one in devices.items() if one["rootVolume"].value is True]
    if len(roots) > 1:
        roots[1]["rootVolume"].mistake("only one device can be the root volume")
    for one in devices.items():
        _check_disk(one["ebs"])


def _check_disk(ebs: Field) -> None:
    if not ebs:
        return
    size, snapshot, rate = ebs["volumeSize"], ebs["snapshotID"], ebs["volumeInitializationRate"]
    if not snapshot.value and not size.value:
        ebs.mistake("needs volumeSize or snapshotID")
    if size.text():
        found = _VOLUME_SIZE.fullmatch(size.text())
        if not found or int(found[1]) > LARGEST_VOLUME[found[2]]:
            size.mistake(f"{size.value!r} is no size of a volume: 1Gi to 59000Gi, or up to 64T")
    if ebs["volumeType"]:
        ebs["volumeType"].choice(VOLUME_TYPES, "gp3", "type of volume")
    if rate:
        rate.whole(low=SLOWEST_RATE, high=FASTEST_RATE)
        if not snapshot.value:
            rate.mistake("goes with snapshotID only")


def _check_interfaces(interfaces: Field) -> None:
    interfaces.at_most(MOST_INTERFACES)
    seen: set[tuple[int | None, int | None]] = set()
    efa_cards: set[int | None] = set()
    primary = False
    for one in interfaces.items():
        one.known_keys(PLACE)
        for name in PLACE:
            one[name].required()
        card = one["networkCardIndex"].whole(low=0)
        device = one["deviceIndex"].whole(low=0)
        kind = one["interfaceType"].choice(INTERFACE_TYPES, "interface", "interface type")
        if (card, device) in seen:
            one.mistake(f"card {card}, device {device} is there twice")
        if kind == "efa-only" and card in efa_cards:
            one.mistake(f"card {card} has one efa-only interface at most")
        seen.add((card, device))
        efa_cards.update({card} if kind == "efa-only" else ())
        primary = primary or (card, device, kind) == (0, 0, "interface")
    if seen and not primary:
        interfaces.mistake("needs the primary one: card 0, device 0, type interface")


def _check_tracking(tracking: Field) -> None:
    if not tracking:
        return
    tracking.known_keys(TIMEOUTS)
    if not any(tracking[name] for name in TIMEOUTS):
        tracking.mistake(f"needs one of {', '.join(TIMEOUTS)}")
    for name, (low, high) in TIMEOUTS.items():
        _check_timeout(tracking[name], low, high)


def _check_timeout(field: Field, low: int, high: int) -> None:
    """Check a time-out; Karpenter writes these as numbers of seconds or as durations."""
    value = field.value
    found = re.fullmatch(r"([0-9]+)(s|m|h)", value) if isinstance(value, str) else None
    if found is None:
        field.whole(low=low, high=high)
    elif not low <= int(found[1]) * _UNITS[found[2]] <= high:
        field.mistake(f"is {value}, but must be {low} to {high} seconds")


def _check_metadata(options: Field) -> None:
    if not options:
        return
    names = ("httpEndpoint", "httpProtocolIPv6", "httpPutResponseHopLimit", "httpTokens")
    options.known_keys(names)
    options["httpPutResponseHopLimit"].whole(low=1, high=MOST_HOPS)
    for name, known in (
        ("httpEndpoint", SWITCH),
        ("httpProtocolIPv6", SWITCH),
        ("httpTokens", TOKENS),
    ):
        if options[name]:
            options[name].choice(known, known[0], "setting")


def _check_images(kubelet: Field) -> None:
    """Check what has a bound, and what goes in pairs."""
    high = kubelet["imageGCHighThresholdPercent"].whole(low=0, high=100)
    low = kubelet["imageGCLowThresholdPercent"].whole(low=0, high=100)
    if high is not None and low is not None and high <= low:
        kubelet["imageGCHighThresholdPercent"].mistake(
            "must be more than imageGCLowThresholdPercent"
        )
    soft = kubelet["evictionSoft"].mapping()
    grace = kubelet["evictionSoftGracePeriod"].mapping()
    for name in sorted(soft.keys() - grace.keys()):
        kubelet["evictionSoft"][name].mistake("has no evictionSoftGracePeriod")
    for name in sorted(grace.keys() - soft.keys()):
        kubelet["evictionSoftGracePeriod"][name].mistake("has no evictionSoft")
