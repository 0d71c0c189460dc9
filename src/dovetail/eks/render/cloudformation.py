"""The wanted resources as a CloudFormation template, checked by troposphere's types."""

import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

from troposphere import (
    AWSHelperFn,
    AWSObject,
    BaseAWSObject,
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

from dovetail.eks.plan.references import AWS, OPENING, Reference, parts
from dovetail.eks.plan.resource import Resource
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.eks.render.names import camel

_PSEUDO: Final = {
    "account": "AWS::AccountId",
    "region": "AWS::Region",
    "partition": "AWS::Partition",
    "dns-suffix": "AWS::URLSuffix",
}
_LISTS: Final = {"ids": "List<AWS::EC2::Subnet::Id>"}
"""Types of parameters that are no plain text, by attribute."""
_ISSUER: Final = "Issuer"


def cloudformation(
    name: str, resources: Iterable[Resource], outputs: Mapping[str, Any]
) -> tuple[str, list[Resource]]:
    """Return the template as JSON, and the resources that CloudFormation cannot make.

    What was there before becomes parameters: a template cannot look anything up.
    """
    rendering = _Rendering(resources)
    template = Template(f"The cluster {name}, prepared for nodes that come and go with the pods")
    left = []
    for one in rendering.resources.values():
        if one.given:
            continue
        if not KINDS[one.kind].cloudformation:
            left.append(one)
            continue
        template.add_resource(rendering.built(one))
    for key, value in outputs.items():
        template.add_output(Output(camel(key), Value=rendering.value(value)))
    for parameter in rendering.parameters.values():
        template.add_parameter(parameter)
    text = str(template.to_json(indent=2, sort_keys=False))
    return text + "\n", left


class _Rendering:
    """Turns resources into troposphere's objects; gathers parameters on the way."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.resources = {one.address: one for one in resources}
        self.parameters: dict[str, Parameter] = {}

    def built(self, one: Resource) -> AWSObject:
        kind: type[AWSObject] = _type(KINDS[one.kind].cloudformation)
        properties = {key: self._property(value) for key, value in one.properties.items()}
        properties |= _tags(kind, one.tags)
        made = _built(kind, properties, title=camel(one.address))
        referred = set(Resource(kind="", name="", properties=one.properties).needs())
        others = [
            camel(need) for need in one.depends_on if need not in referred and self._is_made(need)
        ]
        if others:
            made.resource["DependsOn"] = sorted(others)
        return made

    def _is_made(self, address: str) -> bool:
        one = self.resources[address]
        return not one.given and bool(KINDS[one.kind].cloudformation)

    def _property(self, value: Any) -> Any:
        if isinstance(value, Mapping) and _has_key_references(value):
            return self._text(json.dumps(value))
        return self.value(value)

    def value(self, value: Any) -> Any:
        """Return a value with its references as intrinsic functions."""
        if isinstance(value, str):
            return self._text(value) if OPENING in value else value
        if isinstance(value, Mapping):
            return {key: self._property(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._property(inner) for inner in value]
        return value

    def _text(self, text: str) -> Any:
        pieces = parts(text)
        if len(pieces) == 1 and isinstance(pieces[0], Reference):
            return self._function(pieces[0])
        variables: dict[str, Any] = {}
        whole = ""
        for piece in pieces:
            if isinstance(piece, str):
                whole += piece.replace("${", "${!")
            elif piece.attribute == "issuer":
                variables[_ISSUER] = self._function(piece)
                whole += f"${{{_ISSUER}}}"
            else:
                whole += f"${{{self._in_text(piece)}}}"
        return Sub(whole, variables) if variables else Sub(whole)

    def _function(self, reference: Reference) -> AWSHelperFn:
        if reference.attribute == "issuer":
            whole = Reference(reference.address, "issuer-url")
            return Select(1, Split("//", self._function(whole)))
        name, _, attribute = self._in_text(reference).partition(".")
        return GetAtt(name, attribute) if attribute else Ref(name)

    def _in_text(self, reference: Reference) -> str:
        if reference.address == AWS:
            return _PSEUDO[reference.attribute]
        one = self.resources[reference.address]
        if one.given:
            return self._parameter(reference, one)
        attribute = KINDS[one.kind].attributes[reference.attribute].cloudformation
        return camel(one.address) + (f".{attribute}" if attribute else "")

    def _parameter(self, reference: Reference, one: Resource) -> str:
        name = camel(f"{one.kind}-{reference.attribute}")
        self.parameters[name] = Parameter(
            name,
            Type=_LISTS.get(reference.attribute, "String"),
            Description=f"The {reference.attribute} of {KINDS[one.kind].called} {one.name}",
        )
        return name


def _type(name: str) -> Any:
    _, service, kind = name.split("::")
    return getattr(import_module(f"troposphere.{service.lower()}"), kind)


def _has_key_references(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(OPENING in key or _has_key_references(inner) for key, inner in value.items())
    return isinstance(value, list) and any(_has_key_references(inner) for inner in value)


def _tags(kind: type[AWSObject], tags: Mapping[str, str]) -> dict[str, Any]:
    """Return tags in the form that a type takes them; none where it takes none."""
    if not tags:
        return {}
    if "TagSpecifications" in kind.props:
        pairs = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
        return {"TagSpecifications": [{"ResourceType": "launch-template", "Tags": pairs}]}
    if "Tags" not in kind.props:
        return {}
    takes_map = kind.props["Tags"][0] is dict
    return {"Tags": dict(sorted(tags.items())) if takes_map else Tags(**tags)}


def _built(kind: Any, properties: Mapping[str, Any], title: str | None = None) -> Any:
    """Return an object of troposphere's, which refuses what the type does not have."""
    made = {key: _nested(kind.props[key][0], value) for key, value in properties.items()}
    return kind(title, **made) if title else kind(**made)


def _nested(expected: Any, value: Any) -> Any:
    if isinstance(value, AWSHelperFn):
        return value
    if isinstance(expected, list) and isinstance(value, list):
        return [_nested(expected[0], one) for one in value]
    if isinstance(expected, tuple):
        expected = next((one for one in expected if _is_object(one)), expected[0])
    return _built(expected, value) if _is_object(expected) and isinstance(value, Mapping) else value


def _is_object(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseAWSObject)
