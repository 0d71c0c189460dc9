"""CloudFormation template of the desired resources, checked by troposphere's types."""

import json
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

from troposphere import (
    AWSHelperFn,
    AWSObject,
    BaseAWSObject,
    Cidr,
    GetAtt,
    Output,
    Parameter,
    Ref,
    Select,
    Split,
    Sub,
    Tags,
    Template,
)

from dovetail.eks.plan.references import AWS, REFERENCE_START, Reference, split_references
from dovetail.eks.plan.resource import DesiredResource
from dovetail.eks.plan.resource_kinds import KINDS

_PSEUDO: Final = {
    "account": "AWS::AccountId",
    "region": "AWS::Region",
    "partition": "AWS::Partition",
    "dns-suffix": "AWS::URLSuffix",
}
_LISTS: Final = {"ids": "List<AWS::EC2::Subnet::Id>"}
"""Attribute → type of its parameter, if it is not text."""
_ISSUER: Final = "Issuer"


def cloudformation(
    name: str, resources: Iterable[DesiredResource], outputs: Mapping[str, Any]
) -> tuple[str, list[DesiredResource]]:
    """Return the template as JSON, and the resources that CloudFormation lacks.

    External resources become parameters: a template cannot look up anything.
    """
    rendering = _Rendering(resources)
    template = Template(f"EKS cluster {name} with node autoscaling")
    remaining = []
    for resource in rendering.resources.values():
        if resource.external:
            continue
        if not KINDS[resource.kind].cloudformation:
            remaining.append(resource)
            continue
        template.add_resource(rendering.build(resource))
    for key, value in outputs.items():
        template.add_output(Output(logical_id(key), Value=rendering.value(value)))
    for parameter in rendering.parameters.values():
        template.add_parameter(parameter)
    text = str(template.to_json(indent=2, sort_keys=False))
    return text + "\n", remaining


class _Rendering:
    """Converts resources to troposphere's objects, and collects parameters."""

    def __init__(self, resources: Iterable[DesiredResource]) -> None:
        self.resources = {resource.address: resource for resource in resources}
        self.parameters: dict[str, Parameter] = {}

    def build(self, resource: DesiredResource) -> AWSObject:
        kind: type[AWSObject] = _type(KINDS[resource.kind].cloudformation)
        properties = {key: self._encode_property(value) for key, value in resource.properties.items()}
        properties |= _encode_tags(kind, resource.tags)
        aws_object = _build_object(kind, properties, title=logical_id(resource.address))
        referred = set(DesiredResource(kind="", name="", properties=resource.properties).dependencies())
        # A block of a subnet is computed from the VPC, not from the association.
        unnamed = {need for need in referred if need.startswith("vpc-ipv6-block/")}
        needed = [need for need in resource.depends_on if need not in referred]
        others = [logical_id(need) for need in (*needed, *unnamed) if self._is_in_template(need)]
        if others:
            aws_object.resource["DependsOn"] = sorted(others)
        return aws_object

    def _is_in_template(self, address: str) -> bool:
        resource = self.resources[address]
        return not resource.external and bool(KINDS[resource.kind].cloudformation)

    def _encode_property(self, value: Any) -> Any:
        if isinstance(value, Mapping) and _has_key_references(value):
            return self._encode_text(json.dumps(value))
        return self.value(value)

    def value(self, value: Any) -> Any:
        """Return a value with its references as intrinsic functions."""
        if isinstance(value, str):
            return self._encode_text(value) if REFERENCE_START in value else value
        if isinstance(value, Mapping):
            return {key: self._encode_property(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._encode_property(inner) for inner in value]
        return value

    def _encode_text(self, text: str) -> Any:
        pieces = split_references(text)
        if len(pieces) == 1 and isinstance(pieces[0], Reference):
            return self._encode_reference(pieces[0])
        variables: dict[str, Any] = {}
        whole = ""
        for piece in pieces:
            if isinstance(piece, str):
                whole += piece.replace("${", "${!")
            elif piece.attribute == "issuer":
                variables[_ISSUER] = self._encode_reference(piece)
                whole += f"${{{_ISSUER}}}"
            else:
                whole += f"${{{self._reference_name(piece)}}}"
        return Sub(whole, variables) if variables else Sub(whole)

    def _encode_reference(self, reference: Reference) -> AWSHelperFn:
        if reference.attribute == "issuer":
            whole = Reference(reference.address, "issuer-url")
            return Select(1, Split("//", self._encode_reference(whole)))
        if reference.address.startswith("vpc-ipv6-block/"):
            return self._ipv6_subnet(reference)
        name, _, attribute = self._reference_name(reference).partition(".")
        return GetAtt(name, attribute) if attribute else Ref(name)

    def _ipv6_subnet(self, reference: Reference) -> AWSHelperFn:
        """Return a /64 block of the VPC's /56; the resource depends on the association."""
        number = int(reference.attribute.removeprefix("subnet-"))
        block = Select(0, GetAtt(logical_id("vpc/main"), "Ipv6CidrBlocks"))
        return Select(number, Cidr(block, 256, 64))

    def _reference_name(self, reference: Reference) -> str:
        if reference.address == AWS:
            return _PSEUDO[reference.attribute]
        resource = self.resources[reference.address]
        if resource.external:
            return self._add_parameter(reference, resource)
        attribute = KINDS[resource.kind].attributes[reference.attribute].cloudformation
        return logical_id(resource.address) + (f".{attribute}" if attribute else "")

    def _add_parameter(self, reference: Reference, resource: DesiredResource) -> str:
        name = logical_id(f"{resource.kind}-{reference.attribute}")
        self.parameters[name] = Parameter(
            name,
            Type=_LISTS.get(reference.attribute, "String"),
            Description=f"The {reference.attribute} of {KINDS[resource.kind].display_name} {resource.name}",
        )
        return name


def _type(name: str) -> Any:
    _, service, kind = name.split("::")
    return getattr(import_module(f"troposphere.{service.lower()}"), kind)


def _has_key_references(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(REFERENCE_START in key or _has_key_references(inner) for key, inner in value.items())
    return isinstance(value, list) and any(_has_key_references(inner) for inner in value)


def _encode_tags(kind: type[AWSObject], tags: Mapping[str, str]) -> dict[str, Any]:
    """Return tags in the form of the type; empty if it has no tags."""
    if not tags:
        return {}
    if "TagSpecifications" in kind.props:
        pairs = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
        return {"TagSpecifications": [{"ResourceType": "launch-template", "Tags": pairs}]}
    if "Tags" not in kind.props:
        return {}
    takes_map = kind.props["Tags"][0] is dict
    return {"Tags": dict(sorted(tags.items())) if takes_map else Tags(**tags)}


def _build_object(kind: Any, properties: Mapping[str, Any], title: str | None = None) -> Any:
    """Return a troposphere object; raises an error for unknown properties."""
    converted = {key: _convert(kind.props[key][0], value) for key, value in properties.items()}
    return kind(title, **converted) if title else kind(**converted)


def _convert(expected: Any, value: Any) -> Any:
    if isinstance(value, AWSHelperFn):
        return value
    if isinstance(expected, list) and isinstance(value, list):
        return [_convert(expected[0], inner) for inner in value]
    if isinstance(expected, tuple):
        expected = next((candidate for candidate in expected if _is_object(candidate)), expected[0])
    return _build_object(expected, value) if _is_object(expected) and isinstance(value, Mapping) else value


def _is_object(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseAWSObject)


def logical_id(address: str) -> str:
    """Return a CloudFormation logical id: letters and digits, words capitalized."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^0-9A-Za-z]+", address))
