"""AWS calls as they arrive over HTTP, decoded by the models of the SDK."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
from moto.core.model import ServiceModel
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.utils import get_service_model
from werkzeug.datastructures import Headers, MultiDict

_SCOPE = re.compile(r"Credential=[^/]+/\d+/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")
_PATHS = {
    ("eks", "GET"): ("DescribeCluster", re.compile(r"/clusters/(?P<name>[^/]+)")),
    ("arc-zonal-shift", "GET"): (
        "GetManagedResource",
        re.compile(r"/managedresources/(?P<resourceIdentifier>.+)"),
    ),
}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a client signed."""

    service: str
    operation: str
    region: str
    """Of the signature; a global service has one, too."""
    parameters: Mapping[str, Any]


def decode_call(environ: Mapping[str, Any], body: bytes) -> Call | None:
    """Decode a request to the emulator; None if it is not signed."""
    scope = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
    if scope is None:
        return None
    service, region = scope["service"], scope["region"]
    operation, parameters = _decode(service, environ, body)
    return Call(service=service, operation=operation, region=region, parameters=parameters)


def _decode(service: str, environ: Mapping[str, Any], body: bytes) -> tuple[str, dict[str, Any]]:
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return target.rpartition(".")[2], json.loads(body or b"{}")
    if (service, environ["REQUEST_METHOD"]) in _PATHS:
        operation, path = _PATHS[service, environ["REQUEST_METHOD"]]
        matched = path.fullmatch(unquote(environ["PATH_INFO"]))
        assert matched is not None, environ["PATH_INFO"]
        return operation, matched.groupdict()
    values = MultiDict(parse_qsl(body.decode(), keep_blank_values=True))
    model: ServiceModel = get_service_model(service)
    operation = values["Action"]
    parser = PROTOCOL_PARSERS["ec2" if service == "ec2" else "query"](model.operation_model(operation))
    request = {"method": "POST", "values": values, "headers": Headers(), "body": body, "url_path": "/"}
    return operation, json.loads(msgspec.json.encode(parser.parse({**request, "url_params": {}})))
