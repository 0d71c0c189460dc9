"""Getting and listing, in the form the caller wants."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.pagination import ObjectList
from dovetail.simulator.rest.encoding.accept import Form, wanted_form
from dovetail.simulator.rest.encoding.query_options import list_options
from dovetail.simulator.rest.encoding.responses import answer, answer_list
from dovetail.simulator.rest.paths import Target
from dovetail.simulator.rest.tables.render import columns_of, head, metadata_only, row

ONE: Final = frozenset({Form.PLAIN, Form.TABLE, Form.METADATA})
MANY: Final = frozenset({Form.PLAIN, Form.TABLE, Form.METADATA_LIST})


class Reader:
    """Answers reads that end."""

    def __init__(self, api: ApiServer, *, now: Callable[[], datetime]) -> None:
        self._api = api
        self._now = now

    def get(self, request: web.Request, target: Target) -> web.Response:
        form = wanted_form(request.headers.get("Accept", ""), ONE)
        obj = self._api.get(
            target.resource, target.name, target.namespace, subresource=target.subresource
        )
        return answer(self.shown(request, target, obj, form))

    def shown(self, request: web.Request, target: Target, obj: Object, form: Form) -> Any:
        """Return one object in a form."""
        if form is Form.TABLE:
            columns = columns_of(target.resource)
            include = request.query.get("includeObject", "Metadata")
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            return {**head(columns, meta), "rows": [row(columns, obj, self._now(), include)]}
        return metadata_only(obj) if form is Form.METADATA else obj

    async def list(self, request: web.Request, target: Target) -> web.StreamResponse:
        form = wanted_form(request.headers.get("Accept", ""), MANY)
        page = self._api.list(target.resource, list_options(target, request.query))
        outer = page.wire()
        del outer["items"]
        if form is Form.TABLE:
            columns = columns_of(target.resource)
            outer = head(columns, outer["metadata"])
            return await answer_list(request, outer, "rows", self._rows(request, page))
        if form is Form.METADATA_LIST:
            outer |= {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            return await answer_list(request, outer, "items", map(metadata_only, page.items))
        return await answer_list(request, outer, "items", page.items)

    def _rows(self, request: web.Request, page: ObjectList) -> Iterator[Object]:
        now, columns = self._now(), columns_of(page.resource)
        include = request.query.get("includeObject", "Metadata")
        for obj in page.items:
            yield row(columns, obj, now, include)
