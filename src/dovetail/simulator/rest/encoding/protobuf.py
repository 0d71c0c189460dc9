"""Decoding of Kubernetes' protobuf, which kubectl uses for objects it creates.

Messages are decoded by the field numbers of ``schema.fields``, without generated code.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from struct import unpack
from typing import Any, Final

import msgspec

from dovetail.ports.kube_errors import BadRequest, UnsupportedMediaType
from dovetail.simulator.rest.schema.fields import Field, type_name, types_by_name

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_Entry = tuple[int, int | bytes]
"""Field number and raw value."""


def decode_protobuf(data: bytes) -> dict[str, Any]:
    """Decode the object in a Kubernetes protobuf envelope (runtime.Unknown) to JSON."""
    if not data.startswith(_MAGIC):
        raise BadRequest("the body of the request is not Kubernetes protobuf")
    try:
        envelope = _decode_entries(data[len(_MAGIC) :])
        type_meta = _decode_entries(_bytes(envelope.get(1, b"")))
        api_version, kind = (_string(type_meta.get(number, b"")) for number in (1, 2))
        if kind not in types_by_name():
            raise UnsupportedMediaType(f"{kind or 'this object'} is not supported as protobuf; send JSON")
        content = _decode_message(type_name(api_version, kind), _bytes(envelope.get(2, b"")))
    except (ValueError, IndexError, OverflowError, msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"the body of the request is not valid protobuf: {error}") from error
    # Go always encodes the generation, as zero; the server sets it.
    content.get("metadata", {}).pop("generation", None)
    return {"apiVersion": api_version, "kind": kind, **content}


def _decode_message(message_type: str, data: bytes) -> dict[str, Any]:
    fields = {field.number: field for field in types_by_name()[message_type] if field.number}
    message: dict[str, Any] = {}
    for number, value in _iter_entries(data):
        field = fields.get(number)
        if field is not None:
            _set_field(message, field, value)
    return message


def _set_field(message: dict[str, Any], field: Field, value: int | bytes) -> None:
    if not field.name:
        message |= _decode_message(field.type, _bytes(value))
    elif field.is_list:
        message.setdefault(field.name, []).append(_decode_value(field.type, value))
    elif field.is_map:
        entry = _decode_entries(_bytes(value))
        key = _string(entry.get(1, b""))
        message.setdefault(field.name, {})[key] = _decode_value(field.type, entry.get(2, b""))
    else:
        decoded = _decode_value(field.type, value)
        # Go encodes unset strings and times as empty values.
        if decoded is not None and decoded != "":
            message[field.name] = decoded


def _decode_value(value_type: str, value: int | bytes) -> Any:
    decode = _SCALARS.get(value_type)
    return _decode_message(value_type, _bytes(value)) if decode is None else decode(value)


def _iter_entries(data: bytes) -> Iterator[_Entry]:
    offset = 0
    while offset < len(data):
        tag, offset = _decode_varint(data, offset)
        wire_type = tag & 7
        value: int | bytes
        if wire_type == _VARINT:
            value, offset = _decode_varint(data, offset)
        elif wire_type in (_BYTES, _FIXED32, _FIXED64):
            size = {_FIXED32: 4, _FIXED64: 8}.get(wire_type, 0)
            if wire_type == _BYTES:
                size, offset = _decode_varint(data, offset)
            value, offset = data[offset : offset + size], offset + size
            if offset > len(data):
                raise ValueError("truncated field")
        else:
            raise ValueError(f"unknown wire type {wire_type}")
        yield tag >> 3, value


def _decode_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise ValueError("varint of more than 64 bits")


def _decode_entries(data: bytes) -> dict[int, int | bytes]:
    """Return the values of a message by field number; the last one wins."""
    return dict(_iter_entries(data))


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("varint instead of a length-delimited field")
    return value


def _string(value: int | bytes) -> str:
    return _bytes(value).decode()


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("length-delimited field instead of a varint")
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def _time(value: int | bytes) -> str | None:
    entry = _decode_entries(_bytes(value))
    if not entry:
        return None
    nanoseconds = _int(entry.get(2, 0))
    time = _EPOCH + timedelta(seconds=_int(entry.get(1, 0)), microseconds=nanoseconds // 1000)
    return time.isoformat().replace("+00:00", "Z")


def _int_or_string(value: int | bytes) -> int | str:
    entry = _decode_entries(_bytes(value))
    return _string(entry.get(3, b"")) if entry.get(1, 0) else _int(entry.get(2, 0))


def _raw_json(value: int | bytes) -> Any:
    return msgspec.json.decode(_bytes(_decode_entries(_bytes(value)).get(1, b"{}")))


_SCALARS: Final[Mapping[str, Callable[[int | bytes], Any]]] = {
    "str": _string,
    "int": _int,
    "int32": _int,
    "bool": lambda value: bool(_int(value)),
    "float": lambda value: unpack("<d", _bytes(value).ljust(8, b"\0"))[0],
    "bytes": lambda value: b64encode(_bytes(value)).decode(),
    "quantity": lambda value: _string(_decode_entries(_bytes(value)).get(1, b"")),
    "intstr": _int_or_string,
    "time": _time,
    "microtime": _time,
    "strings": lambda value: [_string(member) for _, member in _iter_entries(_bytes(value))],
    "fields": _raw_json,
    "any": _raw_json,
}
