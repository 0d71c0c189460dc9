"""Templates that StatefulSets and DaemonSets have had, kept as ControllerRevisions."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.ports.api_resources import CONTROLLER_REVISIONS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.owner_references import find, reference_to
from dovetail.simulator.controllermanager.ownership.owned_index import Child, Offspring
from dovetail.simulator.controllermanager.pods.pod_template import (
    REVISION_HASH,
    labels_of,
    template_hash,
)

_KEPT: Final = 10


class History:
    """Writes down each new template, so that a rollout can be held half way and undone."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._revisions = Offspring(site, CONTROLLER_REVISIONS, _nothing)

    def record(self, owner: Object) -> str:
        """Return the name of the revision of the owner's template, written if it is new."""
        template = owner["spec"]["template"]
        mark = template_hash(template)
        namespace, name = key_of(owner)
        key = (namespace, f"{name}-{mark}")
        known = self._of(owner)
        latest = max((one["revision"] for one in known), default=0)
        found = find(self._site.api, CONTROLLER_REVISIONS, key)
        if found is None:
            self._site.api.create(
                CONTROLLER_REVISIONS,
                {
                    "metadata": {
                        "name": key[1],
                        "namespace": namespace,
                        "labels": {**labels_of(template), REVISION_HASH: mark},
                        "ownerReferences": [reference_to(owner)],
                    },
                    "data": {"spec": {"template": {**template, "$patch": "replace"}}},
                    "revision": latest + 1,
                },
            )
        elif found["revision"] < latest:
            patch = {"revision": latest + 1}
            self._site.api.patch(CONTROLLER_REVISIONS, key[1], patch, PatchType.MERGE, namespace)
        return key[1]

    def template(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the template of a revision; None when it is no longer kept."""
        found = find(self._site.api, CONTROLLER_REVISIONS, (namespace, name))
        template = look(found, "data", "spec", "template")
        if template is None:
            return None
        return {key: value for key, value in template.items() if key != "$patch"}

    def forget_old(self, owner: Object, *, used: set[str]) -> None:
        """Delete the oldest revisions beyond the history that the owner keeps."""
        limit = owner["spec"].get("revisionHistoryLimit")
        unused = [one for one in self._of(owner) if one["metadata"]["name"] not in used]
        unused.sort(key=lambda one: int(one["revision"]))
        for one in unused[: max(0, len(unused) - (_KEPT if limit is None else int(limit)))]:
            self._site.delete(CONTROLLER_REVISIONS, one)

    def _of(self, owner: Object) -> list[Object]:
        keys = self._revisions.of(owner["metadata"]["uid"])
        return [one for key in keys if (one := find(self._site.api, CONTROLLER_REVISIONS, key))]


def _nothing(_: Child) -> None:
    """Ignore changes of revisions: nobody but us writes them."""
