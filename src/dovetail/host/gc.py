"""How often Python looks for garbage that refers to itself."""

import gc
from typing import Final

_YOUNG: Final = 50_000
"""New objects between two looks at them; Python's own choice is 700."""


def collect_rarely() -> None:
    """Look through what is in memory less often.

    A look at a large cluster makes some hundred thousand objects that live for
    half a second. Looked at too early they count as old, and once a quarter of
    all objects is newly old, Python looks through everything: a second and more
    where a cluster is in memory, in which nothing else happens.
    """
    gc.set_threshold(_YOUNG, 10, 10)
