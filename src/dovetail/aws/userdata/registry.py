"""Which family writes user data how."""

from collections.abc import Callable
from typing import Final

from dovetail.aws.userdata import al2, al2023, bottlerocket, windows
from dovetail.aws.userdata.bootstrap import Bootstrap

LONGEST: Final = 16384
"""Bytes that EC2 takes, before they are encoded."""


def custom(one: Bootstrap) -> str:
    """Return what the user wrote, word for word: only the user knows how the image boots."""
    return one.user_data or ""


_RENDERERS: Final[dict[str, Callable[[Bootstrap], str]]] = {
    "AL2": al2.render,
    "AL2023": al2023.render,
    "Bottlerocket": bottlerocket.render,
    "Windows2019": windows.render,
    "Windows2022": windows.render,
    "Windows2025": windows.render,
}


def render(family: str, one: Bootstrap) -> bytes:
    """Return user data, not encoded; raises ``NodeClassNotReady`` when it cannot be made."""
    return _RENDERERS.get(family, custom)(one).encode()
