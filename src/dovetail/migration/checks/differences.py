"""Intended differences from Karpenter, as far as objects of this cluster are affected."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from dovetail.doctor.object_fields import get_list, join_names, name_of, namespace_of
from dovetail.migration.facts import MigrationFacts
from dovetail.migration.report import Area, Item, Level
from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import BURSTABLE_FAMILIES
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, NodePool
from dovetail.model.settings import ConsolidationSettings
from dovetail.ports.api_resources import PODS

_CATEGORY_LABEL: Final = f"{label_keys.AWS_DOMAIN}/instance-category"
_FAMILY_LABEL: Final = f"{label_keys.AWS_DOMAIN}/instance-family"


def differences(facts: MigrationFacts) -> Iterator[Item]:
    """Yield each difference that affects an object."""
    yield from _resource_claims(facts)
    yield from _consolidation(facts)
    yield from _equal_weights(facts)
    yield from _reservations(facts)
    yield from _packing(facts)
    yield from _burstable(facts)


def _resource_claims(facts: MigrationFacts) -> Iterator[Item]:
    pods = [
        f"{namespace_of(pod)}/{name_of(pod)}"
        for pod in facts.facts.of(PODS)
        if get_list(pod, "spec", "resourceClaims")
    ]
    if pods:
        text = f"{join_names(pods, 3)}: no node is launched for pods with resource claims (DRA)"
        yield _item(Level.WARNING, "pods with resourceClaims", text)


def _consolidation(facts: MigrationFacts) -> Iterator[Item]:
    pools = [
        pool.name
        for pool in facts.objects.nodepools
        if pool.disruption.policy is not ConsolidationPolicy.WHEN_EMPTY
        and pool.disruption.consolidate_after is not None
    ]
    if pools:
        share = ConsolidationSettings().min_saving_share
        text = f"{join_names(pools)}: several nodes are replaced together, and a command must save at least "
        text += (
            f"{share:.0%} of what the moved pods cost; settings.consolidationMinSavingShare=0 as in Karpenter"
        )
        yield _item(Level.NOTE, "consolidation", text)


def _equal_weights(facts: MigrationFacts) -> Iterator[Item]:
    weights = Counter(pool.weight for pool in facts.objects.nodepools)
    pools = [pool.name for pool in facts.objects.nodepools if weights[pool.weight] > 1]
    if pools:
        text = (
            f"{join_names(pools)}: the cheapest is used, where Karpenter takes the last by name; set weights "
        )
        text += "to choose"
        yield _item(Level.NOTE, "NodePools of equal weight", text)


def _reservations(facts: MigrationFacts) -> Iterator[Item]:
    classes = [
        node_class.name for node_class in facts.objects.node_classes if node_class.capacity_reservations
    ]
    if classes:
        text = f"{join_names(classes)}: a pod without a free slot uses another offering at once"
        yield _item(Level.NOTE, "capacity reservations", text)


def _packing(facts: MigrationFacts) -> Iterator[Item]:
    if facts.objects.nodepools:
        text = "new nodes are the cheapest set for all pending pods, often fewer dollars in more nodes than "
        text += "Karpenter's; all differences: docs/behaviours.md"
        yield _item(Level.NOTE, "new nodes", text)


def _burstable(facts: MigrationFacts) -> Iterator[Item]:
    pools = [pool.name for pool in facts.objects.nodepools if _allows_burstable(pool)]
    if pools:
        text = f"{join_names(pools)}: CPU requests above the baseline of burstable types add to their price; "
        text += "settings.burstable=allow and settings.minNodeMemory=0 as in Karpenter"
        yield _item(Level.NOTE, "burstable types", text)


def _allows_burstable(pool: NodePool) -> bool:
    """Return True if the requirements allow a burstable type, by category, family and name."""
    requirements = pool.requirements()
    families = [
        family
        for family in sorted(BURSTABLE_FAMILIES)
        if requirements.get_or_exists(_FAMILY_LABEL).has(family)
    ]
    names = requirements.get_or_exists(label_keys.INSTANCE_TYPE)
    return requirements.get_or_exists(_CATEGORY_LABEL).has("t") and any(
        names.complement or any(name.startswith(f"{family}.") for name in names.values) for family in families
    )


def _item(level: Level, about: str, text: str) -> Item:
    return Item(area=Area.DIFFERENCES, level=level, about=about, text=text)
