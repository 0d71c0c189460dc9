"""Validation of EC2NodeClasses: selectors, AMIs, role, tags.

``codec.crds`` builds the CustomResourceDefinition from the same constants.
"""

import re

from dovetail.codec.fields import Field
from dovetail.codec.text.suggestions import nearest_match
from dovetail.model.karpenter.ami_family import ALIAS_FAMILIES, DEFAULT_AMI_FAMILY, AmiFamily

MATCH_CRITERIA = ("open", "targeted")
MAX_TERMS = 30
MAX_TAGS = 20
MAX_ALIAS_LENGTH = 30
MAX_TAG_VALUE_LENGTH = 256
MAX_SELECTOR_LENGTH = 2048
RESTRICTED_TAGS = (
    "eks:eks-cluster-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)
SELECTOR_TERM_FIELDS = {
    "subnetSelectorTerms": ("tags", "id"),
    "securityGroupSelectorTerms": ("tags", "id", "name"),
    "amiSelectorTerms": ("alias", "tags", "id", "name", "owner", "ssmParameter"),
    "capacityReservationSelectorTerms": ("tags", "id", "ownerID", "instanceMatchCriteria"),
}
RESTRICTED_TAG_PREFIX = "kubernetes.io/cluster"
OWNER_FIELDS = frozenset({"owner", "ownerID"})
"""Fields of a term that only narrow a selection; a term needs another field, too."""
OPTIONAL_TERMS = ("capacityReservationSelectorTerms",)
ID_PATTERNS = {
    "subnetSelectorTerms": re.compile("subnet-[0-9a-z]+"),
    "securityGroupSelectorTerms": re.compile("sg-[0-9a-z]+"),
    "amiSelectorTerms": re.compile("ami-[0-9a-z]+"),
    "capacityReservationSelectorTerms": re.compile("^cr-[0-9a-z]+$"),
}
"""Searched anywhere in the value, as Karpenter's CRD does; only cr-… must match fully."""
ID_EXAMPLES = {
    "subnetSelectorTerms": "subnet-0a1b",
    "securityGroupSelectorTerms": "sg-0a1b",
    "amiSelectorTerms": "ami-0a1b",
    "capacityReservationSelectorTerms": "cr-0a1b",
}
OWNER_ID = re.compile("[0-9]{12}")
PLACEMENT_GROUP_ID = re.compile("pg-[0-9a-z]+")


def check_nodeclass_spec(spec: Field) -> None:
    """Add errors for selectors, AMIs, role and tags that the CRD rejects."""
    for name, fields in SELECTOR_TERM_FIELDS.items():
        _check_terms(spec[name], name, fields)
    _check_ami_terms(spec["amiSelectorTerms"])
    _check_role(spec)
    for entry in spec["tags"].entries():
        key = str(entry.key)
        if not key or key in RESTRICTED_TAGS or key.startswith(RESTRICTED_TAG_PREFIX):
            entry.add_error(f"the tag {key!r} is set for you; leave it out")
    group = spec["placementGroupSelector"]
    if group:
        _check_placement_group(group)


def _check_terms(terms: Field, name: str, known: tuple[str, ...]) -> None:
    if not terms.value and name not in OPTIONAL_TERMS:
        terms.add_error("is missing; at least one term is needed")
    terms.check_length(MAX_TERMS)
    for term in terms.items():
        term.check_known_keys(known)
        given = [key for key in known if term[key].value]
        if not set(given) - OWNER_FIELDS:
            term.add_error(f"needs one of {', '.join(key for key in known if key not in OWNER_FIELDS)}")
        _check_term(term, name)
    mixed = [
        (term, message) for term in terms.items() if (message := _exclusive_fields_error(term, name, known))
    ]
    # Except for AMIs, the CRD rejects only if every term mixes fields.
    lenient = terms.context.api_rules_only and name != "amiSelectorTerms"
    if not lenient or len(mixed) == len(terms.items()):
        for term, message in mixed:
            term.add_error(message)


def _check_term(term: Field, name: str) -> None:
    tags = term["tags"]
    tags.check_length(MAX_TAGS)
    for entry in tags.entries():
        if not entry.key or not entry.text():
            entry.add_error("needs a key and a value; '*' is for any value")
        entry.check_text_length(MAX_TAG_VALUE_LENGTH)
    term["ssmParameter"].check_text_length(MAX_SELECTOR_LENGTH)
    chosen = term["id"]
    if chosen and not ID_PATTERNS[name].search(chosen.text()):
        example = ID_EXAMPLES[name]
        chosen.add_error(f"{chosen.value!r} is not a valid ID; write it as {example!r}")


def _exclusive_fields_error(term: Field, name: str, known: tuple[str, ...]) -> str | None:
    """Return the error for fields of a term that exclude each other, or None."""
    given = [key for key in known if term[key].value]
    alone = "alias" if "alias" in given else "id" if "id" in given else "name"
    if alone == "name" and name != "securityGroupSelectorTerms":
        return None
    others = [key for key in given if key not in (alone, "ssmParameter")]
    if alone not in given or not others:
        return None
    return f"{alone} excludes other fields of a term: {', '.join(others)}"


def check_reservation_terms(terms: Field) -> None:
    """Add errors for owner and match criteria of capacity reservation terms."""
    for term in terms.items():
        owner, criteria = term["ownerID"], term["instanceMatchCriteria"]
        if owner and not OWNER_ID.fullmatch(owner.text()):
            owner.add_error(f"{owner.value!r} is not an AWS account ID: twelve digits")
        if criteria:
            criteria.choice(MATCH_CRITERIA, "open", "criterion")


def _check_ami_terms(terms: Field) -> None:
    aliases = [term for term in terms.items() if term["alias"].value]
    if aliases and len(terms.value) > 1:
        aliases[0]["alias"].add_error("an alias must be the only term")


def decode_alias_family(alias: Field) -> AmiFamily:
    """Return the family of an alias; AL2023, with an error added, if it is invalid."""
    text = alias.text()
    family, at, version = text.partition("@")
    if family not in ALIAS_FAMILIES or not at or not version or len(text) > MAX_ALIAS_LENGTH:
        guess = nearest_match(family, ALIAS_FAMILIES)
        hint = f"; did you mean '{guess}@{version or 'latest'}'?" if guess else ""
        alias.add_error(f"{alias.value!r} is not an alias{hint}; write it as 'al2023@latest'")
    elif family.startswith("windows") and version != "latest":
        alias.add_error(f"{alias.value!r}: Windows AMIs support only the version 'latest'")
    return ALIAS_FAMILIES.get(family, DEFAULT_AMI_FAMILY)


def check_ami_family(family: Field, alias: Field) -> None:
    """Add an error if ``amiFamily`` contradicts the alias."""
    alias_family = ALIAS_FAMILIES.get(alias.text().partition("@")[0])
    written = AmiFamily.parse(family.text()) if family else AmiFamily.CUSTOM
    if alias_family and written not in (alias_family, AmiFamily.CUSTOM):
        family.add_error(f"{family.value!r} contradicts the alias {alias.value!r}; leave it out")


def _check_role(spec: Field) -> None:
    role, profile = spec["role"], spec["instanceProfile"]
    if profile:
        profile.check_required()
    if bool(role.value) == bool(profile.value):
        both = "not both" if role.value else "neither is there"
        role.add_error(f"needs role or instanceProfile, exactly one: {both}")


def _check_placement_group(group: Field) -> None:
    group.check_known_keys(("name", "id"))
    if group["name"]:
        group["name"].check_required()
    if bool(group["name"].value) == bool(group["id"].value):
        group.add_error("needs name or id, exactly one")
    chosen = group["id"]
    if chosen and not PLACEMENT_GROUP_ID.fullmatch(chosen.text()):
        chosen.add_error(f"{chosen.value!r} is not a placement group ID; write it as 'pg-0a1b'")
