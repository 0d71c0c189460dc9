"""The object in a request's body, whichever way it is written."""

from typing import Any

from dovetail.ports.kubeerrors import BadRequest, UnsupportedMediaType
from dovetail.sim.http.bodies import APPLY, JSON, read_json, read_yaml
from dovetail.sim.http.protobuf import PROTOBUF, read_protobuf


def read_object(data: bytes, content_type: str) -> dict[str, Any]:
    """Return the object that a body of JSON, YAML or protobuf holds."""
    if content_type in ("", JSON):
        value = read_json(data)
    elif content_type in APPLY:
        value = read_yaml(data)
    elif content_type == PROTOBUF:
        value = read_protobuf(data)
    else:
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format: {content_type}; "
            f"accepted media types include: {JSON}, {APPLY[1]}, {PROTOBUF}"
        )
    if not isinstance(value, dict):
        raise BadRequest("the body of the request is no object")
    return value
