"""MIME multipart user data, as cloud-init and nodeadm read it."""

from collections.abc import Sequence
from email import message_from_string
from email.message import Message
from typing import Final

import msgspec

from dovetail.ports.cloudprovider import NodeClassNotReadyError

SHELL: Final = 'text/x-shellscript; charset="us-ascii"'
_BOUNDARY: Final = "//"
_FIRST_HEADERS: Final = ("mime-version:", "content-type:")


class MimePart(msgspec.Struct, frozen=True):
    """One part: its headers and its unchanged body."""

    headers: tuple[tuple[str, str], ...]
    body: str

    @staticmethod
    def of(content_type: str, body: str) -> "MimePart":
        """Return a part with a content type only."""
        return MimePart((("Content-Type", content_type),), body)


def is_multipart(text: str) -> bool:
    """Return True if the user's text has MIME headers already."""
    return text.lstrip().lower().startswith(_FIRST_HEADERS)


def split_parts(text: str) -> list[MimePart]:
    """Return the parts of user data.

    Raises ``NodeClassNotReadyError`` if the text claims to be multipart and is not.
    """
    message = message_from_string(text.lstrip())
    if not message.is_multipart():
        if message.get_content_maintype() == "multipart":
            raise NodeClassNotReadyError(
                "spec.userData is multipart, but its parts cannot be separated; check"
                " that the boundary in its Content-Type is the one between its parts"
            )
        return [_mime_part(message)]
    return [_mime_part(part) for part in _inner_messages(message)]


def join_parts(parts: Sequence[MimePart]) -> str:
    """Return the parts as one multipart text with Unix line ends."""
    boundary, attempt = _BOUNDARY, 0
    while any(f"--{boundary}" in part.body for part in parts):
        attempt += 1
        boundary = f"{_BOUNDARY}{attempt}"
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for part in parts:
        lines.append(f"--{boundary}")
        lines += [f"{name}: {value}" for name, value in part.headers]
        lines += ["", part.body.removesuffix("\n")]
    lines += [f"--{boundary}--", ""]
    return "\n".join(lines).replace("\r", "")


def _inner_messages(message: Message) -> list[Message]:
    payload = message.get_payload()
    if not isinstance(payload, list):
        return []
    return [part for part in payload if isinstance(part, Message)]


def _mime_part(message: Message) -> MimePart:
    headers = [(name, str(value)) for name, value in message.items() if name.lower() != "mime-version"]
    return MimePart(tuple(headers) or (("Content-Type", SHELL),), str(message.get_payload()))
