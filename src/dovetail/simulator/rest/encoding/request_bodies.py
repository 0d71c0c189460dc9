"""Decoding of request bodies: JSON, YAML (for server-side apply) and protobuf."""

from typing import Any, Final

import msgspec
from aiohttp import web

from dovetail.codec.text.yaml_reader import ParseError, YamlReader
from dovetail.ports.kube_errors import BadRequest, UnsupportedMediaType
from dovetail.simulator.rest.encoding.protobuf import PROTOBUF, decode_protobuf

JSON: Final = "application/json"
APPLY: Final = ("application/apply-patch+yaml", "application/yaml")
_MAX_MESSAGE: Final = 300
"""Characters about a body that is not YAML; it may quote the body."""


def content_type(request: web.Request) -> str:
    """Return the content type of a request; JSON by default."""
    return request.content_type if "Content-Type" in request.headers else JSON


def decode_object(request: web.Request, data: bytes) -> dict[str, Any]:
    """Decode the object in a body, by its content type."""
    media_type = content_type(request)
    if media_type == JSON:
        value = decode_json(data)
    elif media_type in APPLY:
        value = decode_yaml(data)
    elif media_type == PROTOBUF:
        value = decode_protobuf(data)
    else:
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format: {media_type}; "
            f"accepted media types include: {JSON}, {APPLY[1]}, {PROTOBUF}"
        )
    if not isinstance(value, dict):
        raise BadRequest("the body of the request is not an object")
    return value


def decode_json(data: bytes) -> Any:
    """Decode a JSON body."""
    try:
        return msgspec.json.decode(data)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"the body of the request is not JSON: {error}") from error
    except RecursionError as error:
        raise BadRequest("the body of the request is nested too deeply") from error


def decode_yaml(data: bytes) -> Any:
    """Decode a YAML or JSON body to JSON values."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        pass
    reader = YamlReader("the body of the request", data)
    try:
        value = reader.read_document()
    except ParseError as error:
        raise BadRequest(str(error)[:_MAX_MESSAGE]) from error
    if reader.errors:
        raise BadRequest(str(reader.errors[0])[:_MAX_MESSAGE])
    if reader.has_aliases:
        # A few anchors can expand to more than fits into memory.
        raise BadRequest("the body of the request has YAML aliases, which are not supported")
    return value
