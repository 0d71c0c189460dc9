"""Schemas of the selectors of an EC2NodeClass, the placement group and the AMI family."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dovetail.codec.crds import schema
from dovetail.codec.crds.schema import Rule, Schema
from dovetail.codec.karpenter.nodeclass_validation import (
    ID_EXAMPLES,
    ID_PATTERNS,
    MATCH_CRITERIA,
    MAX_ALIAS_LENGTH,
    MAX_SELECTOR_LENGTH,
    MAX_TAG_VALUE_LENGTH,
    MAX_TAGS,
    MAX_TERMS,
    OPTIONAL_TERMS,
    OWNER_FIELDS,
    OWNER_ID,
    PLACEMENT_GROUP_ID,
    SELECTOR_TERM_FIELDS,
)
from dovetail.model.karpenter.ami_family import ALIAS_FAMILIES, AmiFamily

"""Maximum length of names and IDs that AWS defines; it bounds the cost of CEL rules."""
_GROUPS, _IMAGES = "securityGroupSelectorTerms", "amiSelectorTerms"
_ABOUT: Final[Mapping[str, str]] = {
    "subnetSelectorTerms": "Subnets of the instances: those that match any of the terms.",
    _GROUPS: "Security groups of the instances: all that match any of the terms.",
    _IMAGES: "AMIs of the instances: those that match any of the terms.",
    "capacityReservationSelectorTerms": "Capacity reservations to use: those that match any term.",
}


def selector_term_schemas() -> dict[str, Schema]:
    """Return the schemas of the four lists of selector terms."""
    return {name: _terms(name, fields) for name, fields in SELECTOR_TERM_FIELDS.items()}


def _terms(name: str, known: Sequence[str]) -> Schema:
    fields = _fields(name)
    enough = [field for field in known if field not in OWNER_FIELDS]
    item = schema.struct(
        "A resource must match all fields of a term.",
        {field: fields[field] for field in known},
        schema.rule(_any(enough, "self"), f"needs one of {', '.join(enough)}"),
    )
    least = None if name in OPTIONAL_TERMS else 1
    return schema.array(_ABOUT[name], item, *_mixtures(name, known), least=least, most=MAX_TERMS)


def _fields(name: str) -> Mapping[str, Schema]:
    example = ID_EXAMPLES[name]
    return {
        "id": schema.string(
            "ID of the resource.",
            schema.search(ID_PATTERNS[name], f"is not a valid ID; write it as {example}"),
        ),
        "tags": schema.mapping(
            "Tags that the resource must have; the value * matches any value.",
            schema.string("Value of the tag.", shortest=1, longest=MAX_TAG_VALUE_LENGTH),
            schema.rule("self.all(key, key != '')", "a tag needs a key"),
            most=MAX_TAGS,
        ),
        "name": schema.string("Name of the resource; * and ? are wildcards.", longest=MAX_SELECTOR_LENGTH),
        "owner": schema.string("Account that owns the AMI, or self, or amazon.", longest=MAX_SELECTOR_LENGTH),
        "alias": _alias(),
        "ssmParameter": schema.string(
            "SSM parameter (name or ARN) that contains the AMI ID.", longest=MAX_SELECTOR_LENGTH
        ),
        "ownerID": schema.string(
            "Account that owns the reservation.",
            schema.full_match(OWNER_ID, "must be an AWS account ID: twelve digits"),
        ),
        "instanceMatchCriteria": schema.enum("Instances that use the reservation.", MATCH_CRITERIA),
    }


def _alias() -> Schema:
    windows = [family for family in ALIAS_FAMILIES if family.startswith("windows")]
    return schema.string(
        "AMIs that EKS or Bottlerocket publish: family@version, such as al2023@v20240807 or "
        "bottlerocket@latest.",
        schema.rule(
            f"self.split('@')[0] in {schema.cel_list(ALIAS_FAMILIES)} && self.matches('^[^@]+@.+$')",
            f"must be family@version with one of the families {', '.join(ALIAS_FAMILIES)}",
        ),
        schema.rule(
            f"!(self.split('@')[0] in {schema.cel_list(windows)}) || self.endsWith('@latest')",
            "Windows AMIs support only the version latest",
        ),
        longest=MAX_ALIAS_LENGTH,
    )


def _mixtures(name: str, known: Sequence[str]) -> list[Rule]:
    """Return the rules for fields of a term that exclude each other.

    Karpenter rejects any such AMI term, but other terms only if all of them mix
    fields. This CRD must accept what Karpenter accepts.
    """
    if name == _IMAGES:
        others = [field for field in known if field != "ssmParameter"]
        rules = [
            schema.rule(f"!self.exists(one, {_mixed(field, others)})", _stands_alone(field))
            for field in ("alias", "id")
        ]
        only = f"!self.exists(one, {_given('alias', 'one')}) || size(self) == 1"
        return [*rules, schema.rule(only, "an alias must be the only term")]
    alone = ("id", "name") if name == _GROUPS else ("id",)
    return [
        schema.rule(f"size(self) == 0 || !self.all(one, {_mixed(field, known)})", _stands_alone(field))
        for field in alone
    ]


def _stands_alone(field: str) -> str:
    return f"{field} excludes all other fields of a term"


def _mixed(field: str, known: Iterable[str]) -> str:
    others = [other for other in known if other != field]
    return f"{_given(field, 'one')} && ({_any(others, 'one')})"


def _any(fields: Iterable[str], of: str) -> str:
    return " || ".join(_given(field, of) for field in fields)


def _given(field: str, of: str) -> str:
    """Return the expression that a field is set and not empty."""
    if field == "tags":
        return f"(has({of}.tags) && size({of}.tags) > 0)"
    return f"(has({of}.{field}) && {of}.{field} != '')"


def placement_group_schema() -> Schema:
    """Return the schema of ``placementGroupSelector``."""
    return schema.struct(
        "Placement group of the instances.",
        {
            "name": schema.string("Name of the placement group.", shortest=1, longest=MAX_SELECTOR_LENGTH),
            "id": schema.string(
                "ID of the placement group.",
                schema.full_match(PLACEMENT_GROUP_ID, "is not a placement group ID; write it as pg-0a1b"),
            ),
        },
        schema.rule("has(self.name) != has(self.id)", "needs name or id, exactly one"),
    )


def ami_family_rules() -> list[Rule]:
    """Return the rules between ``amiFamily`` and aliases."""
    aliased = f"self.amiSelectorTerms.exists(one, {_given('alias', 'one')})"
    rules = [
        schema.rule(
            f"has(self.amiFamily) || {aliased}",
            "amiFamily is required unless an alias such as al2023@latest is used",
        )
    ]
    for alias, family in ALIAS_FAMILIES.items():
        of_family = f"has(one.alias) && one.alias.startsWith('{alias}@')"
        rules.append(
            schema.rule(
                f"!has(self.amiFamily) || self.amiFamily in {schema.cel_list((family, AmiFamily.CUSTOM))} || "
                f"!self.amiSelectorTerms.exists(one, {of_family})",
                f"with an alias of {alias}, amiFamily must be {family} or Custom, or unset",
            )
        )
    return rules


def ami_family_schema() -> Schema:
    """Return the schema of ``amiFamily``."""
    return schema.enum(
        "AMI family, which determines the format of the user data; optional with an alias.", AmiFamily
    )
