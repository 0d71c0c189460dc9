"""Machines for claims that are alike, with as few calls as can be.

Which of several capacity reservations to launch into.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dovetail.aws.errors import SUBNET_FULL, TEMPLATE_GONE, AwsError, Kind, kind_of, launch_reason
from dovetail.aws.instance.create_fleet import (
    Answer,
    Failure,
    Order,
    answer_of,
    request_of,
    token_of,
    told_of,
)
from dovetail.aws.instance.fleet_request import Plan, Purchase, addresses_of, alike, plan_of
from dovetail.aws.instance.fleet_retries import LostOrder, LostOrders
from dovetail.aws.launchtemplate.launch_config import Addresses, Launchable
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass.capacity_reservations import RoomLeft
from dovetail.aws.session import Aws
from dovetail.core.instancetypes.launch_choices import Choice, Refused, choices_for
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import CloudError, CreateFailed, InsufficientCapacity
from dovetail.ports.event_loop import Clock
from dovetail.state.instancetypes.unavailable_offerings import Scarce, Scarcity

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client


_PLAIN, _BLOCK, _INTERRUPTIBLE = range(3)
"""In the order of preference."""


def of_one_kind(
    choices: Sequence[Choice], reservations: Iterable[CapacityReservation]
) -> tuple[Choice, ...]:
    """Return the reserved choices that one order can hold, cheapest first.

    EC2 launches into plain reservations, capacity blocks and interruptible ones
    by requests of different forms, so the kind that has the cheapest choice is
    kept; of equals the plain ones, then blocks. A block is one type in one place.
    Of several reservations for a type and zone the one with most room is kept.
    """
    kinds = {one.id: _kind(one) for one in reservations}
    known = [one for one in choices if one.offering.reservation_id in kinds]
    if not known:
        return tuple(choices)
    cheapest = min(known, key=lambda one: (one.offering.price, kinds[one.offering.reservation_id]))
    kind = kinds[cheapest.offering.reservation_id]
    if kind == _BLOCK:
        return (cheapest,)
    roomiest: dict[tuple[str, str], Choice] = {}
    for one in known:
        if kinds[one.offering.reservation_id] == kind:
            place = (one.instance_type.name, one.offering.zone)
            best = roomiest.setdefault(place, one)
            if one.offering.reservation_capacity > best.offering.reservation_capacity:
                roomiest[place] = one
    return tuple(roomiest.values())


def _kind(one: CapacityReservation) -> int:
    if one.kind == "capacity-block":
        return _BLOCK
    return _INTERRUPTIBLE if one.interruptible else _PLAIN


_SHOWN: Final = 3
_REMEMBERED: Final = 10_000
_ALIKE: Final = 256


class LostAnswer(CreateFailed):
    """EC2 may have bought something, and did not say so."""


_UNTOLD: Final = LostAnswer(
    "InternalError",
    "CreateFleet: EC2 was asked the same again and did not say what it had launched;"
    " its machines will be looked for",
)


class Buyer:
    """Buys until all claims have a machine or nothing is left to ask for."""

    def __init__(
        self,
        *,
        aws: Aws,
        ec2: "EC2Client",
        templates: LaunchTemplates,
        addresses: Addresses,
        scarcity: Scarcity,
        clock: Clock,
        cluster: str,
        room: RoomLeft | None = None,
        own_prices: bool = False,
    ) -> None:
        """Buy for one cluster; with ``own_prices``, by ours instead of those that EC2 knows."""
        self._own_prices = own_prices
        self._aws = aws
        self._ec2 = ec2
        self._templates = templates
        self._addresses = addresses
        self._scarcity = scarcity
        self._clock = clock
        self._cluster = cluster
        self._room = room or RoomLeft()
        self._lost = LostOrders()
        self._attempts: Counter[str] = Counter()
        """How often a request was answered, by the token it had the first time."""
        self._considered: tuple[InstanceType, ...] = ()
        self._choices: dict[Any, tuple[Choice, ...] | Refused] = {}
        """What to ask for, among ``_considered``, for claims that are alike."""

    async def buy(
        self,
        claims: Sequence[NodeClaim],
        launchable: Launchable,
        types: Callable[[], tuple[InstanceType, ...]],
    ) -> list[Purchase | Exception]:
        """Return a machine or an error for each of the claims, which must be alike.

        What is sold out is set aside and the rest asked for at once, until EC2 has
        nothing of what the claims allow. Orders whose answer got lost come first.
        """
        late = await self._late(claims)
        new = [claim for claim in claims if claim.uid not in late]
        outcomes = await self._buy(new, launchable, types)
        known = late | dict(zip((one.uid for one in new), outcomes, strict=True))
        return [known[claim.uid] for claim in claims]

    def may_have_bought(self, claim: NodeClaim) -> bool:
        """Tell whether an order for a claim is still without an answer."""
        return self._lost.concerns(claim)

    async def _late(self, claims: Sequence[NodeClaim]) -> dict[str, Purchase | Exception]:
        """Return what was bought for claims by orders whose answers got lost."""
        failed: dict[str, Purchase | Exception] = {}
        for order in self._lost.of(claims):
            try:
                answer = await self._answer(order)
            except LostAnswer as error:
                failed |= {claim.uid: for_claim(claim, error) for claim in order.plan.claims}
                continue
            except AwsError:
                answer = Answer()  # An error in EC2's own words: nothing was bought.
            else:
                if not answer.bought and not answer.failures:
                    # Known to EC2, and it does not say as what: their tags will.
                    self._lost.settle(order, ())
                    failed |= {one.uid: for_claim(one, _UNTOLD) for one in order.plan.claims}
                    continue
            purchases = order.plan.purchases(answer)
            if self._lost.settle(order, purchases):
                self._note(order.plan, answer, purchases)
        found = {claim.uid: self._lost.take(claim) for claim in claims}
        return failed | {uid: one for uid, one in found.items() if one is not None}

    async def _buy(
        self,
        claims: Sequence[NodeClaim],
        launchable: Launchable,
        types: Callable[[], tuple[InstanceType, ...]],
    ) -> list[Purchase | Exception]:
        outcomes: list[Purchase | Exception] = []
        failed: list[Failure] = []
        while left := claims[len(outcomes) :]:
            choices = self._choices_for(left[0], types())
            if isinstance(choices, Refused):
                return outcomes + [_nothing_left(claim, failed, choices) for claim in left]
            try:
                bought, failures = await self._order(left, launchable, choices)
            except CloudError as error:
                return outcomes + [for_claim(claim, error) for claim in left]
            outcomes += bought
            failed += failures
            if not bought and not any(one.is_scarcity for one in failures):
                told = told_of(failures) or "EC2 returned too few instances, and no error"
                # Nothing at all may mean that EC2 knew the token, and does not repeat itself.
                error_kind = CreateFailed if failures else LostAnswer
                useless = error_kind(launch_reason(told), told)
                return outcomes + [for_claim(claim, useless) for claim in left]
        return outcomes

    def _choices_for(
        self, claim: NodeClaim, types: tuple[InstanceType, ...]
    ) -> tuple[Choice, ...] | Refused:
        """Work it out once for claims that are alike: it takes a while, and the loop waits."""
        key = alike(claim)
        if types is not self._considered or len(self._choices) >= _ALIKE:
            self._considered = types
            self._choices.clear()
        if key not in self._choices:
            self._choices[key] = choices_for(claim, types)
        return self._choices[key]

    async def _order(
        self, claims: Sequence[NodeClaim], launchable: Launchable, choices: tuple[Choice, ...]
    ) -> tuple[list[Purchase], tuple[Failure, ...]]:
        plan = plan_of(
            claims,
            launchable=launchable,
            choices=of_one_kind(choices, launchable.node_class.reservations),
            addresses=self._addresses,
            cluster=self._cluster,
        )
        templates = plan.templates()
        order = plan.order(await self._templates.ensure(templates))
        if self._own_prices and order.capacity_type == label_keys.ON_DEMAND:
            order = msgspec.structs.replace(order, priced_by_overlay=True)
        try:
            answer = await self._fleet(plan, order)
        except AwsError as error:
            if error.code not in TEMPLATE_GONE:
                raise
            # Somebody deleted what we took to be there: made anew, it must be.
            self._templates.forget([one.template for one in order.configs])
            await self._templates.ensure(templates)
            answer = await self._fleet(plan, order)
        for failure in answer.failures:
            self._aws.metrics.count(
                "karpenter_cloudprovider_instance_launch_failures_total",
                zone=failure.zone,
                capacity_type=plan.capacity_type,
                reason=failure.code,
            )
        purchases = plan.purchases(answer)
        self._note(plan, answer, purchases)
        return purchases, answer.failures

    def _note(self, plan: Plan, answer: Answer, purchases: Iterable[Purchase]) -> None:
        """Remember what turned out to be sold out, and what reservations have left."""
        for failure in answer.failures:
            if failure.code == SUBNET_FULL:
                self._addresses.exhaust(failure.subnet)
        self._set_aside(answer.failures, plan)
        for reservation in plan.filled_up(answer):
            self._room.exhaust(reservation)
        for one in purchases:
            if one.choice.offering.reservation_id:
                self._room.take(one.choice.offering.reservation_id)

    async def _fleet(self, plan: Plan, order: Order) -> Answer:
        """Call, with the addresses that the machines will need counted as taken."""
        needed, used = addresses_of(order), Counter[str]()
        self._addresses.take({one: many * order.count for one, many in needed.items()})
        try:
            answer = await self._create_fleet(plan, order)
            used.update(one.subnet for one in answer.bought)
        finally:
            self._addresses.give_back(
                {one: many * (order.count - used[one]) for one, many in needed.items()}
            )
        return answer

    async def _create_fleet(self, plan: Plan, order: Order) -> Answer:
        request = request_of(order)
        first = token_of(request, 0)
        token = token_of(request, self._attempts[first])
        order_made = LostOrder(plan=plan, request=request, token=token)
        try:
            answer = await self._answer(order_made)
        except LostAnswer:
            self._lost.add(order_made)
            raise
        finally:
            self._answered(first)
        return answer

    async def _answer(self, order: LostOrder) -> Answer:
        def call() -> Any:
            return self._ec2.create_fleet(ClientToken=order.token, **order.request)

        try:
            response = await self._aws.call("CreateFleet", call)
        except AwsError as error:
            if error.kind is Kind.TRANSIENT:
                raise LostAnswer(error.reason, str(error)) from error
            raise
        zones = {subnet.id: subnet.zone for subnet in order.plan.launchable.subnets}
        return answer_of(response, zones)

    def _answered(self, first: str) -> None:
        """Have the next request like this be a new one: EC2 repeats answers, errors included."""
        if len(self._attempts) >= _REMEMBERED:
            self._attempts.clear()
        self._attempts[first] += 1

    def _set_aside(self, failures: Iterable[Failure], plan: Plan) -> None:
        kind = plan.capacity_type
        marks = [
            Scarce(capacity_type=label_keys.SPOT)
            if kind_of(one.code) is Kind.NO_SPOT_ROLE
            else Scarce(capacity_type=kind, instance_type=one.instance_type, zone=one.zone)
            for one in failures
            if one.is_scarcity and not self._has_another_subnet(one, plan)
        ]
        self._scarcity.mark(marks, now=self._clock.now())

    def _has_another_subnet(self, failure: Failure, plan: Plan) -> bool:
        """Tell whether only a subnet was full, and its zone has another with addresses left."""
        return failure.code == SUBNET_FULL and any(
            self._addresses.free(one.id) > 0
            for one in plan.launchable.subnets
            if one.zone == failure.zone
        )


def for_claim(claim: NodeClaim, error: CloudError) -> CloudError:
    """Return an error that names the claim: of those for many, each gets its own."""
    told = f"nodeclaim {claim.name}: {error}"
    if isinstance(error, CreateFailed):
        return type(error)(error.reason, told)
    if isinstance(error, AwsError):
        return CreateFailed(error.reason, told)
    return type(error)(told)


def _nothing_left(
    claim: NodeClaim, failed: Sequence[Failure], refused: Refused
) -> InsufficientCapacity:
    if not failed:
        return InsufficientCapacity(f"nodeclaim {claim.name}: {refused.because}")
    pools = [f"{one.instance_type}/{one.zone} ({one.code})" for one in failed]
    shown, more = ", ".join(pools[:_SHOWN]), len(pools) - _SHOWN
    rest = f", … and {more} more" if more > 0 else ""
    return InsufficientCapacity(
        f"nodeclaim {claim.name}: EC2 has no capacity in {shown}{rest}; "
        "these are set aside for 3m, and its pods will be given others"
    )
