"""Audit events of an API server, from log files and exports of CloudWatch.

Accepted are JSON lines, as kube-apiserver writes them; lines with a time before the JSON, as
an export to S3 has them; and the documents of `aws logs filter-log-events` and of
subscriptions, whose messages are audit events.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from dovetail.codec.text.json_reader import JSON_ERRORS
from dovetail.errors import InvalidInputError, ValidationError

_MAX_ERRORS: Final = 20
_FAILED: Final = 300
_LISTS: Final = ("events", "logEvents")
"""Keys of CloudWatch's documents that have messages."""


class ObjectReference(msgspec.Struct, rename="camel"):
    """Object of a request."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = ""
    api_version: str = ""
    subresource: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class AuditEvent(msgspec.Struct, rename="camel", kw_only=True):
    """A stage of a request; objects stay encoded until they are used."""

    audit_id: str = msgspec.field(name="auditID")
    level: str = "Metadata"
    stage: str = ""
    verb: str = ""
    object_ref: ObjectReference | None = None
    response_status: _Status | None = None
    request_object: msgspec.Raw = msgspec.Raw()
    response_object: msgspec.Raw = msgspec.Raw()
    stage_timestamp: Annotated[datetime, msgspec.Meta(tz=True)]
    annotations: dict[str, str] = {}

    @property
    def has_succeeded(self) -> bool:
        status = self.response_status
        return self.stage == "ResponseComplete" and (status is None or 0 < status.code < _FAILED)

    @property
    def is_truncated(self) -> bool:
        """Return True if the API server left the objects out because of their size."""
        return self.annotations.get("audit.k8s.io/truncated") == "true"


_decode_event = msgspec.json.Decoder(AuditEvent).decode


class AuditReader:
    """Reads files of audit events; wrong lines are collected and raised at the end."""

    def __init__(self) -> None:
        self._errors: list[ValidationError] = []
        self.notes: list[str] = []

    def read(self, lines: Iterable[bytes], name: str) -> Iterator[AuditEvent]:
        """Yield the events of a file."""
        stream = iter(lines)
        incomplete = False
        count = number = 0
        for number, line in enumerate(stream, 1):
            text = line.strip()
            if not text:
                continue
            if number == 1 and text in (b"{", b"["):
                # One document over many lines, as the AWS CLI prints it.
                yield from self._read_document(b"".join((line, *stream)), name, 0)
                return
            incomplete = not line.endswith(b"\n")
            before = len(self._errors)
            for event in self._read_line(text, name, number):
                count += 1
                yield event
            if len(self._errors) > before and incomplete and count:
                self._errors.pop()
                self.notes.append(f"{name}:{number} the last line is incomplete and was left out")
        if not number:
            self._fail(name, 0, "the file is empty")

    def check(self) -> None:
        """Raise ``InvalidInputError`` if a line was wrong."""
        if self._errors:
            raise InvalidInputError(self._errors)

    def _read_line(self, text: bytes, name: str, number: int) -> Iterator[AuditEvent]:
        begin = text.find(b"{")
        if 0 < begin <= 64 and text[:4].isdigit():
            text = text[begin:]  # An export to S3 begins each line with its time.
        if (
            any(f'"{key}"'.encode() in text[:4096] for key in (*_LISTS, "message"))
            and b'"auditID"' not in text[:64]
        ):
            yield from self._read_document(text, name, number)
            return
        try:
            yield _decode_event(text)
        except JSON_ERRORS as error:
            self._fail(name, number, f"this is not an audit event: {error}")

    def _read_document(self, text: bytes, name: str, number: int) -> Iterator[AuditEvent]:
        try:
            document = msgspec.json.decode(text)
        except JSON_ERRORS as error:
            self._fail(name, number, f"this is not JSON: {error}")
            return
        for message in _messages(document):
            try:
                yield _decode_event(message)
            except JSON_ERRORS as error:
                self._fail(name, number, f"a message is not an audit event: {error}")

    def _fail(self, name: str, line: int, message: str) -> None:
        self._errors.append(ValidationError(name, line, "", message))
        if len(self._errors) >= _MAX_ERRORS:
            raise InvalidInputError(self._errors)


def _messages(document: Any) -> Iterator[bytes]:
    """Yield the audit events inside a document of CloudWatch, encoded."""
    if isinstance(document, list):
        for entry in document:
            yield from _messages(entry)
    elif isinstance(document, dict):
        message = document.get("message", document.get("@message"))
        if isinstance(message, str):
            yield message.encode()
        elif "auditID" in document:
            yield msgspec.json.encode(document)
        elif "items" in document:
            yield from _messages(document["items"])
        else:
            entries = next((document[key] for key in _LISTS if key in document), None)
            yield from _messages(entries) if entries is not None else (msgspec.json.encode(document),)
