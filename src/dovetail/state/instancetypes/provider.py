"""Instance types per node class, kept current as offerings run out and come back."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from dovetail.core.instancetypes.billing import Usage
from dovetail.core.instancetypes.build import NO_OBSERVED_MEMORY, build_instance_types
from dovetail.core.instancetypes.discounts import Discounts, ListPrices, OfferingKey
from dovetail.core.instancetypes.kubelet import Failure, find_failures
from dovetail.core.instancetypes.settings import DEFAULT_SETTINGS, InstanceTypeSettings
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType, Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import EMPTY
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import MetadataOptions, ResolvedResources
from dovetail.model.kube.conditions import NO_CONDITIONS
from dovetail.state.instancetypes.observed_memory import ObservedMemory
from dovetail.state.instancetypes.unavailable_offerings import (
    UnavailableOffering,
    UnavailableOfferings,
    is_unavailable,
)

BuildInstanceTypes = Callable[..., tuple[InstanceType, ...]]
"""``build_instance_types``, or another function with its parameters."""

_TYPES_PER_PART: Final = 100


class _CachedTypes(msgspec.Struct, kw_only=True):
    """Instance types of all node classes with one fingerprint: 1 to 7 MB."""

    fingerprint: EC2NodeClass
    """The fields that instance types depend on."""
    memory: Mapping[str, int]
    """Observed memory: instance type → bytes."""
    list_priced: tuple[InstanceType, ...]
    """At list prices."""
    discounted: tuple[InstanceType, ...]
    """At discounted prices, all offerings available."""
    indexes: dict[str, int]
    """Name → index in the tuples."""
    current: tuple[InstanceType, ...]
    """At discounted prices, without unavailable offerings."""
    unavailable: frozenset[UnavailableOffering] = frozenset()
    prices: ListPrices = ListPrices(())
    on_demand_prices: list[float] = []
    """All on-demand prices, sorted."""
    usage: Usage | None = None
    coverage: tuple[float, ...] | None = None


class InstanceTypeProvider:
    """Cached instance types per node class; the same tuple until something changes.

    Building all types takes a tenth of a second. A change of unavailable offerings
    therefore rebuilds only the types that it concerns, and a change of commitment
    coverage only those that were covered.
    """

    def __init__(
        self,
        catalog: tuple[Ec2InstanceType, ...],
        *,
        region: Region,
        prices: PriceBook,
        unavailable: UnavailableOfferings,
        settings: InstanceTypeSettings = DEFAULT_SETTINGS,
        discounts: DiscountBook = NO_DISCOUNTS,
        running: Callable[[], Mapping[OfferingKey, int]] = dict,
        memory: ObservedMemory | None = None,
        build: BuildInstanceTypes = build_instance_types,
    ) -> None:
        """Create an empty cache; ``running`` counts the instances that use commitments.

        ``build`` is ``build_instance_types``, or ``cached_instance_types`` for providers that
        share a catalogue.
        """
        self._catalog = catalog
        self._region = region
        self._prices = prices
        self._unavailable = unavailable
        self._settings = settings
        self._discounts = Discounts(discounts, region=region.name)
        self._running = running
        self._memory = memory
        self._build_types = build
        self._cached: dict[str, tuple[EC2NodeClass, _CachedTypes]] = {}
        """Name → node class of the last request, and its types."""

    def update_catalog(
        self, catalog: tuple[Ec2InstanceType, ...], *, region: Region, prices: PriceBook
    ) -> None:
        """Set a newer catalog and prices; equal ones keep the cache."""
        if (catalog, region, prices) == (self._catalog, self._region, self._prices):
            return
        self._catalog = catalog
        self._region = region
        self._prices = prices
        self._cached.clear()

    def instance_types(self, node_class: EC2NodeClass, *, now: datetime) -> tuple[InstanceType, ...]:
        """Return the instance types of a node class, unavailable offerings marked as such."""
        entry = self._get_cached(node_class)
        if self._discounts.has_commitments:
            self._reprice(entry)
        unavailable = self._unavailable.get(now)
        if unavailable is not entry.unavailable:
            _update_availability(entry, unavailable)
        return entry.current

    def launchable_types(self, node_class: EC2NodeClass) -> tuple[InstanceType, ...]:
        """Return the types that a node class can launch in one of its zones.

        Capacity errors and missing prices do not matter: they pass, and say nothing
        about the node class.
        """
        return tuple(
            instance_type
            for instance_type in self._get_cached(node_class).discounted
            if any(offering.available or offering.price_missing for offering in instance_type.offerings)
        )

    def retain(self, node_classes: Iterable[str]) -> bool:
        """Forget the types of all other node classes; return True if there were any."""
        deleted = self._cached.keys() - set(node_classes)
        for name in deleted:
            del self._cached[name]
        return bool(deleted)

    @property
    def kubelet_check(self) -> Callable[[EC2NodeClass], Iterable[Failure]] | None:
        """Return what evaluates kubelet expressions; None if their feature gate is off."""
        if not self._settings.kubelet_expressions:
            return None
        return lambda node_class: find_failures(self._catalog, node_class, self._settings)

    def _get_cached(self, node_class: EC2NodeClass) -> _CachedTypes:
        memory = self._get_observed_memory(node_class)
        known, entry = self._cached.get(node_class.name, (None, None))
        if entry is not None and known is node_class and entry.memory == memory:
            return entry
        fingerprint = _get_fingerprint(node_class)
        equal = (
            entry
            for _, entry in self._cached.values()
            if entry.memory == memory and entry.fingerprint == fingerprint
        )
        entry = next(equal, None) or self._build(node_class, fingerprint, memory)
        self._cached[node_class.name] = (node_class, entry)
        return entry

    def _build(
        self, node_class: EC2NodeClass, fingerprint: EC2NodeClass, memory: Mapping[str, int]
    ) -> _CachedTypes:
        known = [
            {instance_type.name: instance_type for instance_type in entry.list_priced}
            for entry in {id(entry): entry for _, entry in self._cached.values()}.values()
        ]
        list_priced: tuple[InstanceType, ...] = ()
        # In parts: the memory of equal requirements and offerings is used again for the next part.
        for first in range(0, len(self._catalog), _TYPES_PER_PART):
            types = self._build_types(
                self._catalog[first : first + _TYPES_PER_PART],
                region=self._region,
                node_class=node_class,
                prices=self._prices,
                settings=self._settings,
                observed_memory=memory,
            )
            list_priced += _share_parts(types, known)
        discounted = self._discounts.apply(list_priced)
        indexes = {instance_type.name: index for index, instance_type in enumerate(discounted)}
        entry = _CachedTypes(
            fingerprint=fingerprint,
            memory=memory,
            list_priced=list_priced,
            discounted=discounted,
            indexes=indexes,
            current=discounted,
        )
        if self._discounts.has_commitments:
            entry.prices = ListPrices([list_priced])
            entry.on_demand_prices = entry.prices.on_demand()
        return entry

    def _get_observed_memory(self, node_class: EC2NodeClass) -> Mapping[str, int]:
        if self._memory is None:
            return NO_OBSERVED_MEMORY
        return self._memory.get(ami.id for ami in node_class.resolved.amis)

    def _reprice(self, entry: _CachedTypes) -> None:
        """Update prices to the current coverage by commitments."""
        usage = entry.prices.usage(self._running())
        if usage == entry.usage:
            return
        entry.usage = usage
        bill = self._discounts.bill(usage)
        coverage = self._discounts.coverage_key(bill, entry.on_demand_prices)
        if coverage == entry.coverage:
            return
        entry.coverage = coverage
        priced = self._discounts.apply(entry.list_priced, bill)
        pairs = zip(priced, entry.discounted, strict=True)
        entry.discounted = tuple(old if new == old else new for new, old in pairs)
        unavailable = entry.unavailable
        entry.current = tuple(_apply_unavailable(option, unavailable) for option in entry.discounted)


def _share_parts(
    types: Iterable[InstanceType], known: Iterable[Mapping[str, InstanceType]]
) -> tuple[InstanceType, ...]:
    """Return types that share equal requirements and offerings with known types.

    These take six sevenths of the memory, and are equal in most node classes.
    """
    shared = []
    for instance_type in types:
        others = (by_name.get(instance_type.name) for by_name in known)
        results = (_share_with(instance_type, other) for other in others if other is not None)
        shared.append(next((result for result in results if result is not instance_type), instance_type))
    return tuple(shared)


def _share_with(new: InstanceType, known: InstanceType) -> InstanceType:
    requirements = known.requirements if known.requirements == new.requirements else new.requirements
    offerings = known.offerings if known.offerings == new.offerings else new.offerings
    if requirements is new.requirements and offerings is new.offerings:
        return new
    return msgspec.structs.replace(new, requirements=requirements, offerings=offerings)


def _get_fingerprint(node_class: EC2NodeClass) -> EC2NodeClass:
    """Return a node class without the fields that do not affect instance types.

    Its status changes every minute, with the free addresses and order of subnets. Node
    classes that differ only in these fields, such as role or user data, share their types.
    """
    return msgspec.structs.replace(
        node_class,
        name="",
        uid="",
        deleting=False,
        launch=msgspec.structs.replace(
            node_class.launch,
            subnets=(),
            security_groups=(),
            amis=(),
            role="",
            instance_profile="",
            user_data=None,
            tags=EMPTY,
            metadata_options=MetadataOptions(),
            detailed_monitoring=None,
            context="",
        ),
        resolved=ResolvedResources(
            amis=node_class.resolved.amis, placement_group=node_class.resolved.placement_group
        ),
        conditions=NO_CONDITIONS,
        annotations=EMPTY,
        generation=0,
        resource_version="",
        finalizers=(),
        ready=True,
    )


def _update_availability(entry: _CachedTypes, unavailable: frozenset[UnavailableOffering]) -> None:
    """Rebuild the types whose unavailable offerings changed."""
    changed = entry.unavailable ^ unavailable
    entry.unavailable = unavailable
    names = {offering.instance_type for offering in changed}
    covers_all = any(offering.covers_all_types for offering in changed)
    current = list(entry.current)
    for name in entry.indexes if covers_all else names & entry.indexes.keys():
        index = entry.indexes[name]
        current[index] = _apply_unavailable(entry.discounted[index], unavailable)
    if any(new is not old for new, old in zip(current, entry.current, strict=True)):
        entry.current = tuple(current)


def _apply_unavailable(entry: InstanceType, unavailable: frozenset[UnavailableOffering]) -> InstanceType:
    return entry.with_offerings(
        msgspec.structs.replace(offering, available=False, price_missing=False)
        if (offering.available or offering.price_missing)
        and is_unavailable(
            unavailable, capacity_type=offering.capacity_type, instance_type=entry.name, zone=offering.zone
        )
        else offering
        for offering in entry.offerings
    )
