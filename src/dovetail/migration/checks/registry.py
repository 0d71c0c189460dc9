"""All checks of a migration, and the report that they give."""

from collections.abc import Callable, Iterable
from typing import Final

from dovetail import __version__
from dovetail.doctor.api_resources import CRDS
from dovetail.doctor.check import describe_need
from dovetail.doctor.finding import Missing
from dovetail.migration.checks import crds, differences, drift, karpenter, objects
from dovetail.migration.commands import hand_back, take_over
from dovetail.migration.facts import MigrationFacts
from dovetail.migration.report import Area, Item, Level, MigrationReport
from dovetail.ports.api_resources import DEPLOYMENTS, EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS

CHECKS: Final[tuple[Callable[[MigrationFacts], Iterable[Item]], ...]] = (
    karpenter.deployment,
    karpenter.settings,
    karpenter.permissions,
    crds.definitions,
    objects.nodepools,
    objects.older_versions,
    objects.kubelet_settings,
    objects.nodeclaims,
    drift.hashes,
    drift.drift,
    karpenter.leases,
    karpenter.webhooks,
    differences.differences,
)


_ESSENTIAL: Final = (DEPLOYMENTS, CRDS, NODE_POOLS, EC2_NODE_CLASSES, NODE_CLAIMS)
"""Without these kinds nothing can be said for sure."""


def check_migration(facts: MigrationFacts) -> MigrationReport:
    """Evaluate all checks; the worst level decides, and unknown facts are a warning."""
    items = [item for check in CHECKS for item in check(facts)]
    items.sort(key=lambda item: list(Area).index(item.area))
    levels = [item.level for item in items]
    if any(resource in facts.facts.unseen for resource in _ESSENTIAL):
        levels.append(Level.WARNING)
    return MigrationReport(
        karpenter=karpenter.version_text(facts),
        dovetail=__version__,
        level=max(levels, key=list(Level).index, default=Level.OK),
        items=tuple(items),
        unknown=tuple(Missing(describe_need(need), why) for need, why in facts.facts.unseen.items()),
        take_over=take_over(facts),
        hand_back=hand_back(facts),
    )
