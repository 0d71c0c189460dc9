"""Cases: the objects, settings and steps of each recording."""

from typing import Any

import msgspec


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Input of one recording; objects are in wire format."""

    name: str
    settings: dict[str, Any]
    nodeclass: dict[str, Any]
    changed_nodeclass: dict[str, Any]
    """Node class of step ``reclass``; empty if there is none."""
    nodepool: dict[str, Any]
    nodeclaims: list[dict[str, Any]]
    messages: list[dict[str, str]]
    steps: list[str]
