"""Connections that notice soon when nobody is at the other end any more."""

import socket
from typing import Final

from aiohttp import AddrInfoType

_OPTIONS: Final = (
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),
)
"""Seconds, but for the last. A watch says nothing for up to a minute when all is well, so its
silence alone would tell of a machine or a path that is gone only minutes later."""


def lively(address: AddrInfoType) -> socket.socket:
    """Make a socket that asks its peer now and then, and gives it up after half a minute."""
    family, kind, protocol, *_ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        # Not every system has all of them.
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
