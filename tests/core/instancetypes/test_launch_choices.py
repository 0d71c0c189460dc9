"""Launch choices for a claim."""

from collections.abc import Iterable

from dovetail.core.instancetypes.capacity import EFA
from dovetail.core.instancetypes.launch_choices import (
    MAX_TYPES,
    LaunchChoice,
    NoLaunchChoices,
    find_launch_choices,
    launch_labels,
    launch_resources,
)
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from tests.support.scheduling.instance_types import ON_DEMAND, RESERVED, SIZE, SPOT, Z1, Z2, a_type, offerings
from tests.support.scheduling.instance_types import reserved as reserved_in

TENANCY = "karpenter.k8s.aws/instance-tenancy"


def a_claim(*requirements: RequirementSpec, relaxed: bool = False, **requests: str) -> NodeClaim:
    marks = {"karpenter.sh/nodeclaim-min-values-relaxed": "true"} if relaxed else {}
    return NodeClaim(
        name="claim",
        requirements=requirements,
        requests=Resources.parse(requests),
        annotations=FrozenDict(marks),
    )


def requirement(key: str, *values: str, min_values: int | None = None) -> RequirementSpec:
    return RequirementSpec(key, Operator.IN, values, min_values)


def find_choices(claim: NodeClaim, types: Iterable[InstanceType]) -> list[LaunchChoice]:
    choices = find_launch_choices(claim, tuple(types))
    assert not isinstance(choices, NoLaunchChoices), choices.reason
    return list(choices)


def names(choices: Iterable[LaunchChoice]) -> list[str]:
    return list(dict.fromkeys(choice.instance_type.name for choice in choices))


def test_all_choices_are_of_one_capacity_type_cheapest_first() -> None:
    def sold(spot: float, on_demand: float) -> list[Offering]:
        return [*offerings(spot, [(SPOT, Z1)]), *offerings(on_demand, [(ON_DEMAND, Z1)])]

    types = [a_type("expensive", offered=sold(0.8, 2.0)), a_type("cheap", offered=sold(0.4, 1.0))]

    choices = find_choices(a_claim(), types)

    assert names(choices) == ["cheap", "expensive"]
    assert {choice.offering.capacity_type for choice in choices} == {SPOT}


def test_reserved_capacity_goes_before_spot_and_on_demand() -> None:
    reservations = a_type("held", offered=[*offerings(1.0), reserved_in(Z1, "cr-1", 2)])

    choices = find_choices(a_claim(), [reservations, a_type("cheap", price=0.5)])

    assert [(choice.instance_type.name, choice.offering.reservation_id) for choice in choices] == [
        ("held", "cr-1")
    ]


def test_a_claim_that_requires_a_reservation_gets_only_that_one() -> None:
    two = [reserved_in(Z1, "cr-1", 2), reserved_in(Z2, "cr-2", 2)]
    reservations = a_type("held", offered=[*offerings(1.0), *two])

    choices = find_choices(a_claim(requirement(label_keys.CAPACITY_RESERVATION_ID, "cr-2")), [reservations])

    assert [choice.offering.reservation_id for choice in choices] == ["cr-2"]
    assert choices[0].offering.capacity_type == RESERVED


def test_spot_that_costs_more_than_the_cheapest_on_demand_is_left_out() -> None:
    expensive = a_type("expensive", offered=offerings(3.0, [(SPOT, Z1)]))
    plain = a_type("plain", offered=offerings(1.0, [(ON_DEMAND, Z1)]))
    cheap = a_type("cheap", offered=offerings(0.5, [(SPOT, Z1)]))

    assert names(find_choices(a_claim(), [expensive, plain, cheap])) == ["cheap"]
    assert names(find_choices(a_claim(), [expensive, plain])) == ["plain"]
    assert names(find_choices(a_claim(), [expensive])) == ["expensive"]


def test_at_most_sixty_types_are_named_and_they_are_the_cheapest() -> None:
    types = [a_type(f"type-{number:03d}", price=float(number)) for number in range(100)]

    choices = find_choices(a_claim(requirement(label_keys.CAPACITY_TYPE, ON_DEMAND)), types)

    assert names(choices) == [f"type-{number:03d}" for number in range(MAX_TYPES)]


def test_accelerated_types_are_left_out_while_others_fit() -> None:
    types = [
        a_type("gpu", price=0.1, more={"nvidia.com/gpu": 1}),
        a_type("m5.metal", price=0.1),
        a_type("plain", price=1.0),
    ]

    assert names(find_choices(a_claim(), types)) == ["plain"]
    assert names(find_choices(a_claim(**{"nvidia.com/gpu": "1"}), types)) == ["gpu"]


def test_types_that_do_not_fit_or_are_unavailable_give_a_reason() -> None:
    sold_out = a_type("sold-out", offered=offerings(1.0, closed=True))

    assert isinstance(find_launch_choices(a_claim(), [sold_out]), NoLaunchChoices)
    assert isinstance(find_launch_choices(a_claim(cpu="64"), [a_type("small")]), NoLaunchChoices)


def test_min_values_hold_unless_the_claim_was_relaxed() -> None:
    types = [a_type("one"), a_type("two")]
    two_sizes = requirement(SIZE, "small", "large", min_values=2)

    refused = find_launch_choices(a_claim(two_sizes), types)
    relaxed = find_choices(a_claim(two_sizes, relaxed=True), types)

    assert isinstance(refused, NoLaunchChoices)
    assert "minValues 2 of size" in refused.reason
    assert names(relaxed) == ["one", "two"]


def test_launch_labels_have_zone_and_capacity_type() -> None:
    reservations = a_type("held", offered=[reserved_in(Z1, "cr-1", 2)])
    (choice,) = find_choices(a_claim(), [reservations])

    labels = launch_labels(choice, a_claim(requirement(TENANCY, "dedicated")))

    assert labels[label_keys.ZONE] == Z1
    assert labels[label_keys.CAPACITY_TYPE] == RESERVED
    assert labels[label_keys.CAPACITY_RESERVATION_ID] == "cr-1"
    assert labels[TENANCY] == "dedicated"
    assert label_keys.OS not in labels, "the type comes with several"


def test_efa_counts_only_if_the_claim_requests_it() -> None:
    (choice, *_) = find_choices(a_claim(), [a_type("fast", more={EFA: 4})])

    without, _ = launch_resources(choice, a_claim(), lists_interfaces=False)
    with_them, _ = launch_resources(choice, a_claim(**{EFA: "1"}), lists_interfaces=False)

    assert EFA not in without
    assert with_them[EFA] == 4


def test_efa_of_listed_interfaces_always_counts() -> None:
    (choice, *_) = find_choices(a_claim(), [a_type("fast", more={EFA: 2})])

    capacity, allocatable = launch_resources(choice, a_claim(), lists_interfaces=True)

    assert (capacity[EFA], allocatable[EFA]) == (2, 2)
