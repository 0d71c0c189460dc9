"""ControllerRevisions: the template history of StatefulSets and DaemonSets."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.ports.api_resources import CONTROLLER_REVISIONS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import object_key
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.owner_references import controller_reference
from dovetail.simulator.controllermanager.ownership.owned_index import OwnedIndex
from dovetail.simulator.controllermanager.pods.pod_template import REVISION_HASH, labels_of, template_hash

_DEFAULT_HISTORY_LIMIT: Final = 10  # revisions


class RevisionHistory:
    """Records each new template, so that an update can be partitioned or rolled back."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._revisions = OwnedIndex(context, CONTROLLER_REVISIONS)

    def record(self, owner: Object) -> str:
        """Return the name of the template's revision; create it if it is new."""
        template = owner["spec"]["template"]
        hash_value = template_hash(template)
        namespace, name = object_key(owner)
        key = (namespace, f"{name}-{hash_value}")
        revisions = self._list_revisions(owner)
        latest = max((revision["revision"] for revision in revisions), default=0)
        existing = self._context.find(CONTROLLER_REVISIONS, key)
        if existing is None:
            self._context.api.create(
                CONTROLLER_REVISIONS,
                {
                    "metadata": {
                        "name": key[1],
                        "namespace": namespace,
                        "labels": {**labels_of(template), REVISION_HASH: hash_value},
                        "ownerReferences": [controller_reference(owner)],
                    },
                    "data": {"spec": {"template": {**template, "$patch": "replace"}}},
                    "revision": latest + 1,
                },
            )
        elif existing["revision"] < latest:
            patch = {"revision": latest + 1}
            self._context.api.patch(CONTROLLER_REVISIONS, key[1], patch, PatchType.MERGE, namespace)
        return key[1]

    def template(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the template of a revision; None if it was deleted."""
        revision = self._context.find(CONTROLLER_REVISIONS, (namespace, name))
        template = get_field(revision, "data", "spec", "template")
        if template is None:
            return None
        return {key: value for key, value in template.items() if key != "$patch"}

    def truncate(self, owner: Object, *, used: set[str]) -> None:
        """Delete the oldest revisions beyond the owner's revision history limit."""
        limit = owner["spec"].get("revisionHistoryLimit")
        kept = _DEFAULT_HISTORY_LIMIT if limit is None else int(limit)
        revisions = self._list_revisions(owner)
        unused = [revision for revision in revisions if revision["metadata"]["name"] not in used]
        unused.sort(key=lambda revision: int(revision["revision"]))
        for revision in unused[: max(0, len(unused) - kept)]:
            self._context.delete(CONTROLLER_REVISIONS, revision)

    def _list_revisions(self, owner: Object) -> list[Object]:
        return self._revisions.owned_by(owner["metadata"]["uid"])
