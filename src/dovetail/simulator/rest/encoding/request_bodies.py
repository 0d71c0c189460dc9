"""Decoding of request bodies: JSON, YAML (for server-side apply) and protobuf."""

from typing import Any, Final

import msgspec
import yaml
from aiohttp import web

from dovetail.ports.kube_errors import BadRequest, RequestEntityTooLarge, UnsupportedMediaType
from dovetail.simulator.rest.encoding.protobuf import PROTOBUF, decode_protobuf

JSON: Final = "application/json"
APPLY: Final = ("application/apply-patch+yaml", "application/yaml")
_MAX_DEPTH: Final = 200
"""Nesting of YAML collections; the parser recurses."""
_MAX_YAML: Final = 512 << 10
"""Bytes. YAML is decoded at 200 kB/s on the thread that serves all requests; kubectl sends JSON."""
_OPENING_TOKENS: Final = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
_CLOSING_TOKENS: Final = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


class _Loader(yaml.CSafeLoader):
    """Resolves only JSON's types: a date stays a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


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
    if len(data) > _MAX_YAML:
        raise RequestEntityTooLarge(f"the limit of a YAML body is {_MAX_YAML} bytes; send it as JSON")
    try:
        text = data.decode()
        _check_tokens(text)
        # The round trip through JSON converts or rejects values that JSON does not have.
        value = yaml.load(text, _Loader)  # noqa: S506 - a safe loader
        return msgspec.json.decode(msgspec.json.encode(value))
    except (yaml.YAMLError, UnicodeError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BadRequest(f"the body of the request is not YAML: {reason}") from error


def _check_tokens(text: str) -> None:
    """Raise BadRequest for input that would exhaust the YAML parser."""
    depth = 0
    for token in yaml.scan(text, _Loader):
        # A few anchors can expand to more than fits into memory.
        if isinstance(token, yaml.AliasToken):
            raise BadRequest("the body of the request has YAML aliases, which are not supported")
        depth += isinstance(token, _OPENING_TOKENS)
        depth -= isinstance(token, _CLOSING_TOKENS)
        if depth > _MAX_DEPTH:
            raise BadRequest("the body of the request is nested too deeply")
