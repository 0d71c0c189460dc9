"""Wire protocols of AWS, from the side of the server.

Requests are decoded and responses encoded by botocore's service models.

Protocols: ec2 and query (form fields in, XML out), json, and rest-json without body.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

import botocore.session
import msgspec
from moto.core.model import OperationModel, ServiceModel
from moto.core.serialize import get_serializer_class

_CREDENTIAL = re.compile(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/aws4_request")
_XML, _JSON = "text/xml", "application/x-amz-json-1.1"
_NUMBERS = {"integer": int, "long": int, "float": float, "double": float}


class HttpRequest(msgspec.Struct, frozen=True):
    """A request as it arrived; names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class HttpResponse(msgspec.Struct, frozen=True):
    status: int
    content_type: str
    body: bytes


class AwsRequest(msgspec.Struct, frozen=True):
    """A decoded request: ``region`` is the one that it was signed for."""

    service: str
    operation: str
    region: str
    params: dict[str, Any]


class ErrorResponse(Exception):
    """An error response with a code of AWS."""

    def __init__(self, code: str, message: str = "", *, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


@cache
def loader() -> Any:
    """Return the loader of botocore's models; it caches them."""
    return botocore.session.get_session().get_component("data_loader")


@cache
def service_model(service: str) -> ServiceModel:
    return ServiceModel(loader().load_service_model(service, "service-2"), service)


def decode(request: HttpRequest) -> AwsRequest:
    """Decode a request of any of the protocols."""
    scope = _CREDENTIAL.search(request.headers.get("authorization", ""))
    if scope is None:
        raise ErrorResponse("MissingAuthenticationToken", "the request is not signed", status=403)
    region, service = scope.groups()
    model = service_model(service)
    protocol = model.metadata["protocol"]
    params: dict[str, Any]
    if "x-amz-target" in request.headers:
        operation = request.headers["x-amz-target"].rpartition(".")[2]
        params = json.loads(request.body or b"{}")
    elif protocol in ("ec2", "query"):
        fields = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
        operation = fields["Action"]
        shape = model.operation_model(operation).input_shape
        params = _decode_shape(shape, _nest(fields), protocol) if shape else {}
    else:
        operation, params = _route(model, request)
    return AwsRequest(service, operation, region, params)


def encode_result(request: AwsRequest, result: Mapping[str, Any]) -> HttpResponse:
    """Encode a result by the output shape of the operation."""
    model: OperationModel = service_model(request.service).operation_model(request.operation)
    serializer = get_serializer_class(request.service, model.service_model.metadata["protocol"])
    response = serializer(model).serialize(dict(result))
    body = response["body"]
    content_type = response["headers"].get("Content-Type", _XML)
    return HttpResponse(
        response["status_code"], content_type, body.encode() if isinstance(body, str) else body
    )


def encode_error(service: str, error: ErrorResponse) -> HttpResponse:
    """Encode an error response."""
    protocol = service_model(service).metadata["protocol"]
    code, message = escape(error.code), escape(error.message)
    if protocol == "ec2":
        text = f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        return HttpResponse(error.status, _XML, f"{text}<RequestID>0</RequestID></Response>".encode())
    if protocol == "query":
        text = f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error>"
        return HttpResponse(error.status, _XML, f"{text}<RequestId>0</RequestId></ErrorResponse>".encode())
    return HttpResponse(
        error.status, _JSON, json.dumps({"__type": error.code, "message": error.message}).encode()
    )


def _nest(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return form fields as a tree: ``A.1.B=x`` → ``{"A": {"1": {"B": "x"}}}``."""
    tree: dict[str, Any] = {}
    for name, text in fields.items():
        *path, last = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = text
    return tree


def _decode_shape(shape: Any, node: Any, protocol: str) -> Any:
    if shape.type_name == "structure":
        named = ((name, member, _wire_name(member, name, protocol)) for name, member in shape.members.items())
        return {
            name: _decode_shape(member, node[wire], protocol) for name, member, wire in named if wire in node
        }
    if shape.type_name == "list":
        if node == "":
            return []
        if protocol == "query" and not shape.is_flattened:
            node = node[_wire_name(shape.member, "member", protocol)]
        return [_decode_shape(shape.member, node[key], protocol) for key in sorted(node, key=int)]
    if shape.type_name == "boolean":
        return node == "true"
    return _NUMBERS.get(shape.type_name, str)(node)


def _wire_name(shape: Any, default: str, protocol: str) -> str:
    serialization = shape.serialization
    if protocol == "ec2":
        # EC2 capitalizes the names of its responses in requests.
        name = serialization.get("queryName") or serialization.get("name", default)
        return str(name[0].upper() + name[1:])
    return str(serialization.get("name", default))


def _route(model: ServiceModel, request: HttpRequest) -> tuple[str, dict[str, Any]]:
    """Return operation and path parameters of a rest-json request."""
    path = request.path.partition("?")[0]
    for name in model.operation_names:
        http = model.operation_model(name).http
        pattern = re.sub(r"\{(\w+)\+?\}", r"(?P<\1>[^/]+)", http["requestUri"].partition("?")[0])
        match = re.fullmatch(pattern, path)
        if match and http["method"] == request.method:
            return name, {key: unquote(value) for key, value in match.groupdict().items()}
    raise ErrorResponse("UnknownOperationException", f"{request.method} {path}", status=404)
