"""The part of EC2NodeClasses that only launching looks at, on the wire."""

import re
from typing import Final

from dovetail.codec.fields import Field
from dovetail.codec.kube.requirements import requirements
from dovetail.model.karpenter.ec2nodeclass_launch import (
    ConnectionTracking,
    Found,
    Image,
    Interface,
    LaunchSpec,
    MetadataOptions,
    SelectorTerm,
    Subnet,
)

_SPAN: Final = re.compile(r"(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s?)?")


def decode_launch(spec: Field) -> LaunchSpec:
    """Read how instances are started; defaults are those of the CRD."""
    group = spec["placementGroupSelector"]
    tracking = spec["connectionTracking"]
    return LaunchSpec(
        subnets=_terms(spec["subnetSelectorTerms"]),
        security_groups=_terms(spec["securityGroupSelectorTerms"]),
        images=_terms(spec["amiSelectorTerms"]),
        reservations=_terms(spec["capacityReservationSelectorTerms"]),
        placement_group=_term(group) if group else None,
        role=spec["role"].text(),
        instance_profile=spec["instanceProfile"].text(),
        user_data=spec["userData"].text() if spec["userData"] else None,
        tags=spec["tags"].labels(),
        metadata=_metadata(spec["metadataOptions"]),
        interfaces=tuple(_interface(one) for one in spec["networkInterfaces"].items()),
        connection_tracking=_tracking(tracking) if tracking else None,
        detailed_monitoring=_switch(spec["detailedMonitoring"]),
        public_address=_switch(spec["associatePublicIPAddress"]),
        ip_prefixes=spec["ipPrefixCount"].whole(low=0),
        nested_virtualization=spec["cpuOptions"]["nestedVirtualization"].text(),
        context=spec["context"].text(),
    )


def decode_found(status: Field) -> Found:
    """Read what a class selects, from its status."""
    return Found(
        subnets=tuple(
            Subnet(id=one["id"].text(), zone=one["zone"].text(), zone_id=one["zoneID"].text())
            for one in status["subnets"].items()
            if one.says("id")  # Ours, as files carry it, says zones only.
        ),
        security_groups=tuple(one["id"].text() for one in status["securityGroups"].items()),
        images=tuple(
            Image(
                id=one["id"].text(),
                name=one["name"].text(),
                deprecated=one["deprecated"].boolean(),
                requirements=requirements(one["requirements"]),
            )
            for one in status["amis"].items()
        ),
        instance_profile=status["instanceProfile"].text(),
    )


def _terms(field: Field) -> tuple[SelectorTerm, ...]:
    return tuple(_term(one) for one in field.items())


def _term(field: Field) -> SelectorTerm:
    return SelectorTerm(
        id=field["id"].text(),
        name=field["name"].text(),
        tags=field["tags"].labels(),
        owner=field["owner"].text() or field["ownerID"].text(),
        alias=field["alias"].text(),
        ssm_parameter=field["ssmParameter"].text(),
        match_criteria=field["instanceMatchCriteria"].text(),
    )


def _metadata(field: Field) -> MetadataOptions:
    usual = MetadataOptions()
    return MetadataOptions(
        endpoint=field["httpEndpoint"].text(usual.endpoint),
        ipv6=field["httpProtocolIPv6"].text(usual.ipv6),
        hop_limit=field["httpPutResponseHopLimit"].whole() or usual.hop_limit,
        tokens=field["httpTokens"].text(usual.tokens),
    )


def _interface(field: Field) -> Interface:
    return Interface(
        card=field["networkCardIndex"].whole() or 0,
        device=field["deviceIndex"].whole() or 0,
        kind=field["interfaceType"].text("interface"),
    )


def _tracking(field: Field) -> ConnectionTracking:
    return ConnectionTracking(
        tcp_established=_seconds(field["tcpEstablishedTimeout"]),
        udp_stream=_seconds(field["udpStreamTimeout"]),
        udp=_seconds(field["udpTimeout"]),
    )


def _seconds(field: Field) -> int | None:
    """Read a number of seconds, or a duration such as ``1h30m``."""
    value = field.value
    if not isinstance(value, str):
        return field.whole()
    found = _SPAN.fullmatch(value)
    if not value or found is None:
        field.mistake(f"{value!r} is no duration; write it as '60s'")
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def _switch(field: Field) -> bool | None:
    return field.boolean() if field else None
