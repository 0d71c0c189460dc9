"""Price files of users."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.codec.catalog.prices import COLUMNS, read_prices
from dovetail.errors import InvalidInputError
from dovetail.model.cloud.prices import PriceBook

HEADER = ",".join(COLUMNS)


def read(*lines: str) -> PriceBook:
    return read_prices("book.csv", "\n".join((HEADER, *lines)).encode())


def mistakes(*lines: str) -> list[str]:
    with pytest.raises(InvalidInputError) as caught:
        read(*lines)
    return [str(error) for error in caught.value.errors]


def test_prices_are_looked_up_by_region_and_zone_id() -> None:
    book = read("m5.large,us-east-1,use1-az4,0.096,0.04", "m5.large,us-east-1,use1-az6,0.096,0.05")

    assert book.on_demand("m5.large", "us-east-1") == 0.096
    assert book.spot("m5.large", region="us-east-1", zone_id="use1-az4") == 0.04
    assert book.spot("m5.large", region="us-east-1", zone_id="use1-az6") == 0.05
    assert book.source == "book.csv"


def test_a_zone_can_be_given_by_name() -> None:
    book = read("m5.large,us-east-1,us-east-1a,0.096,0.04")

    assert book.spot("m5.large", region="us-east-1", zone="us-east-1a", zone_id="use1-az6") == 0.04


def test_an_offering_missing_in_the_price_file_has_no_price() -> None:
    book = read("m5.large,us-east-1,use1-az4,0.096,", "p5.48xlarge,us-east-1,use1-az4,,")

    assert book.spot("m5.large", region="us-east-1", zone_id="use1-az4") is None
    assert book.on_demand("m5.large", "eu-west-1") is None
    assert book.on_demand("p5.48xlarge", "us-east-1") is None
    assert book.covers_region("us-east-1")
    assert not book.covers_region("eu-west-1")


def test_a_local_zone_keeps_its_own_price_and_does_not_set_the_regions() -> None:
    book = read("m5.large,us-west-2,usw2-lax1-az1,0.115,", "m5.large,us-west-2,usw2-az1,0.096,0.04")

    assert book.on_demand("m5.large", "us-west-2", "usw2-lax1-az1") == 0.115
    assert book.on_demand("m5.large", "us-west-2", "usw2-az9") == 0.096


def test_columns_can_be_in_any_order_and_unknown_columns_are_ignored() -> None:
    text = (
        "region,spot_usd_per_hour,note,instance_type,zone_id,on_demand_usd_per_hour\n"
        'us-east-1,0.04,"cheap, so far",m5.large,use1-az4,0.096\n'
    )

    book = read_prices("book.csv", text.encode("utf-8-sig"))

    assert book.on_demand("m5.large", "us-east-1") == 0.096


def test_comments_are_skipped_and_can_set_the_date() -> None:
    text = f"# our discounts\n# date: 2026-08-22\n{HEADER}\n\nm5.large,us-east-1,use1-az4,0.1,\n"

    assert read_prices("book.csv", text.encode(), date="2020-01-01").date == "2026-08-22"
    assert read("m5.large,us-east-1,use1-az4,0.1,").date == ""


def test_every_error_has_line_field_and_a_valid_example() -> None:
    assert mistakes(
        "m5.large,us-east-1,use1-az4,$0.096,0.04",
        "m5,us_east_1,zone 4,0.096,",
        "m5.large,us-east-1,use1-az6,-1,nan",
        "m5.large,us-east-1",
        "m5.large,us-east-1,use1-az6,cheap,",
    ) == [
        "book.csv:2 on_demand_usd_per_hour: '$0.096' is not a number; write 0.096",
        "book.csv:3 instance_type: 'm5' is invalid; write it as in m5.large",
        "book.csv:3 region: 'us_east_1' is invalid; write it as in us-east-1",
        "book.csv:3 zone_id: 'zone 4' is invalid; write it as in use1-az4",
        "book.csv:4 on_demand_usd_per_hour: '-1' is not a price per hour; leave it empty if there is none",
        "book.csv:4 spot_usd_per_hour: 'nan' is not a price per hour; leave it empty if there is none",
        "book.csv:5 2 fields where the header has 5",
        "book.csv:6 on_demand_usd_per_hour: 'cheap' is not a number; write it as in 0.096",
    ]


def test_two_prices_of_one_offering_are_an_error() -> None:
    first, second = "m5.large,us-east-1,use1-az4,0.096,", "m5.large,us-east-1,use1-az4,0.1,0.04"

    assert mistakes(first, second) == [
        "book.csv:3 on_demand_usd_per_hour: 0.1 contradicts line 2, which says 0.096"
    ]


def test_a_row_can_repeat_or_complete_an_earlier_row() -> None:
    book = read("m5.large,us-east-1,use1-az4,0.096,", "m5.large,us-east-1,use1-az4,0.096,0.04")

    assert book.spot("m5.large", region="us-east-1", zone_id="use1-az4") == 0.04


def test_a_misspelt_column_is_named() -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_prices("book.csv", HEADER.replace("zone_id", "zone-id").encode())

    assert str(caught.value) == "book.csv:1 zone_id: column missing; is 'zone-id' meant?"


def test_a_file_with_a_thousand_errors_reports_the_first_and_counts_the_rest() -> None:
    messages = mistakes(*["m5.large,us-east-1,use1-az4,free,"] * 1000)

    assert len(messages) == 26
    assert messages[-1] == "book.csv and 975 more errors like these"


@given(st.binary() | st.text(alphabet='m5.,-az1"#\r\n$').map(lambda text: f"{HEADER}\n{text}".encode()))
def test_any_price_file_is_read_or_rejected_with_messages(data: bytes) -> None:
    errors: tuple[object, ...] = ()
    try:
        book = read_prices("book.csv", data)
        errors = (*book.on_demand_prices, *book.spot_prices)
    except InvalidInputError as refusal:
        errors = refusal.errors

    assert errors


def test_a_very_long_field_is_rejected_like_any_other() -> None:
    assert mistakes('"' + "x" * 200_000 + '",us-east-1,use1-az4,1,') == [
        "book.csv:2 1 fields where the header has 5"
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", f"book.csv is empty; the first line must be {HEADER}"),
        (b"\n# nothing\n", f"book.csv is empty; the first line must be {HEADER}"),
        (HEADER.encode(), "book.csv:1 no prices below the header"),
        (HEADER.encode() + b"\nm5.\xff", "book.csv:2 not UTF-8 text; save it as CSV in UTF-8"),
    ],
)
def test_files_without_prices_are_rejected(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_prices("book.csv", data)

    assert str(caught.value) == message
