"""TOML encoder: Bottlerocket reads what it writes."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dovetail.aws.amifamily.bottlerocket import to_toml

SCALAR = st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False)
TABLES = st.recursive(
    st.dictionaries(st.text(), SCALAR | st.lists(SCALAR, max_size=3), max_size=4),
    lambda inner: st.dictionaries(st.text(), inner | SCALAR, max_size=3),
    max_leaves=8,
)


@given(TABLES)
def test_decoding_returns_the_encoded_document(table: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(table)) == table
