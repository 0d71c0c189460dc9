"""Audit events of an API server, from log files and exports of CloudWatch.

Accepted are JSON lines, as kube-apiserver writes them; lines with a time before the JSON, as
an export to S3 has them; and the documents of `aws logs`, of Logs Insights and of
subscriptions, whose messages are audit events.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from dovetail.codec.text.json_reader import JSON_ERRORS
from dovetail.codec.text.suggestions import pluralize
from dovetail.errors import InvalidInputError, ValidationError

_MAX_ERRORS: Final = 20
_FAILED: Final = 300
_LISTS: Final = ("events", "logEvents", "results")
"""Keys of CloudWatch's documents that have messages."""
_DATA: Final = "DATA_MESSAGE"
"""Type of CloudWatch's records that have log events; others check that a subscription works."""
_MESSAGE: Final = "@message"
"""Field of Logs Insights that has the message."""


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
_json_decoder = json.JSONDecoder()


class AuditReader:
    """Reads files of audit events; wrong lines are collected and raised at the end."""

    def __init__(self) -> None:
        self._errors: list[ValidationError] = []
        self._notes: list[str] = []
        self._others: dict[str, int] = {}
        """File → messages in it that are no audit events."""
        self._events = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was left out."""
        others = (
            f"{name} left out {pluralize(count, 'message')} of other logs"
            for name, count in self._others.items()
        )
        return (*self._notes, *others)

    def read(self, lines: Iterable[bytes], name: str) -> Iterator[AuditEvent]:
        """Yield the events of a file."""
        stream = iter(lines)
        incomplete = False
        count = number = 0
        for number, line in enumerate(stream, 1):
            text = line.strip()
            if not text:
                continue
            if number == 1 and (text == b"{" or text.startswith(b"[")):
                # One document, often over many lines, as the AWS CLI prints it.
                yield from self._read_document(b"".join((line, *stream)), name, 0)
                return
            incomplete = not line.endswith(b"\n")
            before = len(self._errors)
            for event in self._read_line(text, name, number):
                count += 1
                yield event
            if len(self._errors) > before and incomplete and count and not _is_json(text):
                self._errors.pop()
                self._notes.append(f"{name}:{number} the last line is incomplete and was left out")
        if not number:
            self._fail(name, 0, "is empty")

    def check(self) -> None:
        """Raise ``InvalidInputError`` if a line was wrong, or if all messages are of other logs."""
        if self._errors:
            raise InvalidInputError(self._errors)
        if self._others and not self._events:
            raise InvalidInputError(
                [
                    ValidationError(
                        name, 0, "", f"has no audit events, but {pluralize(count, 'message')} of other logs"
                    )
                    for name, count in self._others.items()
                ]
            )

    def _read_line(self, text: bytes, name: str, number: int) -> Iterator[AuditEvent]:
        begin = text.find(b"{")
        if 0 < begin <= 64 and text[:4].isdigit():
            text = text[begin:]  # An export to S3 begins each line with its time.
        if (
            any(f'"{key}"'.encode() in text[:4096] for key in (*_LISTS, "message", _MESSAGE))
            and b'"auditID"' not in text[:64]
        ):
            yield from self._read_document(text, name, number)
            return
        try:
            event = _decode_event(text)
        except JSON_ERRORS as error:
            self._fail(name, number, f"this is not an audit event: {error}")
            return
        self._events += 1
        yield event

    def _read_document(self, text: bytes, name: str, number: int) -> Iterator[AuditEvent]:
        try:
            documents = _split_documents(text)
        except JSON_ERRORS as error:
            self._fail(name, number, f"this is not JSON: {error}")
            return
        for message in _messages(documents):
            try:
                event = _decode_event(message)
            except JSON_ERRORS as error:
                if _has_audit_id(message):
                    self._fail(name, number, f"a message is not an audit event: {error}")
                else:
                    self._others[name] = self._others.get(name, 0) + 1
                continue
            self._events += 1
            yield event

    def _fail(self, name: str, line: int, message: str) -> None:
        self._errors.append(ValidationError(name, line, "", message))
        if len(self._errors) >= _MAX_ERRORS:
            raise InvalidInputError(self._errors)


def _has_audit_id(message: bytes) -> bool:
    """Return False for lines of other components and messages that CloudWatch cut off."""
    try:
        document = msgspec.json.decode(message)
    except JSON_ERRORS:
        return False
    return isinstance(document, dict) and "auditID" in document


def _split_documents(text: bytes) -> list[Any]:
    """Decode documents that follow each other without a line break, as Firehose writes them."""
    try:
        return [msgspec.json.decode(text)]
    except msgspec.DecodeError:
        decoded, documents, at = text.decode(), list[Any](), 0
        try:
            while (at := _skip_space(decoded, at)) < len(decoded):
                document, at = _json_decoder.raw_decode(decoded, at)
                documents.append(document)
        except json.JSONDecodeError:
            documents.clear()
        if not documents:
            raise
        return documents


def _is_json(line: bytes) -> bool:
    """Return True if a line, after the time that may be before it, is complete."""
    try:
        _split_documents(line[max(line.find(b"{"), 0) :])
    except JSON_ERRORS:
        return False
    return True


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _messages(document: Any) -> Iterator[bytes]:
    """Yield the audit events inside a document of CloudWatch, encoded."""
    if isinstance(document, list):
        for entry in _join_fields(document):
            yield from _messages(entry)
    elif isinstance(document, dict):
        if document.get("messageType", _DATA) != _DATA:
            return
        message = document.get("message", document.get(_MESSAGE))
        if isinstance(message, str):
            yield message.encode()
        elif isinstance(message, dict):
            yield msgspec.json.encode(message)
        elif "auditID" in document:
            yield msgspec.json.encode(document)
        elif "items" in document:
            yield from _messages(document["items"])
        else:
            entries = next((document[key] for key in _LISTS if key in document), None)
            yield from _messages(entries) if entries is not None else (msgspec.json.encode(document),)


def _join_fields(entries: list[Any]) -> list[Any]:
    """Return a row of `aws logs get-query-results`, a list of fields and values, as one object."""
    if entries and all(isinstance(entry, dict) and "field" in entry for entry in entries):
        return [{entry["field"]: entry.get("value") for entry in entries}]
    return entries
