"""Capacity that is paid for already: which reservation, and when it is full."""

import msgspec
import pytest

from dovetail.aws.instance.launcher import of_one_kind
from dovetail.aws.nodeclass.capacity_reservations import RoomLeft
from dovetail.core.instancetypes.launch_choices import Choice
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, NodeClass
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import NOTHING
from dovetail.ports.cloudprovider import InstanceNotFound
from dovetail.simulator.ec2.capacity import Shortage
from tests.aws.buying import claims
from tests.simulator.ec2.place import ON_DEMAND, A, B, a_claim
from tests.support.moto.process import AwsProcess
from tests.support.moto.server import MotoAws

PLAIN, BLOCK, LOOSE = (
    CapacityReservation(id="cr-plain", instance_type="m5.large", zone=A, available=3),
    CapacityReservation(
        id="cr-block", instance_type="m5.large", zone=A, available=3, kind="capacity-block"
    ),
    CapacityReservation(
        id="cr-loose", instance_type="m5.large", zone=A, available=3, interruptible=True
    ),
)


def a_choice(
    held: CapacityReservation, *, price: float = 0.1, name: str = "m5.large", zone: str = A
) -> Choice:
    return Choice(
        instance_type=InstanceType(name=name, requirements=Requirements(), capacity=NOTHING),
        offering=Offering(
            zone=zone,
            capacity_type=label_keys.RESERVED,
            price=price,
            reservation_id=held.id,
            reservation_capacity=held.available,
        ),
    )


def kept(*choices: Choice) -> list[str]:
    held = (PLAIN, BLOCK, LOOSE, msgspec.structs.replace(PLAIN, id="cr-other"))
    return [one.offering.reservation_id for one in of_one_kind(choices, held)]


def test_the_kind_with_the_cheapest_reservation_is_kept() -> None:
    assert kept(a_choice(PLAIN, price=2), a_choice(BLOCK, price=3), a_choice(LOOSE, price=1)) == [
        "cr-loose"
    ]


def test_of_equals_plain_ones_come_before_blocks_and_those_before_interruptible_ones() -> None:
    plain, block, loose = a_choice(PLAIN), a_choice(BLOCK), a_choice(LOOSE)

    assert kept(loose, block, plain) == ["cr-plain"]
    assert kept(loose, block) == ["cr-block"]


def test_of_a_block_only_the_cheapest_choice_is_kept() -> None:
    assert kept(a_choice(BLOCK, price=2, name="p5.48xlarge"), a_choice(BLOCK, price=1)) == [
        "cr-block"
    ]


def test_for_a_type_and_zone_the_reservation_with_most_room_is_kept() -> None:
    roomy = msgspec.structs.replace(PLAIN, id="cr-other", available=9)

    assert kept(a_choice(PLAIN), a_choice(roomy)) == ["cr-other"]
    assert kept(a_choice(PLAIN), a_choice(roomy, zone=B)) == ["cr-plain", "cr-other"]


def test_what_is_not_reserved_is_left_as_it_is() -> None:
    choice = Choice(
        instance_type=a_choice(PLAIN).instance_type,
        offering=Offering(zone=A, capacity_type=ON_DEMAND, price=1),
    )

    assert of_one_kind([choice], (PLAIN,)) == (choice,)


@pytest.mark.parametrize(
    ("code", "left"), [("ReservationCapacityExceeded", 0), ("RequestLimitExceeded", 3)]
)
def test_a_reservation_is_full_only_when_ec2_says_so(
    moto: MotoAws, process: AwsProcess, code: str, left: int
) -> None:
    room = RoomLeft()
    room.counted({"cr-plain": 3})
    process.use(room)
    process.site.classes["default"] = NodeClass(reservations=(PLAIN,))
    moto.shop.stock.run_short(Shortage(zone=A))
    moto.shop.errors = {("m5.large", A): code}
    claim = a_claim(kinds=[label_keys.RESERVED], types=["m5.large"], created=claims(1)[0].created)

    process.together([process.cloud.create(claim)])

    assert room.left("cr-plain") == left


def test_machines_launched_into_a_reservation_are_taken_off_its_room(
    moto: MotoAws, process: AwsProcess
) -> None:
    room = RoomLeft()
    room.counted({"cr-plain": 3})
    process.use(room)
    process.site.classes["default"] = NodeClass(reservations=(PLAIN,))
    wanted = [
        msgspec.structs.replace(a_claim(f"claim-{number}", kinds=[label_keys.RESERVED]))
        for number in range(2)
    ]

    machines = process.together([process.cloud.create(claim) for claim in wanted])

    kinds = [getattr(one, "capacity_type", one) for one in machines]
    assert kinds == [label_keys.RESERVED] * 2
    assert room.left("cr-plain") == 1
    (request,) = moto.shop.requests
    assert request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "on-demand"


def test_a_machine_that_is_gone_leaves_its_room_in_the_reservation(
    moto: MotoAws, process: AwsProcess
) -> None:
    room = RoomLeft()
    room.counted({"cr-plain": 3})
    process.use(room)
    process.site.classes["default"] = NodeClass(reservations=(PLAIN,))
    machine = process.do(process.cloud.create(a_claim(kinds=[label_keys.RESERVED])))

    process.do(process.cloud.delete(machine.provider_id))
    ending = room.left("cr-plain")
    for _ in range(2):
        with pytest.raises(InstanceNotFound):
            process.do(process.cloud.delete(machine.provider_id))

    assert (ending, room.left("cr-plain")) == (2, 3)
