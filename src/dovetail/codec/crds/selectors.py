"""The selectors of EC2NodeClasses: subnets, security groups, images, reservations."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dovetail.codec.crds.schema import (
    Rule,
    Schema,
    choice,
    containing,
    listed,
    listing,
    mapping,
    matching,
    record,
    rule,
    text,
)
from dovetail.codec.karpenter.nodeclass_validation import (
    ALIASES,
    FAMILIES,
    ID_EXAMPLES,
    IDS,
    LONGEST_ALIAS,
    MATCH_CRITERIA,
    MOST_TAGS,
    MOST_TERMS,
    OPTIONAL_TERMS,
    OWNER_ID,
    OWNERS,
    PLACEMENT_ID,
    TERMS,
)

_LONGEST: Final = 2048
"""Of names and ids that mean something to AWS only; it bounds what rules cost."""
_GROUPS, _IMAGES = "securityGroupSelectorTerms", "amiSelectorTerms"
_ABOUT: Final[Mapping[str, str]] = {
    "subnetSelectorTerms": "Subnets of instances: those that any of the terms finds.",
    _GROUPS: "Security groups of instances: all those that any of the terms finds.",
    _IMAGES: "Images of instances: those that any of the terms finds.",
    "capacityReservationSelectorTerms": "Reservations to use: those that any of the terms finds.",
}


def selector_terms() -> dict[str, Schema]:
    """Return the four lists of terms."""
    return {name: _terms(name, known) for name, known in TERMS.items()}


def _terms(name: str, known: Sequence[str]) -> Schema:
    fields = _fields(name)
    enough = [one for one in known if one not in OWNERS]
    one = record(
        "All that is said in a term must hold.",
        {field: fields[field] for field in known},
        rule(_any(enough, "self"), f"needs one of {', '.join(enough)}"),
    )
    least = None if name in OPTIONAL_TERMS else 1
    return listing(_ABOUT[name], one, *_mixtures(name, known), least=least, most=MOST_TERMS)


def _fields(name: str) -> Mapping[str, Schema]:
    example = ID_EXAMPLES[name]
    return {
        "id": text(
            "The one thing with this id.",
            containing(IDS[name], f"is no id of this kind; write it as {example}"),
        ),
        "tags": mapping(
            "What has all these tags; the value * is for any.",
            text("Value of the tag.", shortest=1, longest=256),
            rule("self.all(key, key != '')", "a tag needs a key"),
            most=MOST_TAGS,
        ),
        "name": text("What has this name; * and ? are for any characters.", longest=_LONGEST),
        "owner": text("Account that owns the image, or self, or amazon.", longest=_LONGEST),
        "alias": _alias(),
        "ssmParameter": text("SSM parameter (name or ARN) that holds the id.", longest=_LONGEST),
        "ownerID": text(
            "Account that owns the reservation.",
            matching(OWNER_ID, "must be an AWS account: twelve digits"),
        ),
        "instanceMatchCriteria": choice("Which instances it takes.", MATCH_CRITERIA),
    }


def _alias() -> Schema:
    windows = [one for one in ALIASES if one.startswith("windows")]
    return text(
        "The images that EKS or Bottlerocket publish: family@version, as in al2023@v20240807 or "
        "bottlerocket@latest.",
        rule(
            f"self.split('@')[0] in {listed(ALIASES)} && self.matches('^[^@]+@.+$')",
            f"must be family@version with one of the families {', '.join(ALIASES)}",
        ),
        rule(
            f"!(self.split('@')[0] in {listed(windows)}) || self.endsWith('@latest')",
            "images of Windows have no version but latest",
        ),
        longest=LONGEST_ALIAS,
    )


def _mixtures(name: str, known: Sequence[str]) -> list[Rule]:
    """Return what cannot stand together in a term.

    Karpenter refuses this for images whenever it happens and for the others only
    if it happens in every term; what it takes must not be refused here.
    """
    if name == _IMAGES:
        others = [one for one in known if one != "ssmParameter"]
        found = [
            rule(f"!self.exists(one, {_mixed(field, others)})", _stands_alone(field))
            for field in ("alias", "id")
        ]
        only = f"!self.exists(one, {_given('alias', 'one')}) || size(self) == 1"
        return [*found, rule(only, "an alias must be the only term")]
    alone = ("id", "name") if name == _GROUPS else ("id",)
    return [
        rule(f"size(self) == 0 || !self.all(one, {_mixed(field, known)})", _stands_alone(field))
        for field in alone
    ]


def _stands_alone(field: str) -> str:
    return f"{field} stands alone in a term, without other fields"


def _mixed(field: str, known: Iterable[str]) -> str:
    others = [one for one in known if one != field]
    return f"{_given(field, 'one')} && ({_any(others, 'one')})"


def _any(fields: Iterable[str], of: str) -> str:
    return " || ".join(_given(field, of) for field in fields)


def _given(field: str, of: str) -> str:
    """Return the expression that a field is there and not empty."""
    if field == "tags":
        return f"(has({of}.tags) && size({of}.tags) > 0)"
    return f"(has({of}.{field}) && {of}.{field} != '')"


def placement_group() -> Schema:
    """Return the schema of the choice of a placement group."""
    return record(
        "The placement group that instances are started in.",
        {
            "name": text("The group of this name.", shortest=1, longest=_LONGEST),
            "id": text(
                "The group with this id.",
                matching(PLACEMENT_ID, "is no id of a placement group; write it as pg-0a1b"),
            ),
        },
        rule("has(self.name) != has(self.id)", "needs name or id, exactly one"),
    )


def family_rules() -> list[Rule]:
    """Return how the family of images goes with their alias."""
    aliased = f"self.amiSelectorTerms.exists(one, {_given('alias', 'one')})"
    found = [
        rule(
            f"has(self.amiFamily) || {aliased}",
            "amiFamily is missing; it goes without only beside an alias such as al2023@latest",
        )
    ]
    for alias, family in ALIASES.items():
        of_family = f"has(one.alias) && one.alias.startsWith('{alias}@')"
        found.append(
            rule(
                f"!has(self.amiFamily) || self.amiFamily in {listed((family, 'Custom'))} || "
                f"!self.amiSelectorTerms.exists(one, {of_family})",
                f"beside an alias of {alias} amiFamily can be {family} or Custom; or leave it out",
            )
        )
    return found


def family() -> Schema:
    """Return the schema of the family of images."""
    return choice(
        "How instances are told to join the cluster; goes without saying beside an alias.", FAMILIES
    )
