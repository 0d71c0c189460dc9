"""Reading Kubernetes' protobuf, in which kubectl sends the objects it makes itself."""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from struct import unpack
from typing import Any, Final

from dovetail.ports.kube_errors import BadRequest, UnsupportedMediaType
from dovetail.simulator.rest.encoding.request_bodies import read_json
from dovetail.simulator.rest.schema.tables import Field, tables

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_Entry = tuple[int, int | bytes]
"""A field's number, and what stands there."""


def read_protobuf(data: bytes) -> dict[str, Any]:
    """Return the object that an envelope of Kubernetes' protobuf holds, as its JSON."""
    if not data.startswith(_MAGIC):
        raise BadRequest("the body of the request is no protobuf of Kubernetes")
    try:
        envelope = _last(data[len(_MAGIC) :])
        named = _last(_bytes(envelope.get(1, b"")))
        version, kind = (_text(named.get(number, b"")) for number in (1, 2))
        if kind not in tables():
            raise UnsupportedMediaType(f"{kind or 'this'} is not taken as protobuf; send JSON")
        content = _message(kind, _bytes(envelope.get(2, b"")))
    except (ValueError, IndexError, OverflowError) as error:
        raise BadRequest(f"the body of the request is broken protobuf: {error}") from error
    # Go always writes this one, as zero; it is the server that counts.
    content.get("metadata", {}).pop("generation", None)
    return {"apiVersion": version, "kind": kind, **content}


def _message(kind: str, data: bytes) -> dict[str, Any]:
    known = {one.number: one for one in tables()[kind] if one.number}
    read: dict[str, Any] = {}
    for number, value in _entries(data):
        field = known.get(number)
        if field is not None:
            _take(read, field, value)
    return read


def _take(read: dict[str, Any], field: Field, value: int | bytes) -> None:
    if not field.name:
        read |= _message(field.kind, _bytes(value))
    elif field.is_list:
        read.setdefault(field.name, []).append(_one(field.kind, value))
    elif field.is_map:
        entry = _last(_bytes(value))
        key = _text(entry.get(1, b""))
        read.setdefault(field.name, {})[key] = _one(field.kind, entry.get(2, b""))
    else:
        one = _one(field.kind, value)
        # Go writes empty strings and times that mean: not set.
        if one is not None and one != "":
            read[field.name] = one


def _one(kind: str, value: int | bytes) -> Any:
    scalar = _SCALARS.get(kind)
    return _message(kind, _bytes(value)) if scalar is None else scalar(value)


def _entries(data: bytes) -> Iterator[_Entry]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        shape = tag & 7
        value: int | bytes
        if shape == _VARINT:
            value, at = _varint(data, at)
        elif shape in (_BYTES, _FIXED32, _FIXED64):
            size = {_FIXED32: 4, _FIXED64: 8}.get(shape, 0)
            if shape == _BYTES:
                size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
            if at > len(data):
                raise ValueError("it ends in the middle of a field")
        else:
            raise ValueError(f"it has a field of the unknown shape {shape}")
        yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("it has a number of more than 64 bits")


def _last(data: bytes) -> dict[int, int | bytes]:
    """Return the fields of a message by number; of several, the last counts."""
    return dict(_entries(data))


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("it has a number where something longer belongs")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()


def _whole(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("it has something longer where a number belongs")
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def _time(value: int | bytes) -> str | None:
    entry = _last(_bytes(value))
    if not entry:
        return None
    nanoseconds = _whole(entry.get(2, 0))
    moment = _EPOCH + timedelta(seconds=_whole(entry.get(1, 0)), microseconds=nanoseconds // 1000)
    return moment.isoformat().replace("+00:00", "Z")


def _number_or_text(value: int | bytes) -> int | str:
    entry = _last(_bytes(value))
    return _text(entry.get(3, b"")) if entry.get(1, 0) else _whole(entry.get(2, 0))


_SCALARS: Final[Mapping[str, Callable[[int | bytes], Any]]] = {
    "str": _text,
    "int": _whole,
    "int32": _whole,
    "bool": lambda value: bool(_whole(value)),
    "float": lambda value: unpack("<d", _bytes(value).ljust(8, b"\0"))[0],
    "bytes": lambda value: b64encode(_bytes(value)).decode(),
    "quantity": lambda value: _text(_last(_bytes(value)).get(1, b"")),
    "intstr": _number_or_text,
    "time": _time,
    "microtime": _time,
    "strings": lambda value: [_text(one) for _, one in _entries(_bytes(value))],
    "fields": lambda value: read_json(_bytes(_last(_bytes(value)).get(1, b"{}"))),
    "any": lambda value: read_json(_bytes(_last(_bytes(value)).get(1, b"{}"))),
}
