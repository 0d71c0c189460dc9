"""Quantities: every spelling that Kubernetes accepts, parsed exactly."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.kube.quantity import format_amount, parse_amount, parse_quantity

LARGEST = 2**63 - 1
DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}

numbers = st.one_of(
    st.integers(0, 10**6).map(str),
    st.tuples(st.integers(0, 9999), st.integers(0, 9999)).map(lambda two: f"{two[0]}.{two[1]:04}"),
    st.integers(0, 9999).map(lambda part: f".{part}"),
    st.integers(0, 9999).map(lambda whole: f"{whole}."),
    st.integers(0, 9999).map(lambda whole: f"+{whole}"),
)
spellings = st.tuples(
    numbers, st.sampled_from([*DECIMAL_SUFFIXES, *BINARY_SUFFIXES, *(f"e{n}" for n in range(-3, 6)), "E2"])
)


def read_with_decimals(number: str, suffix: str) -> Decimal:
    """Read a quantity in another way than the code under test."""
    if suffix in BINARY_SUFFIXES:
        return Decimal(number) * Decimal(1 << BINARY_SUFFIXES[suffix])
    if suffix in DECIMAL_SUFFIXES:
        return Decimal(number).scaleb(DECIMAL_SUFFIXES[suffix])
    return Decimal(number).scaleb(int(suffix[1:]))


@given(spellings)
def test_every_spelling_agrees_with_an_independent_decimal_reading(spelling: tuple[str, str]) -> None:
    with localcontext() as exact:
        exact.prec = 60
        expected = read_with_decimals(*spelling)

        assert parse_quantity("".join(spelling)) == min(LARGEST, Fraction(expected))


@given(spellings)
def test_amounts_are_rounded_up_to_millicores_and_whole_units(spelling: tuple[str, str]) -> None:
    with localcontext() as exact:
        exact.prec = 60
        expected = read_with_decimals(*spelling)

        assert parse_amount("cpu", "".join(spelling)) == min(LARGEST, math.ceil(expected * 1000))
        assert parse_amount("memory", "".join(spelling)) == min(LARGEST, math.ceil(expected))


@pytest.mark.parametrize(
    ("spelled", "resource", "amount"),
    [
        ("100m", "cpu", 100),
        ("0.1", "cpu", 100),
        (".5", "cpu", 500),
        ("2", "cpu", 2000),
        (2, "cpu", 2000),
        (0.25, "cpu", 250),
        ("1e3", "cpu", 1_000_000),
        ("1u", "cpu", 1),
        ("0", "cpu", 0),
        ("1Gi", "memory", 2**30),
        ("1.5Gi", "memory", 3 * 2**29),
        ("100M", "memory", 10**8),
        ("2E", "memory", 2 * 10**18),
        ("1Ei", "memory", 2**60),
        ("12e6", "memory", 12_000_000),
        ("12E6", "memory", 12_000_000),
        ("128974848000m", "memory", 128_974_848),
        ("1500m", "pods", 2),
        (1e22, "memory", LARGEST),
    ],
)
def test_a_quantity_is_counted_in_the_unit_the_scheduler_compares(
    spelled: str | int | float, resource: str, amount: int
) -> None:
    assert parse_amount(resource, spelled) == amount


@pytest.mark.parametrize("absurd", ["9999999999E", "1e30", "16Ei", "99999999999999999999"])
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_amounts_above_64_bits_are_capped(absurd: str, resource: str) -> None:
    assert parse_amount(resource, absurd) == LARGEST


@pytest.mark.parametrize(
    "wrong", ["", " ", "abc", "1.2.3", "1GiB", "0x10", "1e", "--1", "1_000", "1 Gi", "٣", "Infinity", "1e99"]
)
def test_text_that_is_no_quantity_is_rejected(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"is not a quantity|out of range"):
        parse_quantity(wrong)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), True])
def test_a_value_that_is_no_quantity_is_rejected(wrong: float) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(wrong)


@pytest.mark.parametrize(
    ("wrong", "meant"), [("4GB", "4Gi"), ("512mb", "512Mi"), ("1.5gi", "1.5Gi"), ("10K", "10k")]
)
def test_a_misspelt_suffix_is_reported_with_the_right_one(wrong: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        parse_quantity(wrong)


@given(
    resource=st.sampled_from(["cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu"]),
    amount=st.integers(0, 2**62),
)
def test_an_encoded_amount_decodes_to_the_same(resource: str, amount: int) -> None:
    assert parse_amount(resource, format_amount(resource, amount)) == amount


@pytest.mark.parametrize(
    ("resource", "amount", "written"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 4000, "4"),
        ("memory", 2**31, "2Gi"),
        ("memory", 3 * 2**19, "1536Ki"),
        ("memory", 100, "100"),
        ("memory", 0, "0"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("pods", 1024, "1024"),
    ],
)
def test_an_amount_is_encoded_in_the_shortest_exact_form(resource: str, amount: int, written: str) -> None:
    assert format_amount(resource, amount) == written
