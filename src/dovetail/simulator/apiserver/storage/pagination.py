"""Lists in pages, all pages of one list from the same moment."""

from collections import OrderedDict
from typing import Any, Final

import msgspec

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import BadRequest, Gone
from dovetail.simulator.apiserver.storage.frozen_object import Object

_OPEN_LISTS: Final = 64
"""How many lists may be half read at a time; the longest unread is forgotten first."""


class ObjectList(msgspec.Struct, frozen=True):
    """A page of objects, the moment they are from, and how to get the rest."""

    resource: Resource
    items: list[Object]
    resource_version: str
    continue_from: str = ""
    remaining: int = 0

    def wire(self) -> dict[str, Any]:
        """Return the List object of the wire format."""
        meta: dict[str, Any] = {"resourceVersion": self.resource_version}
        if self.continue_from:
            meta |= {"continue": self.continue_from, "remainingItemCount": self.remaining}
        return {
            "kind": f"{self.resource.kind}List",
            "apiVersion": self.resource.api_version,
            "metadata": meta,
            "items": self.items,
        }


class Pager:
    """Keeps the objects of lists whose readers have not come to the end."""

    def __init__(self) -> None:
        self._lists: OrderedDict[str, tuple[Resource, list[Object], str]] = OrderedDict()
        self._count = 0

    def first(
        self, resource: Resource, items: list[Object], revision: str, limit: int
    ) -> ObjectList:
        """Return the first ``limit`` objects of a list (0: all of them)."""
        if not limit or len(items) <= limit:
            return ObjectList(resource, items, revision)
        self._count += 1
        name = str(self._count)
        self._lists[name] = (resource, items, revision)
        if len(self._lists) > _OPEN_LISTS:
            self._lists.popitem(last=False)
        return self._page(name, 0, limit)

    def following(self, resource: Resource, token: str, limit: int) -> ObjectList:
        """Return the page a token stands for."""
        name, _, start = token.partition(":")
        if not start.isdigit():
            raise BadRequest(f"continue key is not valid: {token!r}")
        kept = self._lists.get(name)
        if kept is None:
            raise Gone(
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            )
        if kept[0] is not resource:
            raise BadRequest(f"continue key is not valid: it continues a list of {kept[0].plural}")
        self._lists.move_to_end(name)
        return self._page(name, int(start), limit)

    def _page(self, name: str, start: int, limit: int) -> ObjectList:
        resource, items, revision = self._lists[name]
        end = start + limit if limit else len(items)
        left = max(0, len(items) - end)
        token = f"{name}:{end}" if left else ""
        return ObjectList(resource, items[start:end], revision, token, left)
