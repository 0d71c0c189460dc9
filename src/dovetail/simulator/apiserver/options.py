"""Options of API requests, named as in Kubernetes' meta/v1."""

from enum import StrEnum
from typing import Final

import msgspec


class PatchType(StrEnum):
    """Media types of patches; server-side apply is a method of its own."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class ListOptions(msgspec.Struct, frozen=True):
    """Selectors, page size and resource version of a list.

    With ``exact`` (``resourceVersionMatch=Exact``) the list is as of
    ``resource_version``. Otherwise that is the oldest acceptable state, and the
    newest one is returned.
    """

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    """Objects per page; 0 for all."""
    continue_token: str = ""
    resource_version: str = ""
    exact: bool = False


class WatchOptions(msgspec.Struct, frozen=True):
    """Selectors and start of a watch.

    Without ``resource_version`` (or with "0") the watch begins with an ADDED event
    for every existing object. ``send_initial_events`` requests the same, followed by
    a bookmark that ends the list.
    """

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    allow_bookmarks: bool = False
    send_initial_events: bool = False


class WriteOptions(msgspec.Struct, frozen=True):
    """Field manager (for managedFields) and dry run of a create, update or patch."""

    field_manager: str = ""
    dry_run: bool = False


DEFAULT_WRITE_OPTIONS: Final = WriteOptions()


class PropagationPolicy(StrEnum):
    """Treatment of the dependents of a deleted object."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class DeleteOptions(msgspec.Struct, frozen=True):
    """Options of a deletion; ``uid`` and ``resource_version`` are preconditions."""

    grace_period_seconds: int | None = None
    propagation_policy: PropagationPolicy = PropagationPolicy.BACKGROUND
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False
