"""Mutations of real objects: junk and extreme values at any place."""

import copy
from typing import Any

from hypothesis import strategies as st

EXTREME_NUMBERS = (0, -1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0, 1e300, 5e-324)
EXTREME_TEXTS = (
    "",
    " ",
    "\x00",
    "\ufeff",
    "é" * 300,
    "a" * 10_000,
    "9" * 5_000,
    "-1",
    "0",
    "1e400",
    "1e-400",
    "-9E",
    "0x10",
    "1_000",
    "1.2.3",
    "NaN",
    "Infinity",
    "٣",
    "²",
    "150%",
    "-1%",
    "%",
    "999999999999999h",
    "-1s",
    "1h-1m",
    "Never",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "2026-02-30T00:00:00Z",
    "2026-01-01",
    "2026-01-01T00:00:00",
    "* * 31 2 *",
    "@every 1s",
    "*/0 * * * *",
    "a/b/c",
    "/",
    "=",
    ",",
    "aws:///",
    "aws:///us-east-1a/",
    "[",
    "{{",
    "${x}",
    "self.x",
    "(" * 500,
    "(a+)+$" + "a" * 60,
)
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from(EXTREME_NUMBERS)
    | st.sampled_from(EXTREME_TEXTS)
    | st.integers()
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["key", "name", "spec", "values", "cpu", "", "é"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def locations(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in an object, its own included."""
    paths = [at]
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            paths.extend(locations(inner, (*at, key)))
    return paths


def replaced(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of an object with another value at a path."""
    if not at:
        return value
    changed = copy.deepcopy(document)
    parent: Any = changed
    for step in at[:-1]:
        parent = parent[step]
    parent[at[-1]] = value
    return changed


@st.composite
def mutated(draw: st.DrawFn, documents: list[Any], *, most: int = 3) -> Any:
    """Draw a document of which up to ``most`` values are replaced, removed or doubled."""
    document = draw(st.sampled_from(documents))
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.sampled_from(locations(document)))
        change = draw(st.sampled_from(("junk", "junk", "remove", "double")))
        value = _get(document, at)
        if change == "junk" or not at:
            document = replaced(document, at, draw(JUNK))
        elif change == "double":
            document = replaced(document, at, [value, value] if not isinstance(value, list) else value * 2)
        else:
            document = replaced(document, at, None)
        if not isinstance(document, dict | list):
            break
    return document


def _get(value: Any, at: tuple[Any, ...]) -> Any:
    for step in at:
        value = value[step]
    return value
