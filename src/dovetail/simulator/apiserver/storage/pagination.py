"""Paginated lists: all pages of a list are from the same resourceVersion."""

from collections import OrderedDict
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import BadRequest, Gone
from dovetail.simulator.apiserver.storage.frozen_object import Object

_MAX_OPEN_LISTS: Final = 64
"""Lists that may be partly read at a time; the least recently used one expires."""


class ObjectList(msgspec.Struct, frozen=True):
    """A page of objects, its resourceVersion and the token of the next page."""

    resource: Resource
    items: list[Object]
    resource_version: str
    continue_token: str = ""
    remaining_item_count: int = 0

    def encode(self) -> dict[str, Any]:
        """Return the List object in wire format."""
        meta: dict[str, Any] = {"resourceVersion": self.resource_version}
        if self.continue_token:
            meta |= {"continue": self.continue_token, "remainingItemCount": self.remaining_item_count}
        return {
            "kind": f"{self.resource.kind}List",
            "apiVersion": self.resource.api_version,
            "metadata": meta,
            "items": self.items,
        }


class Paginator:
    """Keeps the remaining objects of partly read lists."""

    def __init__(self) -> None:
        self._lists: OrderedDict[str, tuple[Resource, list[Object], str]] = OrderedDict()
        self._count = 0

    def first_page(self, resource: Resource, items: list[Object], revision: str, limit: int) -> ObjectList:
        """Return the first ``limit`` objects of a list; all if 0."""
        if not limit or len(items) <= limit:
            return ObjectList(resource, items, revision)
        self._count += 1
        list_id = str(self._count)
        self._lists[list_id] = (resource, items, revision)
        if len(self._lists) > _MAX_OPEN_LISTS:
            self._lists.popitem(last=False)
        return self._page(list_id, 0, limit)

    def next_page(self, resource: Resource, token: str, limit: int) -> ObjectList:
        """Return the page of a continue token; Gone if its list has expired."""
        list_id, _, start = token.partition(":")
        if not start.isdigit():
            raise BadRequest(f"continue key is not valid: {token!r}")
        open_list = self._lists.get(list_id)
        if open_list is None:
            raise Gone(
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            )
        if open_list[0] is not resource:
            raise BadRequest(f"continue key is not valid: it continues a list of {open_list[0].plural}")
        self._lists.move_to_end(list_id)
        return self._page(list_id, int(start), limit)

    def _page(self, list_id: str, start: int, limit: int) -> ObjectList:
        resource, items, revision = self._lists[list_id]
        end = start + limit if limit else len(items)
        remaining = max(0, len(items) - end)
        token = f"{list_id}:{end}" if remaining else ""
        return ObjectList(resource, items[start:end], revision, token, remaining)
