"""Discount files of users."""

from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dovetail.codec.catalog.discounts import read_discounts
from dovetail.errors import InvalidInputError
from dovetail.model.cloud.discounts import (
    DiscountBook,
    DiscountScope,
    PercentageDiscount,
    ReservedInstances,
    SavingsPlan,
)


def read(text: str) -> DiscountBook:
    return read_discounts("book.yaml", dedent(text).encode())


def mistakes(text: str) -> list[str]:
    with pytest.raises(InvalidInputError) as caught:
        read(text)
    return [str(error) for error in caught.value.errors]


def test_a_discount_file_with_every_field_is_read() -> None:
    book = read("""
        discounts:
          - name: agreement
            percent: 9
          - percent: 20.5
            families: [m7g, "c*"]
            instanceTypes: ["p5.*"]
            regions: [eu-*]
            capacityTypes: [spot]
        savingsPlans:
          - name: compute
            commitment: 12.5
            percent: 46
            regions: [us-east-1]
          - commitment: 3
            percent: 60
        reservations:
          - name: databases
            instanceType: r6i.4xlarge
            count: 10
            price: 0.61
            region: us-east-1
            zone: us-east-1a
    """)

    assert book == DiscountBook(
        source="book.yaml",
        percentages=(
            PercentageDiscount(name="agreement", percent=9),
            PercentageDiscount(
                percent=20.5,
                scope=DiscountScope(
                    families=("m7g", "c*"),
                    instance_types=("p5.*",),
                    regions=("eu-*",),
                    capacity_types=("spot",),
                ),
            ),
        ),
        plans=(
            SavingsPlan(
                name="compute", commitment=12.5, percent=46, scope=DiscountScope(regions=("us-east-1",))
            ),
            SavingsPlan(name="savings plan 2", commitment=3, percent=60),
        ),
        reservations=(
            ReservedInstances(
                name="databases",
                instance_type="r6i.4xlarge",
                count=10,
                price=0.61,
                region="us-east-1",
                zone="us-east-1a",
            ),
        ),
    )
    assert book.hourly_commitment == pytest.approx(12.5 + 3 + 6.1)


def test_the_example_in_the_guide_is_valid() -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/discounts.md").read_text(encoding="utf-8")
    example = guide.partition("```yaml\n")[2].partition("```")[0]

    book = read(example)

    assert len(book.percentages) == 2
    assert book.hourly_commitment == pytest.approx(0.9)


def test_all_errors_are_reported_at_once_with_their_lines() -> None:
    messages = mistakes("""\
        discounts:
          - percent: 9%
          - percent: 0.2
            family: m5
            capacityTypes: [on_demand]
          - regions: []
            percent: 120
            families: [m5.large]
        savingsPlan:
          - commitment: 1
        reservations:
          - instanceType: m5
            count: 0
            price: -1
          - name: reservation 1
            instanceType: m5.large
            count: 1
            price: cheap
    """)

    assert messages == [
        "book.yaml:2 discounts[0].percent: '9%' is not a percentage; write 9",
        "book.yaml:3 discounts[1].percent: 0.2 is not between 1 and 100; write 20 for 20 %",
        "book.yaml:4 discounts[1].family: no such field; there are name, percent, families, "
        "instanceTypes, regions, capacityTypes",
        "book.yaml:5 discounts[1].capacityTypes[0]: 'on_demand' is not a valid capacity type that can be "
        "discounted; did you mean 'on-demand'?",
        "book.yaml:6 discounts[2].regions: is empty; leave it out to mean all",
        "book.yaml:7 discounts[2].percent: 120 is not between 1 and 100",
        "book.yaml:8 discounts[2].families[0]: 'm5.large' is an instance type, no family; see instanceTypes",
        "book.yaml:10 savingsPlan: no such field; did you mean 'savingsPlans'?",
        "book.yaml:12 reservations[0].instanceType: 'm5' is not an instance type; write it as in m7g.large",
        "book.yaml:13 reservations[0].count: is 0, but must be at least 1",
        "book.yaml:14 reservations[0].price: -1 is not a plausible amount in USD per hour",
        "book.yaml:15 reservations[1].name: duplicate name 'reservation 1'; names identify entries in "
        "reports",
        "book.yaml:18 reservations[1].price: 'cheap' is not an amount; write USD per hour as in 12.5",
    ]


def test_an_empty_discount_file_is_an_error() -> None:
    assert mistakes("") == ["book.yaml contains no objects"]
    assert mistakes("discounts: []") == [
        "book.yaml:1 is empty; a discount file has discounts, savingsPlans, reservations"
    ]
    assert mistakes("{discounts: [{percent: 5}]}\n---\n{discounts: [{percent: 5}]}") == [
        "book.yaml contains several documents; a discount file is one"
    ]


def test_missing_fields_are_reported() -> None:
    messages = mistakes("{discounts: [{}], savingsPlans: [{}], reservations: [{}]}")

    assert [message.partition(" ")[2] for message in messages] == [
        "discounts[0].percent: is missing",
        "savingsPlans[0].commitment: is missing",
        "savingsPlans[0].percent: is missing",
        "reservations[0].instanceType: is missing",
        "reservations[0].count: is missing",
        "reservations[0].price: is missing",
    ]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from("percent name families regions count price commitment".split()), inner
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["discounts", "savingsPlans", "reservations", "x"]), ANYTHING))
def test_any_discount_file_is_read_or_rejected_with_messages(value: object) -> None:
    try:
        book = read_discounts("book.yaml", yaml.safe_dump(value).encode())
    except InvalidInputError:
        return

    assert book
    assert all(1 <= discount.percent <= 100 for discount in (*book.percentages, *book.plans))
