"""The AWS half of old Karpenter objects: selectors become terms."""

from typing import Any

from dovetail.codec.paths import Path

Raw = dict[str, Any]

ROLE_PLACEHOLDER = "$KARPENTER_NODE_ROLE"
"""Old objects could lean on a global instance profile that is gone."""
_IDS = ("aws-ids", "aws::ids")
_COPIED = (
    "userData tags metadataOptions detailedMonitoring context blockDeviceMappings "
    "associatePublicIPAddress instanceStorePolicy instanceProfile role"
).split()


def class_from_provider(old: Raw, path: Path) -> tuple[Raw, tuple[Path, str] | None]:
    """Return the spec of an EC2NodeClass, and what stands in the way, if anything."""
    spec: Raw = {
        "subnetSelectorTerms": _terms(old.get("subnetSelector")),
        "securityGroupSelectorTerms": _terms(old.get("securityGroupSelector")),
    }
    family = old.get("amiFamily") or "AL2"
    chosen = _image_terms(old.get("amiSelector"))
    if chosen or family == "Custom":
        spec["amiFamily"] = "AL2" if family == "Ubuntu" else family
        spec["amiSelectorTerms"] = chosen
    elif family == "Ubuntu":
        spec["amiFamily"] = "AL2"
        spec["amiSelectorTerms"] = [{"id": "ami-placeholder"}]
    else:
        spec["amiSelectorTerms"] = [{"alias": f"{str(family).lower()}@latest"}]
    spec.update({key: old[key] for key in _COPIED if old.get(key) is not None})
    if "role" not in spec and "instanceProfile" not in spec:
        spec["role"] = ROLE_PLACEHOLDER
    problem = None
    if old.get("launchTemplate"):
        message = "launch templates of one's own are not supported since v1beta1"
        problem = ((*path, "launchTemplate"), message)
    return spec, problem


def _terms(selector: Any) -> list[Raw]:
    """Turn a map of tags and ids into terms of which one must hold."""
    if not isinstance(selector, dict):
        return []
    ids = [one for key in _IDS for one in _listed(selector.get(key))]
    if ids:
        return [{"id": one} for one in ids]
    tags = {key: value for key, value in selector.items() if not key.startswith("aws::")}
    return [{"tags": one} for one in _alternatives(tags)]


def _image_terms(selector: Any) -> list[Raw]:
    if not isinstance(selector, dict):
        return []
    ids = [one for key in _IDS for one in _listed(selector.get(key))]
    if ids:
        return [{"id": one} for one in ids]
    tags = {
        key: value
        for key, value in selector.items()
        if key not in ("aws::name", "aws::owners", *_IDS)
    }
    terms: list[Raw] = [{"tags": one} for one in _alternatives(tags)] if tags else [{}]
    for key, name in (("aws::name", "name"), ("aws::owners", "owner")):
        values = _listed(selector.get(key))
        if values:
            terms = [{**term, name: value} for term in terms for value in values]
    return [term for term in terms if term]


def _alternatives(tags: Raw) -> list[Raw]:
    """Split comma-separated tag values: each combination is a term of its own."""
    found: list[Raw] = [{}]
    for key, value in tags.items():
        found = [{**one, key: each} for one in found for each in _listed(value) or [value]]
    return [one for one in found if one]


def _listed(value: Any) -> list[str]:
    if not isinstance(value, str):
        return []
    return [one.strip() for one in value.split(",") if one.strip()]
