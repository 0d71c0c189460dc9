"""The object in a request's body, whichever way it is written."""

from typing import Any

from aiohttp import web

from dovetail.ports.kube_errors import BadRequest, UnsupportedMediaType
from dovetail.simulator.rest.encoding.protobuf import PROTOBUF, read_protobuf
from dovetail.simulator.rest.encoding.request_bodies import APPLY, JSON, read_json, read_yaml


def content_type(request: web.Request) -> str:
    """Return what a body is said to be; nothing said is JSON."""
    return request.content_type if "Content-Type" in request.headers else JSON


def read_object(request: web.Request, data: bytes) -> dict[str, Any]:
    """Return the object that a body of JSON, YAML or protobuf holds."""
    said = content_type(request)
    if said == JSON:
        value = read_json(data)
    elif said in APPLY:
        value = read_yaml(data)
    elif said == PROTOBUF:
        value = read_protobuf(data)
    else:
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format: {said}; "
            f"accepted media types include: {JSON}, {APPLY[1]}, {PROTOBUF}"
        )
    if not isinstance(value, dict):
        raise BadRequest("the body of the request is no object")
    return value
