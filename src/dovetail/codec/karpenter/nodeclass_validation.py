"""What the CRD of EC2NodeClasses forbids beyond what deciding looks at.

Kubelet settings that are written as expressions over the machine.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dovetail.codec.fields import Field
from dovetail.codec.text.suggestions import nearest

FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025")
ALIASES = {family.lower(): family for family in FAMILIES if family != "Custom"}
MATCH_CRITERIA = ("open", "targeted")
MOST_TERMS = 30
MOST_TAGS = 20
LONGEST_ALIAS = 30
TAKEN_TAGS = (
    "eks:eks-cluster-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)
TERMS = {
    "subnetSelectorTerms": ("tags", "id"),
    "securityGroupSelectorTerms": ("tags", "id", "name"),
    "amiSelectorTerms": ("alias", "tags", "id", "name", "owner", "ssmParameter"),
    "capacityReservationSelectorTerms": ("tags", "id", "ownerID", "instanceMatchCriteria"),
}
TAKEN_PREFIX = "kubernetes.io/cluster"
OWNERS = frozenset({"owner", "ownerID"})
"""Fields of a term that narrow what others select and select nothing by themselves."""
OPTIONAL_TERMS = ("capacityReservationSelectorTerms",)
IDS = {
    "subnetSelectorTerms": re.compile("subnet-[0-9a-z]+"),
    "securityGroupSelectorTerms": re.compile("sg-[0-9a-z]+"),
    "amiSelectorTerms": re.compile("ami-[0-9a-z]+"),
    "capacityReservationSelectorTerms": re.compile("^cr-[0-9a-z]+$"),
}
"""Found anywhere in the text, as the API has it; only reservations are held to the whole."""
ID_EXAMPLES = {
    "subnetSelectorTerms": "subnet-0a1b",
    "securityGroupSelectorTerms": "sg-0a1b",
    "amiSelectorTerms": "ami-0a1b",
    "capacityReservationSelectorTerms": "cr-0a1b",
}
OWNER_ID = re.compile("[0-9]{12}")
PLACEMENT_ID = re.compile("pg-[0-9a-z]+")


def check_class_spec(spec: Field) -> None:
    """Note all that the CRD refuses about selectors, images, identity and tags."""
    for name, known in TERMS.items():
        _check_terms(spec[name], name, known)
    _check_images(spec["amiSelectorTerms"])
    _check_identity(spec)
    for entry in spec["tags"].entries():
        key = str(entry.key)
        if not key or key in TAKEN_TAGS or key.startswith(TAKEN_PREFIX):
            entry.mistake(f"the tag {key!r} is set for you; leave it out")
    group = spec["placementGroupSelector"]
    if group:
        _check_placement(group)


def _check_terms(terms: Field, name: str, known: tuple[str, ...]) -> None:
    if not terms.value and name not in OPTIONAL_TERMS:
        terms.mistake("is missing; at least one term is needed")
    terms.at_most(MOST_TERMS)
    for one in terms.items():
        one.known_keys(known)
        given = [key for key in known if one[key].value]
        if not set(given) - OWNERS:
            one.mistake(f"needs one of {', '.join(key for key in known if key not in OWNERS)}")
        _check_term(one, name)
    mixed = [(one, told) for one in terms.items() if (told := _mixture(one, name, known))]
    # The rules of the CRD, but for images, refuse only if every term is mixed.
    lenient = terms.findings.by_the_letter and name != "amiSelectorTerms"
    if not lenient or len(mixed) == len(terms.items()):
        for one, told in mixed:
            one.mistake(told)


def _check_term(one: Field, name: str) -> None:
    tags = one["tags"]
    tags.at_most(MOST_TAGS)
    for entry in tags.entries():
        if not entry.key or not entry.text():
            entry.mistake("needs a key and a value; '*' is for any value")
    chosen = one["id"]
    if chosen and not IDS[name].search(chosen.text()):
        example = ID_EXAMPLES[name]
        chosen.mistake(f"{chosen.value!r} is no id of this kind; write it as {example!r}")


def _mixture(one: Field, name: str, known: tuple[str, ...]) -> str | None:
    """Say which fields of a term cannot stand together."""
    given = [key for key in known if one[key].value]
    alone = "alias" if "alias" in given else "id" if "id" in given else "name"
    if alone == "name" and name != "securityGroupSelectorTerms":
        return None
    others = [key for key in given if key not in (alone, "ssmParameter")]
    if alone not in given or not others:
        return None
    return f"{alone} stands alone in a term, without {', '.join(others)}"


def check_reservation_terms(terms: Field) -> None:
    """Note what is wrong with the owner and the criteria of reservations."""
    for one in terms.items():
        owner, criteria = one["ownerID"], one["instanceMatchCriteria"]
        if owner and not OWNER_ID.fullmatch(owner.text()):
            owner.mistake(f"{owner.value!r} is no AWS account: twelve digits")
        if criteria:
            criteria.choice(MATCH_CRITERIA, "open", "criterion")


def _check_images(terms: Field) -> None:
    aliases = [one for one in terms.items() if one["alias"].value]
    if aliases and len(terms.value) > 1:
        aliases[0]["alias"].mistake("an alias must be the only term")


def alias_family(alias: Field) -> str:
    """Return the family that an alias names; AL2023, with a mistake noted, if none."""
    text = alias.text()
    family, at, version = text.partition("@")
    if family not in ALIASES or not at or not version or len(text) > LONGEST_ALIAS:
        guess = nearest(family, ALIASES)
        hint = f"; did you mean '{guess}@{version or 'latest'}'?" if guess else ""
        alias.mistake(f"{alias.value!r} is no alias{hint}; write it as 'al2023@latest'")
    elif family.startswith("windows") and version != "latest":
        alias.mistake(f"{alias.value!r}: Windows images have no versions but 'latest'")
    return ALIASES.get(family, "AL2023")


def check_family(family: Field, alias: Field) -> None:
    """Note when a family is written beside the alias of another."""
    meant = ALIASES.get(alias.text().partition("@")[0])
    if family and meant and family.value in FAMILIES and family.value not in (meant, "Custom"):
        family.mistake(f"{family.value!r} contradicts the alias {alias.value!r}; leave it out")


def _check_identity(spec: Field) -> None:
    role, profile = spec["role"], spec["instanceProfile"]
    if bool(role.value) == bool(profile.value):
        both = "not both" if role.value else "neither is there"
        role.mistake(f"needs role or instanceProfile, exactly one: {both}")


def _check_placement(group: Field) -> None:
    group.known_keys(("name", "id"))
    if bool(group["name"].value) == bool(group["id"].value):
        group.mistake("needs name or id, exactly one")
    chosen = group["id"]
    if chosen and not PLACEMENT_ID.fullmatch(chosen.text()):
        chosen.mistake(f"{chosen.value!r} is no id of a placement group; write it as 'pg-0a1b'")


_AMOUNT: Final = re.compile(r"\s*[-+]?[0-9.]+([eE][-+]?[0-9]+)?[A-Za-z]*\s*")
"""A number with or without a unit, right or wrong: no expression in any case."""


def expressions_in(kubelet: Mapping[str, Any]) -> Iterator[str]:
    """Name the settings that the newest Karpenter, if told to, takes for expressions."""
    pods = kubelet.get("maxPods")
    if isinstance(pods, str) and not _AMOUNT.fullmatch(pods):
        yield "maxPods"
    for name in ("kubeReserved", "systemReserved"):
        reserved = kubelet.get(name)
        for key, value in sorted(reserved.items()) if isinstance(reserved, Mapping) else ():
            if isinstance(value, str) and not _AMOUNT.fullmatch(value):
                yield f"{name}.{key}"
