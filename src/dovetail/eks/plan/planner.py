"""What to do so that what is wanted is what is there: wanted − observed = plan.

Pure: it reads nothing and does nothing. The steps come in an order in which
they can be done one after the other; ``Step.needs`` says which of them need
not wait for each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from dovetail.eks.plan.diff import Change, changes
from dovetail.eks.plan.references import Reference, Unresolved
from dovetail.eks.plan.resolver import found
from dovetail.eks.plan.resource import Existing, Observed, Resource, in_order
from dovetail.eks.plan.resource_kinds import KINDS


class Verb(StrEnum):
    """What a step does."""

    CREATE = "create"
    CHANGE = "change"
    REMOVE = "remove"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do to one resource. Doing it again does no harm."""

    verb: Verb
    address: str
    wanted: Resource | None = None
    """Set for create and change; its references are resolved when the step is done."""
    existing: Existing | None = None
    """Set for change and remove."""
    changes: tuple[Change, ...] = ()
    """For a change: what differs. For both halves of a replacement: what forces it."""
    needs: tuple[str, ...] = ()
    """Ids of the steps of this plan that must be done first."""

    @property
    def id(self) -> str:
        return f"{self.verb} {self.address}"

    @property
    def replaces(self) -> bool:
        """Whether this is half of a replacement: what is there goes, another comes."""
        return self.verb is not Verb.CHANGE and any(one.replaces for one in self.changes)

    @property
    def kind(self) -> str:
        return self.address.partition("/")[0]

    @property
    def name(self) -> str:
        return self.address.partition("/")[2]

    def __str__(self) -> str:
        what = f"{self.verb} {KINDS[self.kind].called} {self.name}"
        if self.changes:
            return f"{what} ({'; '.join(str(one) for one in self.changes)})"
        return f"{what}: {self.wanted.why}" if self.wanted and self.wanted.why else what

    def undo(self) -> "Step":
        """Return the step that takes this one back, as far as that is possible.

        What was removed is made again as it was seen; what it held (a queue's
        messages, a cluster's objects) does not come back.
        """
        if self.verb is Verb.CREATE:
            gone = Existing(kind=self.kind, name=self.name)
            return Step(verb=Verb.REMOVE, address=self.address, existing=gone)
        if self.existing is None:
            raise ValueError(f"{self.id} does not say what was there")
        before = Resource(
            kind=self.kind,
            name=self.name,
            properties=self.existing.properties,
            tags=self.existing.tags,
        )
        if self.verb is Verb.REMOVE:
            return Step(verb=Verb.CREATE, address=self.address, wanted=before)
        back = tuple(Change(one.path, one.after, one.before) for one in self.changes)
        return Step(
            verb=Verb.CHANGE,
            address=self.address,
            wanted=before,
            existing=self.existing,
            changes=back,
        )


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Steps in order, and what stands in their way."""

    steps: tuple[Step, ...] = ()
    missing: tuple[Resource, ...] = ()
    """Things that should have been there before us and are not: nothing can be done."""
    unsettled: tuple[Existing, ...] = ()
    """Things that are just being made, changed or removed: wait for them first."""
    monthly_usd: float = 0.0
    """What all that is wanted costs in a month, nodes that pods call for not counted."""

    def __bool__(self) -> bool:
        return bool(self.steps)

    def replaced(self) -> list[str]:
        """Return the addresses of what would go and come back as another."""
        return [one.address for one in self.steps if one.replaces and one.verb is Verb.CREATE]


class _Drawing:
    """A plan while it is being made."""

    def __init__(self, wanted: Sequence[Resource], observed: Observed) -> None:
        self.wanted = {one.address: one for one in wanted}
        self.observed = observed
        self.anew: set[str] = set()
        """What will be made in this plan: its old attributes are worth nothing."""
        self.changing: set[str] = set()

    def look_up(self, reference: Reference) -> Any:
        if reference.address in self.changing:
            kind = reference.address.partition("/")[0]
            if reference.attribute in KINDS[kind].moving:
                raise Unresolved(reference)
        return found(reference, observed=self.observed, wanted=self.wanted, without=self.anew)

    def step(self, one: Resource) -> list[Step]:
        """Return what to do for one resource whose needs have been looked at already."""
        existing = self.observed.resources.get(one.address)
        if existing is None:
            self.anew.add(one.address)
            return [Step(verb=Verb.CREATE, address=one.address, wanted=one)]
        differing = changes(one, existing, self.look_up)
        forcing = tuple(change for change in differing if change.replaces)
        if forcing:
            self.anew.add(one.address)
            return [
                Step(verb=Verb.REMOVE, address=one.address, existing=existing, changes=forcing),
                Step(verb=Verb.CREATE, address=one.address, wanted=one, changes=forcing),
            ]
        if differing:
            self.changing.add(one.address)
            changing = Step(
                verb=Verb.CHANGE,
                address=one.address,
                wanted=one,
                existing=existing,
                changes=differing,
            )
            return [changing]
        return []


def plan(wanted: Iterable[Resource], observed: Observed) -> Plan:
    """Return the steps from what is there to what is wanted.

    First goes what must make room for its own replacement, dependents before
    what they depend on; then comes what is new or changed; at last goes what is
    ours and no longer wanted.
    """
    ordered = in_order(wanted)
    drawing = _Drawing(ordered, observed)
    making: list[Step] = []
    clearing: list[Step] = []
    missing: list[Resource] = []
    for one in ordered:
        if one.given:
            if one.address not in observed.resources:
                missing.append(one)
            continue
        for step in drawing.step(one):
            (clearing if step.verb is Verb.REMOVE else making).append(step)
    clearing.reverse()
    leaving = [
        Step(verb=Verb.REMOVE, address=existing.address, existing=existing)
        for existing in _last_first(observed.resources.values())
        if existing.address not in drawing.wanted
    ]
    return Plan(
        steps=_linked(clearing, making, leaving, drawing.wanted),
        missing=tuple(missing),
        unsettled=tuple(one for one in observed.resources.values() if not one.settled),
        monthly_usd=sum(one.monthly_usd for one in ordered),
    )


def plan_removal(order: Iterable[Resource], observed: Observed) -> Plan:
    """Return the steps that take away everything that is ours.

    ``order`` is what the file wants: it says what depends on what. Things of
    ours that it does not know go by their kind.
    """
    given = {one.address for one in order if one.given}
    known = [one for one in in_order(order) if not one.given]
    place = {one.address: number for number, one in enumerate(known)}
    ours = [one for one in observed.resources.values() if one.address not in given]
    strangers = _last_first(one for one in ours if _first_of(one.address) not in place)
    familiar = sorted(
        (one for one in ours if _first_of(one.address) in place),
        key=lambda one: -place[_first_of(one.address)],
    )
    steps = [
        Step(verb=Verb.REMOVE, address=one.address, existing=one) for one in strangers + familiar
    ]
    return Plan(
        steps=_linked(steps, [], [], {one.address: one for one in known}),
        unsettled=tuple(one for one in observed.resources.values() if not one.settled),
    )


def _first_of(address: str) -> str:
    """Return the address of the first of a kind, for a second one (``vpc/main#vpc-…``)."""
    return address.partition("#")[0]


def _last_first(existing: Iterable[Existing]) -> list[Existing]:
    rank = {name: number for number, name in enumerate(KINDS)}
    return sorted(existing, key=lambda one: (-rank[one.kind], one.name))


def _linked(
    clearing: Sequence[Step],
    making: Sequence[Step],
    leaving: Sequence[Step],
    wanted: Mapping[str, Resource],
) -> tuple[Step, ...]:
    """Say of each step which others it waits for."""
    makers = {one.address: one.id for one in making}
    clearers = {one.address: one.id for one in clearing}
    cleared = _linked_removals(clearing, wanted)

    def before_making(step: Step) -> list[str]:
        needs = wanted[step.address].needs()
        earlier = [makers[need] for need in needs if need in makers]
        return [*earlier, *([clearers[step.address]] if step.address in clearers else [])]

    made = [_waiting(step, before_making(step)) for step in making]
    everything = [step.id for step in (*clearing, *making)]
    left: list[Step] = []
    for step in leaving:
        # What nobody wants any more may still be in use until all else is done.
        left.append(_waiting(step, [*everything, *(one.id for one in left)]))
    return (*cleared, *made, *left)


def _linked_removals(steps: Sequence[Step], wanted: Mapping[str, Resource]) -> list[Step]:
    """Have each removal wait for those of what depends on the thing."""
    linked: list[Step] = []
    strangers = [one.id for one in steps if _first_of(one.address) not in wanted]
    dependents: dict[str, list[str]] = {}
    for step in steps:
        address = _first_of(step.address)
        if address not in wanted:
            earlier = strangers[: strangers.index(step.id)]
            linked.append(_waiting(step, earlier))
            continue
        linked.append(_waiting(step, [*strangers, *dependents.get(address, [])]))
        for need in wanted[address].needs():
            dependents.setdefault(need, []).append(step.id)
    return linked


def _waiting(step: Step, needs: Sequence[str]) -> Step:
    return msgspec.structs.replace(step, needs=tuple(dict.fromkeys(needs)))
