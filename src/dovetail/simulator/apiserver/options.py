"""What a caller can ask of reads and patches."""

from enum import StrEnum

import msgspec


class PatchType(StrEnum):
    """The media types of patches; server-side apply is a verb of its own."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class ListOptions(msgspec.Struct, frozen=True):
    """Which objects, how many at a time, and as of when.

    With ``exact`` the list is as of ``resource_version``; otherwise that is the
    least recent state the caller takes, and the answer is the newest.
    """

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_from: str = ""
    resource_version: str = ""
    exact: bool = False


class WatchOptions(msgspec.Struct, frozen=True):
    """Which objects, and from when on.

    Without ``resource_version`` (or with "0") the watch begins with what is
    there. ``initial_events`` asks for the same, ended by a bookmark.
    """

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    bookmarks: bool = False
    initial_events: bool = False
