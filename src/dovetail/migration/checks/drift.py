"""Hashes that the takeover replaces, and drift that Dovetail would report.

The decisions are those of the controllers. Subnets and security groups of an
instance are known to EC2 only; they count as unchanged here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from dovetail.codec.text.suggestions import pluralize
from dovetail.core.instancetypes.build import cached_instance_types
from dovetail.core.nodeclaim.drift import get_nodepool_drift_reason
from dovetail.core.nodeclaim.hash_annotations import NODECLASS_KEYS, NODEPOOL_KEYS, HashKeys, migrate_hash
from dovetail.core.nodeclass.drift import DriftUnknownError, InstanceFacts, get_nodeclass_drift_reason
from dovetail.core.nodeclass.hash import NODECLASS_HASH_VERSION, compute_nodeclass_hash_annotations
from dovetail.core.nodepool.hash import HASH_VERSION, compute_nodepool_hash_annotations
from dovetail.data.bundled import list_prices
from dovetail.doctor.object_fields import join_names
from dovetail.migration.facts import MigrationFacts
from dovetail.migration.report import Area, Item, Level
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.condition_types import DRIFTED, LAUNCHED
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.simulate import get_region_of_nodes
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings

_UNKNOWN: Final = "unknown"
InstanceTypes = Mapping[str, Mapping[str, InstanceType]]
"""Node class → its instance types by name."""


def hashes(facts: MigrationFacts) -> Iterator[Item]:
    """Yield the hash versions of NodeClaims, and what happens to them."""
    for keys, hashed, ours in (
        (NODEPOOL_KEYS, "NodePool", HASH_VERSION),
        (NODECLASS_KEYS, "EC2NodeClass", NODECLASS_HASH_VERSION),
    ):
        versions = Counter(claim.annotations.get(keys.version, "none") for claim in facts.objects.claims)
        if not versions:
            continue
        counts = ", ".join(f"{version} ({count})" for version, count in sorted(versions.items()))
        text = f"version {counts}: "
        if set(versions) == {ours}:
            text += "of Dovetail; Karpenter replaces the hashes, not the nodes, when it returns"
        else:
            text += f"become {ours} without replacement of nodes, and Karpenter's again when it returns"
        yield _item(Level.OK, f"hash of {hashed}", text)


def drift(facts: MigrationFacts) -> Iterator[Item]:
    """Yield drift that Karpenter has found, and drift that Dovetail would find."""
    owners = _Owners.of(facts)
    reasons = {claim.name: owners.reason_after_takeover(claim) for claim in _launched(facts)}
    known = {claim.name for claim in _launched(facts) if is_true(claim.conditions, DRIFTED)}
    if known:
        text = f"{join_names(sorted(known))}: replaced within the budgets by either controller"
        yield _item(Level.NOTE, "drifted already", text)
    starting: dict[str, list[str]] = {}
    for name, reason in sorted(reasons.items()):
        if reason not in (None, _UNKNOWN) and name not in known:
            starting.setdefault(str(reason), []).append(name)
    for reason, names in sorted(starting.items()):
        yield _item(
            Level.WARNING,
            reason,
            f"{join_names(names)}: differ from NodePool or node class today, not by the takeover; either "
            "controller replaces them within the budgets",
        )
    unknown = [name for name, reason in reasons.items() if reason == _UNKNOWN and name not in known]
    if unknown:
        text = (
            f"{join_names(unknown)}: drift cannot be computed here (AMI, instance type or node class unknown)"
        )
        yield _item(Level.NOTE, _UNKNOWN, text)
    if not starting:
        count = pluralize(len(reasons) - len(unknown) - len(known), "NodeClaim")
        yield _item(Level.OK, "no drift starts", f"{count} compared with NodePool, node class and AMI")


def _launched(facts: MigrationFacts) -> list[NodeClaim]:
    return [
        claim for claim in facts.objects.claims if is_true(claim.conditions, LAUNCHED) and not claim.deleting
    ]


class _Owners(msgspec.Struct, frozen=True, kw_only=True):
    """NodePools, node classes and instance types, by name."""

    pools: Mapping[str, NodePool]
    classes: Mapping[str, EC2NodeClass]
    types: InstanceTypes

    @classmethod
    def of(cls, facts: MigrationFacts) -> "_Owners":
        return cls(
            pools={pool.name: pool for pool in facts.objects.nodepools},
            classes={node_class.name: node_class for node_class in facts.objects.node_classes},
            types=_types(facts),
        )

    def reason_after_takeover(self, claim: NodeClaim) -> str | None:
        """Return the drift reason once Dovetail has replaced the hashes."""
        pool, node_class = self.pools.get(claim.pool), self.classes.get(claim.node_class.name)
        if pool is None or node_class is None:
            return _UNKNOWN
        claim, pool, node_class = _take_over(claim, pool, node_class)
        instance = InstanceFacts(
            subnet=next((subnet.id for subnet in node_class.resolved.subnets), ""),
            security_groups=frozenset(node_class.resolved.security_group_ids),
        )
        try:
            return get_nodepool_drift_reason(claim, pool) or get_nodeclass_drift_reason(
                claim, node_class, instance, self.types.get(node_class.name, {})
            )
        except DriftUnknownError:
            return _UNKNOWN


def _take_over(
    claim: NodeClaim, pool: NodePool, node_class: EC2NodeClass
) -> tuple[NodeClaim, NodePool, EC2NodeClass]:
    """Return the objects with the hashes that the controllers write."""
    of_pool = compute_nodepool_hash_annotations(pool)
    of_class = compute_nodeclass_hash_annotations(node_class)
    annotations = claim.annotations
    migrations: tuple[tuple[HashKeys, Mapping[str, str], Mapping[str, str]], ...] = (
        (NODEPOOL_KEYS, pool.annotations, of_pool),
        (NODECLASS_KEYS, node_class.annotations, of_class),
    )
    for keys, previous, current in migrations:
        annotations = annotations.with_items(migrate_hash(claim, keys, previous=previous, current=current))
    return (
        msgspec.structs.replace(claim, annotations=annotations),
        msgspec.structs.replace(pool, annotations=pool.annotations.with_items(of_pool)),
        msgspec.structs.replace(node_class, annotations=node_class.annotations.with_items(of_class)),
    )


def _types(facts: MigrationFacts) -> InstanceTypes:
    """Return the instance types of each node class; empty if the region is unknown."""
    catalog = facts.facts.catalog
    region = catalog.regions.get(get_region_of_nodes(facts.objects.nodes) or "")
    if region is None:
        return {}
    provider = InstanceTypeProvider(
        catalog.instance_types_in(region.name),
        region=region,
        prices=list_prices(catalog.instance_types),
        unavailable=UnavailableOfferings(),
        build=cached_instance_types,
    )
    return {
        node_class.name: {
            instance_type.name: instance_type
            for instance_type in provider.instance_types(node_class, now=facts.facts.now)
        }
        for node_class in facts.objects.node_classes
    }


def _item(level: Level, about: str, text: str) -> Item:
    return Item(area=Area.DRIFT, level=level, about=about, text=text)
