"""User data in several parts, as cloud-init and nodeadm read it."""

from collections.abc import Sequence
from email import message_from_string
from email.message import Message
from typing import Final

import msgspec

from dovetail.ports.cloudprovider import NodeClassNotReady

SHELL: Final = 'text/x-shellscript; charset="us-ascii"'
_BOUNDARY: Final = "//"
_STARTS: Final = ("mime-version:", "content-type:")


class Part(msgspec.Struct, frozen=True):
    """One part: its headers, and what follows them word for word."""

    headers: tuple[tuple[str, str], ...]
    body: str

    @staticmethod
    def of(kind: str, body: str) -> "Part":
        return Part((("Content-Type", kind),), body)


def is_multipart(text: str) -> bool:
    """Tell whether somebody has put several parts together already."""
    return text.lstrip().lower().startswith(_STARTS)


def parts_of(text: str) -> list[Part]:
    """Return the parts of user data; refuses what has none."""
    message = message_from_string(text.lstrip())
    if not message.is_multipart():
        kind = message.get_content_maintype()
        if kind == "multipart":
            raise NodeClassNotReady(
                "userData says that it has several parts, but they cannot be told apart; check"
                " that the boundary in its Content-Type is the one between its parts"
            )
        return [_part(message, str(message.get_payload()))]
    return [_part(one, str(one.get_payload())) for one in _inner(message)]


def joined(parts: Sequence[Part]) -> str:
    """Write parts one after the other, with Unix line ends."""
    boundary, attempt = _BOUNDARY, 0
    while any(f"--{boundary}" in one.body for one in parts):
        attempt += 1
        boundary = f"{_BOUNDARY}{attempt}"
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for one in parts:
        lines.append(f"--{boundary}")
        lines += [f"{name}: {value}" for name, value in one.headers]
        lines += ["", one.body.removesuffix("\n")]
    lines += [f"--{boundary}--", ""]
    return "\n".join(lines).replace("\r", "")


def _inner(message: Message) -> list[Message]:
    found = message.get_payload()
    return [one for one in found if isinstance(one, Message)] if isinstance(found, list) else []


def _part(message: Message, body: str) -> Part:
    headers = [
        (name, str(value)) for name, value in message.items() if name.lower() != "mime-version"
    ]
    return Part(tuple(headers) or (("Content-Type", SHELL),), body)
