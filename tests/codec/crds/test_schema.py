"""Quantities that the schema accepts are those that the decoder accepts."""

import re

from hypothesis import given
from hypothesis import strategies as st

from dovetail.codec.crds.schema import QUANTITY_PATTERN
from dovetail.model.kube.quantity import parse_quantity

CANDIDATES = st.text(alphabet="0123456789.+-eEkKmMGiTn% ", max_size=8)


def is_quantity(text: str) -> bool:
    try:
        return parse_quantity(text) >= 0
    except ValueError as error:
        return "out of range" in str(error)


@given(CANDIDATES)
def test_schema_pattern_accepts_the_quantities_that_the_parser_accepts(text: str) -> None:
    accepted = re.fullmatch(QUANTITY_PATTERN, text) is not None
    # The parser also accepts surrounding blanks and minus zero.
    lenient = text != text.strip() or text.startswith("-")

    assert accepted == is_quantity(text) or (lenient and not accepted)
