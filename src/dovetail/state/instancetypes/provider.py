"""Instance types per node class, kept current as offerings run out and come back."""

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from dovetail.core.instancetypes.billing import Usage
from dovetail.core.instancetypes.build import NOTHING_SEEN, instance_types
from dovetail.core.instancetypes.discounts import Discounts, ListPrices, Place
from dovetail.core.instancetypes.settings import DEFAULT_SETTINGS, MachineSettings
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.ec2_catalog import Machine, Region
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import EMPTY
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Found
from dovetail.model.kube.conditions import NO_CONDITIONS
from dovetail.state.instancetypes.observed_memory import MemorySeen
from dovetail.state.instancetypes.unavailable_offerings import Scarce, Scarcity, is_scarce


class _Entry(msgspec.Struct, kw_only=True):
    """What one node class can buy: when nothing is scarce, and now."""

    seen: NodeClass
    """As it was last asked for."""
    shaping: NodeClass
    """The part of it that types depend on."""
    memory: Mapping[str, int]
    """What nodes were seen to have."""
    listed: tuple[InstanceType, ...]
    """At list prices."""
    full: tuple[InstanceType, ...]
    places: dict[str, int]
    current: tuple[InstanceType, ...]
    marks: frozenset[Scarce] = frozenset()
    prices: ListPrices = ListPrices(())
    steps: list[float] = []
    """All on-demand prices, in order."""
    usage: Usage | None = None
    cover: tuple[float, ...] | None = None


class Shelf:
    """Answers with the same tuple until something changes.

    Building all types takes a tenth of a second, so that scarcity replaces only
    the types that it concerns, and commitments that are used up only those that
    they covered.
    """

    def __init__(
        self,
        machines: tuple[Machine, ...],
        *,
        region: Region,
        prices: PriceBook,
        scarcity: Scarcity,
        settings: MachineSettings = DEFAULT_SETTINGS,
        discounts: DiscountBook = NO_DISCOUNTS,
        running: Callable[[], Mapping[Place, int]] = dict,
        memory: MemorySeen | None = None,
    ) -> None:
        """Start empty; ``running`` counts the instances that use up commitments."""
        self._machines = machines
        self._region = region
        self._prices = prices
        self._scarcity = scarcity
        self._settings = settings
        self._discounts = Discounts(discounts, region=region.name)
        self._running = running
        self._memory = memory
        self._entries: dict[str, _Entry] = {}

    def supply(self, machines: tuple[Machine, ...], *, region: Region, prices: PriceBook) -> None:
        """Take a newer catalogue and newer prices; those that are equal change nothing."""
        if (machines, region, prices) == (self._machines, self._region, self._prices):
            return
        self._machines = machines
        self._region = region
        self._prices = prices
        self._entries.clear()

    def instance_types(self, node_class: NodeClass, *, now: datetime) -> tuple[InstanceType, ...]:
        """Return all types as the class would get them; what is scarce is not available."""
        entry = self._entry(node_class)
        if self._discounts.has_commitments:
            self._reprice(entry)
        marks = self._scarcity.marks(now)
        if marks is not entry.marks:
            _restock(entry, marks)
        return entry.current

    def _entry(self, node_class: NodeClass) -> _Entry:
        known = self._entries.get(node_class.name)
        memory = self._memory_of(node_class)
        if known is not None and known.memory == memory and known.seen is node_class:
            return known
        shaping = _shaping(node_class)
        if known is not None and known.memory == memory and known.shaping == shaping:
            known.seen = node_class
            return known
        listed = instance_types(
            self._machines,
            region=self._region,
            node_class=node_class,
            prices=self._prices,
            settings=self._settings,
            memory=memory,
        )
        full = self._discounts.applied(listed)
        places = {one.name: place for place, one in enumerate(full)}
        made = _Entry(
            seen=node_class,
            shaping=shaping,
            memory=memory,
            listed=listed,
            full=full,
            places=places,
            current=full,
        )
        if self._discounts.has_commitments:
            made.prices = ListPrices([listed])
            made.steps = made.prices.on_demand()
        self._entries[node_class.name] = made
        return made

    def _memory_of(self, node_class: NodeClass) -> Mapping[str, int]:
        if self._memory is None:
            return NOTHING_SEEN
        return self._memory.of(one.id for one in node_class.found.images)

    def _reprice(self, entry: _Entry) -> None:
        """Bring prices up to what commitments cover now."""
        usage = entry.prices.usage(self._running())
        if usage == entry.usage:
            return
        entry.usage = usage
        bill = self._discounts.bill(usage)
        cover = self._discounts.cover(bill, entry.steps)
        if cover == entry.cover:
            return
        entry.cover = cover
        priced = self._discounts.applied(entry.listed, bill)
        entry.full = tuple(
            old if new == old else new for new, old in zip(priced, entry.full, strict=True)
        )
        entry.current = tuple(_with_scarcity(one, entry.marks) for one in entry.full)


def _shaping(node_class: NodeClass) -> NodeClass:
    """Return a class without what changes all the time and shapes no type.

    Its status is written every minute: addresses run out, and the order of its
    subnets with them.
    """
    return msgspec.structs.replace(
        node_class,
        found=Found(
            images=node_class.found.images, placement_group=node_class.found.placement_group
        ),
        conditions=NO_CONDITIONS,
        annotations=EMPTY,
        generation=0,
        resource_version="",
        finalizers=(),
        ready=True,
    )


def _restock(entry: _Entry, marks: frozenset[Scarce]) -> None:
    """Bring the types that differ between two pictures up to the newer one."""
    changed = entry.marks ^ marks
    entry.marks = marks
    named = {one.instance_type for one in changed}
    everything = any(one.concerns_all_types for one in changed)
    current = list(entry.current)
    for name in entry.places if everything else named & entry.places.keys():
        place = entry.places[name]
        current[place] = _with_scarcity(entry.full[place], marks)
    if any(new is not old for new, old in zip(current, entry.current, strict=True)):
        entry.current = tuple(current)


def _with_scarcity(full: InstanceType, marks: frozenset[Scarce]) -> InstanceType:
    offerings = tuple(_closed_if_scarce(full.name, one, marks) for one in full.offerings)
    if all(new is old for new, old in zip(offerings, full.offerings, strict=True)):
        return full
    return msgspec.structs.replace(full, offerings=offerings)


def _closed_if_scarce(name: str, offering: Offering, marks: frozenset[Scarce]) -> Offering:
    if (offering.available or offering.lacks_price) and is_scarce(
        marks,
        capacity_type=offering.capacity_type,
        instance_type=name,
        zone=offering.zone,
    ):
        return msgspec.structs.replace(offering, available=False, lacks_price=False)
    return offering
