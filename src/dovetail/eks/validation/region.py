"""Checks: region, version, tags."""

import re
from collections.abc import Iterator
from typing import Final

from dovetail.codec.text.suggestions import did_you_mean
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.plan.resource import NAME_TAG, OWNER_TAG
from dovetail.eks.validation.finding import Finding
from dovetail.model.cloud.ec2_catalog import Catalog

VERSIONS: Final = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
"""What EKS had, extended support included, when this release was made."""
_APART: Final = ("cn-", "us-gov-", "us-iso", "eu-iso", "eusc-")
"""Regions with accounts of their own; the catalogue has no machines and prices of them."""
_TAG: Final = re.compile(r"[\w\s.:/=+@-]*")
MOST_TAGS: Final = 40
"""AWS takes 50 on a resource; we add up to ten."""


def place_findings(spec: ClusterSpec, catalog: Catalog) -> Iterator[Finding]:
    """Check where the cluster is and which Kubernetes it runs."""
    if spec.region not in catalog.regions:
        yield ("region",), f"{spec.region!r} is no region{_meant(spec.region, catalog)}"
    if spec.version not in VERSIONS:
        yield (
            ("version",),
            f"EKS does not have {spec.version}; it has {VERSIONS[0]} to {VERSIONS[-1]}",
        )


def _meant(name: str, catalog: Catalog) -> str:
    if name.startswith(_APART):
        return " that is known here: regions of China, GovCloud and the like are not supported"
    # Swapped letters first: us-esat-1 is nearer to us-west-1 letter by letter.
    swapped = [one for one in sorted(catalog.regions) if sorted(one) == sorted(name)]
    return f"; did you mean {swapped[0]!r}?" if swapped else did_you_mean(name, catalog.regions)


def tag_findings(spec: ClusterSpec, catalog: Catalog) -> Iterator[Finding]:
    """Check tags by AWS's rules, and that none of them is one of ours."""
    if len(spec.tags) > MOST_TAGS:
        yield ("tags",), f"has {len(spec.tags)} tags; {MOST_TAGS} are the most"
    for key, value in spec.tags.items():
        if key.lower().startswith("aws:"):
            yield ("tags", key), "begins with 'aws:', which AWS keeps for itself"
        elif key in (OWNER_TAG, NAME_TAG) or key.startswith("kubernetes.io/cluster"):
            yield ("tags", key), "is a tag by which we find things; leave it out"
        if len(key) > 128 or len(value) > 256:
            yield ("tags", key), "is too long: 128 characters for a key, 256 for a value"
        if _TAG.fullmatch(key) is None or _TAG.fullmatch(value) is None:
            yield ("tags", key), "is no tag for IAM: letters, digits, spaces and _.:/=+-@"
