"""Amounts as a schema spells them are amounts as we read them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from dovetail.codec.crds.schema import AMOUNT
from dovetail.model.kube.quantity import parse_quantity

SPELT = st.text(alphabet="0123456789.+-eEkKmMGiTn% ", max_size=8)


def is_amount(text: str) -> bool:
    try:
        return parse_quantity(text) >= 0
    except ValueError as error:
        return "out of range" in str(error)


@given(SPELT)
def test_a_schema_takes_the_amounts_that_we_read(text: str) -> None:
    taken = re.fullmatch(AMOUNT, text) is not None
    forgiven = text != text.strip() or text.startswith("-")  # Blanks around it, and minus nothing.

    assert taken == is_amount(text) or (forgiven and not taken)
