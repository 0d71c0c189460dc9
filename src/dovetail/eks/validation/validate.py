"""What the fields of cluster.yaml must be to each other and to the world."""

from collections.abc import Collection, Iterator
from typing import Final

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.validation.addons import software_findings
from dovetail.eks.validation.finding import Check, Finding
from dovetail.eks.validation.iam import access_findings, name_findings, role_findings
from dovetail.eks.validation.network import address_findings, vpc_findings
from dovetail.eks.validation.node_groups import group_findings
from dovetail.eks.validation.nodepools import pool_findings
from dovetail.eks.validation.region import place_findings, tag_findings
from dovetail.model.cloud.ec2_catalog import Catalog

_CHECKS: Final[tuple[tuple[Check, frozenset[str]], ...]] = (
    (place_findings, frozenset()),
    (tag_findings, frozenset()),
    (vpc_findings, frozenset({"vpc", "home"})),
    (address_findings, frozenset()),
    (name_findings, frozenset({"name", "home", "controller", "serviceAccounts"})),
    (role_findings, frozenset({"home", "iam"})),
    (access_findings, frozenset({"home", "access"})),
    (group_findings, frozenset({"home"})),
    (pool_findings, frozenset({"region", "vpc", "nodePools", "nodeClasses"})),
    (software_findings, frozenset({"home", "addons", "controller"})),
)
"""Each check, and the fields without which it cannot be made."""


def check(spec: ClusterSpec, catalog: Catalog, unsure: Collection[str] = ()) -> Iterator[Finding]:
    """Hand out everything that is wrong; ``unsure`` are fields that could not be read."""
    for one, needs in _CHECKS:
        if not needs.intersection(unsure):
            yield from one(spec, catalog)
