"""Handlers of get and list, in the negotiated representation."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.pagination import ObjectList
from dovetail.simulator.rest.encoding.accept import Representation, negotiate
from dovetail.simulator.rest.encoding.query_options import decode_list_options
from dovetail.simulator.rest.encoding.responses import json_response, list_response
from dovetail.simulator.rest.paths import RequestInfo
from dovetail.simulator.rest.tables.render import (
    encode_partial_object_metadata,
    encode_row,
    encode_table,
    printer_columns,
)

OBJECT_REPRESENTATIONS: Final = frozenset(
    {Representation.OBJECT, Representation.TABLE, Representation.METADATA}
)
LIST_REPRESENTATIONS: Final = frozenset(
    {Representation.OBJECT, Representation.TABLE, Representation.METADATA_LIST}
)


class ReadHandler:
    """Handles get and list."""

    def __init__(self, api: ApiServer, *, now: Callable[[], datetime]) -> None:
        self._api = api
        self._now = now

    def get(self, request: web.Request, info: RequestInfo) -> web.Response:
        representation = negotiate(request.headers.get("Accept", ""), OBJECT_REPRESENTATIONS)
        obj = self._api.get(info.resource, info.name, info.namespace, subresource=info.subresource)
        return json_response(self.transform_object(request, info, obj, representation))

    def transform_object(
        self, request: web.Request, info: RequestInfo, obj: Object, representation: Representation
    ) -> Any:
        """Return an object in a representation and in the version of the request."""
        obj = info.version.to_served(obj)
        if representation is Representation.TABLE:
            columns = printer_columns(info.resource, info.version.custom)
            include = request.query.get("includeObject", "Metadata")
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            row = encode_row(columns, obj, self._now(), include)
            return {**encode_table(columns, meta), "rows": [row]}
        if representation is Representation.METADATA:
            return encode_partial_object_metadata(obj)
        return obj

    async def list(self, request: web.Request, info: RequestInfo) -> web.StreamResponse:
        representation = negotiate(request.headers.get("Accept", ""), LIST_REPRESENTATIONS)
        page = self._api.list(info.resource, decode_list_options(info, request.query))
        head = page.encode() | {"apiVersion": info.version.resource.api_version}
        del head["items"]
        if representation is Representation.TABLE:
            head = encode_table(printer_columns(info.resource, info.version.custom), head["metadata"])
            return await list_response(request, head, "rows", self._encode_rows(request, info, page))
        if representation is Representation.METADATA_LIST:
            head |= {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            items = map(encode_partial_object_metadata, page.items)
            return await list_response(request, head, "items", items)
        return await list_response(request, head, "items", map(info.version.to_served, page.items))

    def _encode_rows(self, request: web.Request, info: RequestInfo, page: ObjectList) -> Iterator[Object]:
        now, columns = self._now(), printer_columns(info.resource, info.version.custom)
        include = request.query.get("includeObject", "Metadata")
        for obj in page.items:
            yield encode_row(columns, obj, now, include)
