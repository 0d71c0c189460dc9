"""Which machines the cloud is asked for, for one claim."""

from collections.abc import Iterable

from dovetail.core.instancetypes.capacity import EFA
from dovetail.core.instancetypes.launch_choices import (
    MOST_TYPES,
    Choice,
    Refused,
    choices_for,
    labels_of,
    shape_of,
)
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from tests.support.catalog import ON_DEMAND, RESERVED, SIZE, SPOT, Z1, Z2, a_type, offerings
from tests.support.catalog import reserved as reserved_in

TENANCY = "karpenter.k8s.aws/instance-tenancy"


def a_claim(*wanted: RequirementSpec, relaxed: bool = False, **requests: str) -> NodeClaim:
    marks = {"karpenter.sh/nodeclaim-min-values-relaxed": "true"} if relaxed else {}
    return NodeClaim(
        name="claim",
        requirements=wanted,
        requests=Resources.parse(requests),
        annotations=FrozenDict(marks),
    )


def wants(key: str, *values: str, least: int | None = None) -> RequirementSpec:
    return RequirementSpec(key, Operator.IN, values, least)


def chosen(claim: NodeClaim, types: Iterable[InstanceType]) -> list[Choice]:
    found = choices_for(claim, tuple(types))
    assert not isinstance(found, Refused), found.because
    return list(found)


def names(choices: Iterable[Choice]) -> list[str]:
    return list(dict.fromkeys(one.instance_type.name for one in choices))


def test_all_choices_are_of_one_capacity_type_cheapest_first() -> None:
    def sold(spot: float, on_demand: float) -> list[Offering]:
        return [*offerings(spot, [(SPOT, Z1)]), *offerings(on_demand, [(ON_DEMAND, Z1)])]

    types = [a_type("dear", offered=sold(0.8, 2.0)), a_type("cheap", offered=sold(0.4, 1.0))]

    choices = chosen(a_claim(), types)

    assert names(choices) == ["cheap", "dear"]
    assert {one.offering.capacity_type for one in choices} == {SPOT}


def test_reserved_capacity_goes_before_spot_and_on_demand() -> None:
    held = a_type("held", offered=[*offerings(1.0), reserved_in(Z1, "cr-1", 2)])

    choices = chosen(a_claim(), [held, a_type("cheap", price=0.5)])

    assert [(one.instance_type.name, one.offering.reservation_id) for one in choices] == [
        ("held", "cr-1")
    ]


def test_a_claim_that_asks_for_a_reservation_gets_that_one_only() -> None:
    two = [reserved_in(Z1, "cr-1", 2), reserved_in(Z2, "cr-2", 2)]
    held = a_type("held", offered=[*offerings(1.0), *two])

    choices = chosen(a_claim(wants(label_keys.CAPACITY_RESERVATION_ID, "cr-2")), [held])

    assert [one.offering.reservation_id for one in choices] == ["cr-2"]
    assert choices[0].offering.capacity_type == RESERVED


def test_spot_that_costs_more_than_the_cheapest_on_demand_is_left_out() -> None:
    dear = a_type("dear", offered=offerings(3.0, [(SPOT, Z1)]))
    plain = a_type("plain", offered=offerings(1.0, [(ON_DEMAND, Z1)]))
    cheap = a_type("cheap", offered=offerings(0.5, [(SPOT, Z1)]))

    assert names(chosen(a_claim(), [dear, plain, cheap])) == ["cheap"]
    assert names(chosen(a_claim(), [dear, plain])) == ["plain"]
    assert names(chosen(a_claim(), [dear])) == ["dear"]


def test_at_most_sixty_types_are_named_and_they_are_the_cheapest() -> None:
    types = [a_type(f"type-{number:03d}", price=float(number)) for number in range(100)]

    choices = chosen(a_claim(wants(label_keys.CAPACITY_TYPE, ON_DEMAND)), types)

    assert names(choices) == [f"type-{number:03d}" for number in range(MOST_TYPES)]


def test_accelerated_types_are_left_out_while_others_fit() -> None:
    types = [
        a_type("gpu", price=0.1, more={"nvidia.com/gpu": 1}),
        a_type("m5.metal", price=0.1),
        a_type("plain", price=1.0),
    ]

    assert names(chosen(a_claim(), types)) == ["plain"]
    assert names(chosen(a_claim(**{"nvidia.com/gpu": "1"}), types)) == ["gpu"]


def test_what_does_not_fit_or_cannot_be_had_is_refused_with_a_reason() -> None:
    sold_out = a_type("sold-out", offered=offerings(1.0, closed=True))

    assert isinstance(choices_for(a_claim(), [sold_out]), Refused)
    assert isinstance(choices_for(a_claim(cpu="64"), [a_type("small")]), Refused)


def test_variety_is_held_to_unless_the_claim_was_relaxed() -> None:
    types = [a_type("one"), a_type("two")]
    variety = wants(SIZE, "small", "large", least=2)

    refused = choices_for(a_claim(variety), types)
    relaxed = chosen(a_claim(variety, relaxed=True), types)

    assert isinstance(refused, Refused)
    assert "minValues 2 of size" in refused.because
    assert names(relaxed) == ["one", "two"]


def test_labels_settle_where_and_how_a_machine_was_bought() -> None:
    held = a_type("held", offered=[reserved_in(Z1, "cr-1", 2)])
    (choice,) = chosen(a_claim(), [held])

    labels = labels_of(choice, a_claim(wants(TENANCY, "dedicated")))

    assert labels[label_keys.ZONE] == Z1
    assert labels[label_keys.CAPACITY_TYPE] == RESERVED
    assert labels[label_keys.CAPACITY_RESERVATION_ID] == "cr-1"
    assert labels[TENANCY] == "dedicated"
    assert label_keys.OS not in labels, "the type comes with several"


def test_network_adapters_count_only_where_they_were_asked_for() -> None:
    (choice, *_) = chosen(a_claim(), [a_type("fast", more={EFA: 4})])

    without, _ = shape_of(choice, a_claim())
    with_them, _ = shape_of(choice, a_claim(**{EFA: "1"}))

    assert EFA not in without
    assert with_them[EFA] == 4
