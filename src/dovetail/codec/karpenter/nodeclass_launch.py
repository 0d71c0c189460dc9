"""Decoder of the launch settings and resolved resources of an EC2NodeClass."""

import re
from typing import Final

from dovetail.codec.fields import MAX_INT32, Field
from dovetail.codec.kube.requirements import decode_requirements
from dovetail.model.karpenter.ec2nodeclass_launch import (
    Ami,
    ConnectionTracking,
    LaunchSpec,
    MetadataOptions,
    NetworkInterface,
    ResolvedResources,
    SelectorTerm,
    Subnet,
)

_DURATION: Final = re.compile(r"(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s?)?")


def decode_launch_spec(spec: Field) -> LaunchSpec:
    """Decode the launch settings; defaults are those of the CRD."""
    group = spec["placementGroupSelector"]
    tracking = spec["connectionTracking"]
    return LaunchSpec(
        subnets=_decode_terms(spec["subnetSelectorTerms"]),
        security_groups=_decode_terms(spec["securityGroupSelectorTerms"]),
        amis=_decode_terms(spec["amiSelectorTerms"]),
        capacity_reservations=_decode_terms(spec["capacityReservationSelectorTerms"]),
        placement_group=_decode_term(group) if group else None,
        role=spec["role"].text(),
        instance_profile=spec["instanceProfile"].text(),
        user_data=spec["userData"].text() if spec["userData"] else None,
        tags=spec["tags"].labels(),
        metadata_options=_decode_metadata_options(spec["metadataOptions"]),
        network_interfaces=tuple(
            _decode_network_interface(item) for item in spec["networkInterfaces"].items()
        ),
        connection_tracking=_decode_connection_tracking(tracking) if tracking else None,
        detailed_monitoring=_decode_optional_boolean(spec["detailedMonitoring"]),
        associate_public_ip_address=_decode_optional_boolean(spec["associatePublicIPAddress"]),
        ip_prefix_count=spec["ipPrefixCount"].integer(low=0, high=MAX_INT32),
        nested_virtualization=spec["cpuOptions"]["nestedVirtualization"].text(),
        context=spec["context"].text(),
    )


def decode_resolved_resources(status: Field) -> ResolvedResources:
    """Decode the resolved resources in the status."""
    return ResolvedResources(
        subnets=tuple(
            Subnet(id=item["id"].text(), zone=item["zone"].text(), zone_id=item["zoneID"].text())
            for item in status["subnets"].items()
            if item.has_value("id")  # Status written by encode_nodeclass has zones only.
        ),
        security_group_ids=tuple(item["id"].text() for item in status["securityGroups"].items()),
        amis=tuple(
            Ami(
                id=item["id"].text(),
                name=item["name"].text(),
                deprecated=item["deprecated"].boolean(),
                requirements=decode_requirements(item["requirements"]),
            )
            for item in status["amis"].items()
        ),
        instance_profile=status["instanceProfile"].text(),
    )


def _decode_terms(field: Field) -> tuple[SelectorTerm, ...]:
    return tuple(_decode_term(item) for item in field.items())


def _decode_term(field: Field) -> SelectorTerm:
    return SelectorTerm(
        id=field["id"].text(),
        name=field["name"].text(),
        tags=field["tags"].labels(),
        owner=field["owner"].text() or field["ownerID"].text(),
        alias=field["alias"].text(),
        ssm_parameter=field["ssmParameter"].text(),
        match_criteria=field["instanceMatchCriteria"].text(),
    )


def _decode_metadata_options(field: Field) -> MetadataOptions:
    defaults = MetadataOptions()
    return MetadataOptions(
        endpoint=field["httpEndpoint"].text(defaults.endpoint),
        ipv6=field["httpProtocolIPv6"].text(defaults.ipv6),
        hop_limit=field["httpPutResponseHopLimit"].integer() or defaults.hop_limit,
        tokens=field["httpTokens"].text(defaults.tokens),
    )


def _decode_network_interface(field: Field) -> NetworkInterface:
    return NetworkInterface(
        card=field["networkCardIndex"].integer() or 0,
        device=field["deviceIndex"].integer() or 0,
        kind=field["interfaceType"].text("interface"),
    )


def _decode_connection_tracking(field: Field) -> ConnectionTracking:
    return ConnectionTracking(
        tcp_established=_decode_seconds(field["tcpEstablishedTimeout"]),
        udp_stream=_decode_seconds(field["udpStreamTimeout"]),
        udp=_decode_seconds(field["udpTimeout"]),
    )


def _decode_seconds(field: Field) -> int | None:
    """Decode a number of seconds, or a duration such as ``1h30m``."""
    value = field.value
    if not isinstance(value, str):
        return field.integer()
    match = _DURATION.fullmatch(value)
    if not value or match is None:
        field.add_error(f"{value!r} is not a duration; write it as '60s'")
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _decode_optional_boolean(field: Field) -> bool | None:
    return field.boolean() if field else None
