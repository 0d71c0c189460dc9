"""The note by which ``kubectl apply`` knows what was written before it."""

from typing import Any, Final

import msgspec

from dovetail.ports.kube import Object

ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"


def as_if_applied(obj: Object) -> dict[str, Any]:
    """Return an object as kubectl would have applied it.

    Without the note, what a user applies over it later could add fields and
    change them, but take none away: a role would stay beside a profile.
    """
    meta = obj["metadata"]
    noted = msgspec.json.encode(obj).decode()
    annotations = {**(meta.get("annotations") or {}), ANNOTATION: noted}
    return {**obj, "metadata": {**meta, "annotations": annotations}}
