"""Content negotiation: the representation that a client accepts."""

from enum import StrEnum
from typing import Final

from dovetail.ports.kube_errors import ApiError


class NotAcceptable(ApiError):
    """The server has no representation that the client accepts."""

    code, reason = 406, "NotAcceptable"


class Representation(StrEnum):
    """Representation of an object or list; the ``as`` parameter of the Accept header."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"
    DISCOVERY = "APIGroupDiscoveryList"


_JSON: Final = ("application/json", "application/*", "*/*")
_GROUPS: Final = {
    Representation.TABLE: "meta.k8s.io",
    Representation.METADATA: "meta.k8s.io",
    Representation.METADATA_LIST: "meta.k8s.io",
    Representation.DISCOVERY: "apidiscovery.k8s.io",
}
_VERSIONS: Final = {"meta.k8s.io": ("v1",), "apidiscovery.k8s.io": ("v2",)}


def negotiate(accept: str, offered: frozenset[Representation]) -> Representation:
    """Return the first accepted representation that is offered; JSON by default.

    Raises NotAcceptable if the header accepts nothing that is offered.
    """
    media_ranges = [media_range.strip() for media_range in accept.split(",") if media_range.strip()]
    for media_range in media_ranges:
        media_type, *parameters = [part.strip() for part in media_range.split(";")]
        if media_type not in _JSON:
            continue
        values = dict(part.split("=", 1) for part in parameters if "=" in part)
        representation = values.get("as", "")
        if representation in offered and _is_version_served(Representation(representation), values):
            return Representation(representation)
    if not media_ranges:
        return Representation.OBJECT
    raise NotAcceptable("only the following media types are accepted: application/json")


def _is_version_served(representation: Representation, parameters: dict[str, str]) -> bool:
    group = _GROUPS.get(representation)
    return group is None or (parameters.get("g") == group and parameters.get("v") in _VERSIONS.get(group, ()))
