"""Which form of answer a caller wants, from its Accept header."""

from enum import StrEnum
from typing import Final

from dovetail.simulator.rest.errors import NotAcceptable


class Form(StrEnum):
    """How an object or a list is shown; the names are those of the Accept header."""

    PLAIN = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"
    DISCOVERY = "APIGroupDiscoveryList"


_JSON: Final = ("application/json", "application/*", "*/*")
_GROUPS: Final = {
    Form.TABLE: "meta.k8s.io",
    Form.METADATA: "meta.k8s.io",
    Form.METADATA_LIST: "meta.k8s.io",
    Form.DISCOVERY: "apidiscovery.k8s.io",
}
_VERSIONS: Final = {"meta.k8s.io": ("v1",), "apidiscovery.k8s.io": ("v2",)}


def wanted_form(accept: str, offered: frozenset[Form]) -> Form:
    """Return the first form named that there is; without a wish, plain JSON."""
    wishes = [one.strip() for one in accept.split(",") if one.strip()]
    for wish in wishes:
        media, *parameters = [part.strip() for part in wish.split(";")]
        if media not in _JSON:
            continue
        named = dict(part.split("=", 1) for part in parameters if "=" in part)
        form = named.get("as", "")
        if form in offered and _version_is_served(Form(form), named):
            return Form(form)
    if not wishes:
        return Form.PLAIN
    raise NotAcceptable("only the following media types are accepted: application/json")


def _version_is_served(form: Form, named: dict[str, str]) -> bool:
    group = _GROUPS.get(form)
    return group is None or (named.get("g") == group and named.get("v") in _VERSIONS.get(group, ()))
